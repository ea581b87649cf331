"""[fleet]: groups of workers that Ray places on machines, and how many of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from bot.config.mistakes import InvalidValue
from bot.config.section import Section

MOST_WORKERS = 10_000
FINEST = 0.0001  # Ray's unit of a resource
RESERVED = ("CPU", "GPU", "TPU", "memory", "object_store_memory")
"""Resources of Ray that have keys of their own here."""
_Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[\w.+-]+$")]


class GroupConfig(Section):
    """One group: processes of one kind, each with the same resources of one machine."""

    name: _Name
    role: Literal["worker", "front"] = "worker"
    models: tuple[str, ...] = ()
    accelerator: Annotated[str, Field(max_length=64)] = ""
    gpus: Annotated[float, Field(ge=0, le=64)] = 0.0
    tpus: Literal[0, 1, 2, 4, 8] = 0
    cores: Annotated[float, Field(ge=0, le=1024)] = 1.0
    memory_gib: Annotated[float, Field(ge=0, le=16384)] = 0.0
    custom: dict[str, Annotated[float, Field(ge=FINEST, le=MOST_WORKERS)]] = Field(default_factory=dict)
    least: Annotated[int, Field(ge=0, le=MOST_WORKERS)] = 0
    most: Annotated[int, Field(ge=1, le=MOST_WORKERS, validate_default=True)] = 1
    idle_minutes: Annotated[float, Field(ge=0, le=1440)] = 10.0
    target_seconds: Annotated[float, Field(gt=0, le=86400)] = 60.0
    command: tuple[str, ...] = ()
    version: Annotated[str, Field(max_length=64)] = ""

    @field_validator("most")
    @classmethod
    def _covers_the_least(cls, value: int, info: ValidationInfo) -> int:
        least = info.data.get("least", 0)
        if least > value:
            raise InvalidValue(f"{value} is less than least = {least}")
        if info.data.get("role") == "front" and not least:
            raise InvalidValue("fronts do not depend on the waiting work: least says how many of them run")
        return value

    @field_validator("gpus", "cores")
    @classmethod
    def _not_too_fine(cls, value: float) -> float:
        if 0 < value < FINEST:
            raise InvalidValue(f"{value:g} is less than {FINEST}, the least part that Ray counts")
        return value

    @field_validator("custom")
    @classmethod
    def _not_reserved(cls, value: dict[str, float]) -> dict[str, float]:
        if taken := [name for name in RESERVED if name in value]:
            raise InvalidValue(f"{', '.join(taken)}: use the keys cores, gpus, tpus and memory_gib")
        return value

    @field_validator("gpus")
    @classmethod
    def _whole_above_one(cls, value: float) -> float:
        if value > 1 and value != int(value):
            raise InvalidValue(f"{value:g} GPUs: a part of a GPU, or whole GPUs")
        return value

    @property
    def accelerator_class(self) -> str:
        """The class under which run times of this group's workers are kept, and its work is counted."""
        return self.accelerator or ("tpu" if self.tpus else "nvidia" if self.gpus else "cpu")


class FleetConfig(Section):
    """The groups, in the order in which they take work that several of them could do."""

    name: _Name = "sdjax"
    check_seconds: Annotated[float, Field(ge=0.2, le=300)] = 5.0
    groups: tuple[GroupConfig, ...] = ()
