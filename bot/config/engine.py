"""[engine]: the engine on this machine's devices."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from bot.config.mistakes import InvalidValue
from bot.config.paths import PathText
from bot.config.section import Section


def _auto_or_switch(value: Any) -> Any:
    if value != "auto" and not isinstance(value, bool):
        raise InvalidValue('true, false or "auto" is wanted')
    return value


class EngineSection(Section):
    """How the engine uses this machine's devices. `EngineConfig` is the engine's own class."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    seats_per_device: Annotated[int, Field(ge=0, le=256)] = 0
    fitted_programs: Annotated[bool | Literal["auto"], BeforeValidator(_auto_or_switch)] = "auto"
    cpu_devices: Annotated[int, Field(ge=0, le=256)] = 0
    device_memory_gib: Annotated[float, Field(ge=0, le=4096)] = 0.0
    preview_seconds: Annotated[float, Field(ge=0, le=3600)] = 3.0
    stuck_seconds: Annotated[float, Field(ge=0, le=86400)] = 300.0
    cache_dir: PathText = "var/cache"
    cache_group: bool = False
    cache_wait: bool = False
    accelerator: Annotated[str, Field(max_length=64)] = ""
