"""The removed Flax schedulers' names over the engine's tables.

They read fewer keys of a `scheduler_config.json` than the reference's torch classes, and what they read as
well as what they did not decides the picture: so here too. Their state is empty, because a schedule is a
table made for each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS, default_sampler, plan
from sdjax_engine.samplers.config import unchosen_keys
from sdjax_engine.samplers.tables import Table
from sdjax_engine.weights.files import find_source

CONFIG = "scheduler_config.json"
TRAINED = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas")
DPMPP = "dpmsolver++"


class FlaxScheduler:
    """A sampler and its settings; `config` holds those that are read.

    Unknown settings are ignored, as `from_config` has always done. A setting that the sampler cannot honour
    is refused by name when a table is asked for.
    """

    sampler: ClassVar[Sampler]
    reads: ClassVar[tuple[str, ...]]
    fixed: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, **config: Any) -> None:
        read = {key: value for key, value in config.items() if key in (*TRAINED, *self.reads)}
        unchosen = [key for key in unchosen_keys(config) if key in read]
        self.config: dict[str, Any] = {**read, **self.fixed, "_use_default_values": unchosen}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return the scheduler with the settings of another."""
        return cls(**config)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        subfolder: str = "scheduler",
        *,
        revision: str | None = None,
    ) -> tuple[Self, dict[str, Any]]:
        """Return the scheduler as a checkpoint, "demo", a folder or a hub id, has it, and its state.

        Raises UnreadableCheckpoint.
        """
        path = find_source(str(pretrained_model_name_or_path), revision=revision, weights=False)
        scheduler = cls.from_config(read_json(path / subfolder / CONFIG))
        return scheduler, scheduler.create_state()

    def create_state(self) -> dict[str, Any]:
        """Return the state that belongs into `params["scheduler"]`: nothing."""
        return {}

    def table(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table for so many steps, from noise or, with a `strength`, from a picture.

        Raises InvalidRequest for steps or a strength out of range, UnreadableCheckpoint for settings that the
        sampler cannot honour.
        """
        return plan(self.sampler, num_inference_steps, self.config, strength=strength)


class FlaxDDIMScheduler(FlaxScheduler):
    """DDIM with evenly spaced timesteps from the first."""

    sampler = Sampler.DDIM
    reads = ("clip_sample", "set_alpha_to_one", "steps_offset", "prediction_type")


class FlaxPNDMScheduler(FlaxScheduler):
    """PNDM without its Runge–Kutta start, one evaluation short.

    Its first step takes two evaluations, and the removed pipelines counted evaluations as steps: the last
    one, at the first trained timesteps, never happened.
    """

    sampler = Sampler.PNDM
    reads = ("skip_prk_steps", "set_alpha_to_one", "steps_offset", "prediction_type")

    def table(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table without its last row, unless it is the only one."""
        whole = super().table(num_inference_steps, strength=strength)
        return whole if num_inference_steps == 1 else without_last_row(whole)


class FlaxDPMSolverMultistepScheduler(FlaxScheduler):
    """DPM-Solver++, which stops at the first trained timestep and not at no noise at all."""

    sampler = Sampler.DPMPP_2M
    fixed = MappingProxyType({"final_sigmas_type": "sigma_min"})
    reads = (
        *("solver_order", "prediction_type", "thresholding", "algorithm_type", "solver_type"),
        *("lower_order_final", "timestep_spacing"),
    )

    def table(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table; the older DPM-Solver, which predicts noise, is refused."""
        algorithm = self.config.get("algorithm_type") or DPMPP
        if algorithm != DPMPP:
            raise UnreadableCheckpoint(
                f"scheduler_config.json: algorithm_type is {algorithm!r}; {DPMPP!r} is known here"
            )
        return super().table(num_inference_steps, strength=strength)


class FlaxEulerDiscreteScheduler(FlaxScheduler):
    """Euler's method; evenly spaced timesteps begin one above the first, whatever the file says."""

    sampler = Sampler.EULER
    reads = ("prediction_type", "timestep_spacing")
    fixed = MappingProxyType({"steps_offset": 1})


class OtherScheduler(FlaxScheduler):
    """Any other sampler of the engine, which reads all that its own class reads."""

    def __init__(self, **config: Any) -> None:
        self.config = dict(config)
        self.sampler = default_sampler(config)  # type: ignore[misc]


REMOVED: Mapping[str, type[FlaxScheduler]] = MappingProxyType(
    {
        SAMPLERS[kind.sampler].reference: kind
        for kind in (
            FlaxDDIMScheduler,
            FlaxPNDMScheduler,
            FlaxDPMSolverMultistepScheduler,
            FlaxEulerDiscreteScheduler,
        )
    }
)


def scheduler_of(config: Mapping[str, Any]) -> FlaxScheduler:
    """Return the scheduler that a `scheduler_config.json` names; raises UnreadableCheckpoint."""
    name = str(config.get("_class_name")).removeprefix("Flax")
    return REMOVED.get(name, OtherScheduler).from_config(config)


def without_last_row(table: Table) -> Table:
    """Return the table without its last evaluation."""
    return Table(
        rows=table.rows[:-1],
        estimates=table.estimates[:-1],
        init_noise_sigma=table.init_noise_sigma,
        init_latent_scale=table.init_latent_scale,
        first_level=table.first_level,
    )
