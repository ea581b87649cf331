"""A sampler's settings from a checkpoint's `scheduler_config.json`, and the tables of requests with them.

A request may choose another sampler than the checkpoint names. The reference's `from_config` then takes the
keys that the chosen class knows, uses that class's defaults for missing keys and ignores all other keys.
`SchedulerConfig.read` does the same. Unsupported values are reported in one error.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.samplers.tables import Table

Beta = Annotated[float, Field(gt=0, lt=1)]
Off = Literal[False]


class SchedulerConfig(BaseModel):
    """The keys that every sampler reads, with the reference's names and defaults.

    A subclass is one sampler: it adds keys, narrows the supported values and computes the
    table. Instances are frozen and hashable.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    reference: ClassVar[str]
    """The class in `diffusers` that this sampler reproduces."""
    named: ClassVar[frozenset[str]] = frozenset()
    """Keys that the sampler itself decides; the checkpoint's values are ignored."""
    predicts_flow: ClassVar[bool] = False
    """Whether the sampler is for networks that predict a rectified flow, eps - x_0."""

    num_train_timesteps: int = Field(1000, ge=1, le=100_000)
    beta_start: Beta = 0.0001
    beta_end: Beta = 0.02
    beta_schedule: Literal["linear", "scaled_linear", "squaredcos_cap_v2"] = "linear"
    trained_betas: tuple[Beta, ...] | None = Field(None, min_length=1)
    timestep_spacing: Literal["leading", "linspace", "trailing"] = "linspace"
    steps_offset: int = Field(0, ge=0)

    @classmethod
    def read(cls, scheduler_config: Mapping[str, Any]) -> Self:
        """Return this sampler's settings; `UnreadableCheckpoint` names the bad keys of `scheduler_config`.

        Keys listed under `_use_default_values` and keys that are null count as missing.
        """
        if predicts_flow(scheduler_config) is not cls.predicts_flow:
            predicts = "a flow, eps - x_0" if predicts_flow(scheduler_config) else "no flow"
            raise UnreadableCheckpoint(
                f"scheduler_config.json for {cls.reference}: by its _class_name or prediction_type the "
                f"checkpoint predicts {predicts}"
            )
        unchosen = cls.named | set(unchosen_keys(scheduler_config))
        chosen = {
            key: value for key, value in scheduler_config.items() if key not in unchosen and value is not None
        }
        try:
            return cls.model_validate(chosen)
        except ValidationError as error:
            faults = "; ".join(_fault(entry["loc"], entry["input"], entry["msg"]) for entry in error.errors())
            raise UnreadableCheckpoint(f"scheduler_config.json for {cls.reference}: {faults}") from None

    def plan(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table of this sampler for `num_inference_steps` steps.

        With a `strength` from 0 to 1 the table starts from a picture: this share of the steps is left, as in
        the reference's image-to-image pipelines, and at least one step, where the reference raises an error.
        Raises `InvalidRequest` for more steps than trained timesteps, and `UnreadableCheckpoint` for a
        schedule that gives no finite coefficients.
        """
        if not 1 <= num_inference_steps <= self.num_train_timesteps:
            raise InvalidRequest("steps", value=num_inference_steps, limit=self.num_train_timesteps)
        if strength is None:
            return _table(self, num_inference_steps, 0)
        if not 0 <= strength <= 1:
            raise InvalidRequest("strength", value=strength)
        left = max(1, int(num_inference_steps * strength))
        return _table(self, num_inference_steps, num_inference_steps - left).on_picture()

    @abstractmethod
    def table(self, num_inference_steps: int, *, begin: int = 0) -> Table:
        """Return the table of this sampler for `num_inference_steps` steps, without the first `begin`.

        The timesteps are those of the whole table, but a multistep method starts with an empty history.
        """


def _table(config: SchedulerConfig, num_inference_steps: int, begin: int) -> Table:
    # The table raises for values that are not finite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return config.table(num_inference_steps, begin=begin)


def unchosen_keys(scheduler_config: Mapping[str, Any]) -> list[str]:
    """Return the keys listed under `_use_default_values`; values that are no text are ignored."""
    listed = scheduler_config.get("_use_default_values")
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list | tuple) else []


def predicts_flow(scheduler_config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint's network predicts a rectified flow, according to its scheduler."""
    return (
        str(scheduler_config.get("_class_name")).startswith("FlowMatch")
        or scheduler_config.get("prediction_type") == "flow_prediction"
    )


def _fault(location: tuple[int | str, ...], value: object, message: str) -> str:
    return f"{'.'.join(map(str, location))} is {str(value)[:40]!r}: {message}"
