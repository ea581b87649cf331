"""The removed Flax schedulers' names over the engine's tables.

The removed classes read fewer keys of a `scheduler_config.json` than the reference's torch classes. These
classes read the same keys as the removed ones, because the keys decide the picture. A scheduler's state is
empty: a schedule is a table that is computed for each call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.guide.folder import upload
from sdjax_engine.guide.networks import Settings
from sdjax_engine.json_files import read_json
from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS, default_sampler, plan
from sdjax_engine.samplers.schedules import unchosen_keys
from sdjax_engine.samplers.tables import Table
from sdjax_engine.weights.files import HubOptions, find_source

CONFIG = "scheduler_config.json"
TRAINED = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas")
DPMPP = "dpmsolver++"


class FlaxScheduler:
    """A sampler and its settings; `config` holds the settings that are read.

    Unknown settings are ignored, as in the reference's `from_config`. `table` raises UnreadableCheckpoint for
    a setting that the sampler does not support.
    """

    sampler: ClassVar[Sampler]
    reads: ClassVar[tuple[str, ...]]
    fixed: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, **config: Any) -> None:
        read = {key: value for key, value in config.items() if key in (*TRAINED, *self.reads)}
        unchosen = [key for key in unchosen_keys(config) if key in read]
        self.config = Settings({**read, **self.fixed, "_use_default_values": unchosen})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return a scheduler with the settings of another scheduler's config."""
        return cls(**config)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path | None = None,
        subfolder: str | None = None,
        return_unused_kwargs: bool = False,
        *,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        proxies: Mapping[str, str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        **settings: Any,
    ) -> tuple[Any, ...]:
        """Return the scheduler of a checkpoint ("demo", a folder or a hub id), and its state.

        Without a `subfolder` its file is that of the folder itself, or of its folder "scheduler".

        `settings` have priority over the file's; with `return_unused_kwargs` those that are not read are
        returned too, between scheduler and state. Raises UnreadableCheckpoint.
        """
        path = find_source(
            str(pretrained_model_name_or_path),
            revision=revision,
            weights=False,
            hub=HubOptions(
                cache_dir=cache_dir, proxies=proxies, local_files_only=local_files_only, token=token
            ),
        )
        if subfolder is None and not (path / CONFIG).is_file():
            subfolder = "scheduler"
        scheduler = cls.from_config(read_json(path / (subfolder or "") / CONFIG) | settings)
        unused = {key: value for key, value in settings.items() if key not in scheduler.config}
        return (scheduler, *([unused] if return_unused_kwargs else []), scheduler.create_state())

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **hub: Any) -> None:
        """Write scheduler_config.json into a folder; `hub` is as in a pipeline's `save_pretrained`."""
        place = Path(save_directory)
        place.mkdir(parents=True, exist_ok=True)
        settings = {key: value for key, value in self.config.items() if not key.startswith("_")}
        settings |= {"_class_name": SAMPLERS[self.sampler].reference}
        (place / CONFIG).write_text(json.dumps(settings, indent=2), encoding="utf-8")
        if push_to_hub:
            upload(place, **hub)

    def create_state(self, common: Any = None) -> dict[str, Any]:  # noqa: ARG002 – a schedule has no state
        """Return the value of `params["scheduler"]`: an empty state."""
        return {}

    def table(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table of `num_inference_steps` steps, from noise or, with a `strength`, from a picture.

        Raises InvalidRequest for steps or a strength out of range, UnreadableCheckpoint for settings that the
        sampler does not support.
        """
        return plan(self.sampler, num_inference_steps, self.config, strength=strength)


class FlaxDDIMScheduler(FlaxScheduler):
    """DDIM with timesteps of the spacing "leading"."""

    sampler = Sampler.DDIM
    reads = ("clip_sample", "set_alpha_to_one", "steps_offset", "prediction_type")


class FlaxPNDMScheduler(FlaxScheduler):
    """PNDM without its Runge–Kutta start and without its last evaluation.

    The first step takes two evaluations, and the removed pipelines counted evaluations as steps. They never
    ran the last evaluation, at the smallest timestep.
    """

    sampler = Sampler.PNDM
    reads = ("skip_prk_steps", "set_alpha_to_one", "steps_offset", "prediction_type")

    def table(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table without its last row, unless it is the only one."""
        whole = super().table(num_inference_steps, strength=strength)
        return whole if num_inference_steps == 1 else without_last_row(whole)


class FlaxDPMSolverMultistepScheduler(FlaxScheduler):
    """DPM-Solver++ that ends at the noise of the first trained timestep, not at zero noise."""

    sampler = Sampler.DPMPP_2M
    fixed = MappingProxyType({"final_sigmas_type": "sigma_min"})
    reads = (
        *("solver_order", "prediction_type", "thresholding", "algorithm_type", "solver_type"),
        *("lower_order_final", "timestep_spacing"),
    )

    def table(self, num_inference_steps: int, *, strength: float | None = None) -> Table:
        """Return the table; raises UnreadableCheckpoint for the older DPM-Solver, which predicts noise."""
        algorithm = self.config.get("algorithm_type") or DPMPP
        if algorithm != DPMPP:
            raise UnreadableCheckpoint(
                f"scheduler_config.json: algorithm_type is {algorithm!r}; {DPMPP!r} is known here"
            )
        return super().table(num_inference_steps, strength=strength)


class FlaxEulerDiscreteScheduler(FlaxScheduler):
    """Euler's method; `steps_offset` is always 1 with evenly spaced timesteps."""

    sampler = Sampler.EULER
    reads = ("prediction_type", "timestep_spacing")
    fixed = MappingProxyType({"steps_offset": 1})


class OtherScheduler(FlaxScheduler):
    """Any other sampler of the engine; it reads every key that the sampler reads."""

    def __init__(self, **config: Any) -> None:
        self.config = Settings(config)
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
