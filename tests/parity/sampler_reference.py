"""Samplers' tables and the reference's schedulers, run on the same noise with the same stand-in network."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from diffusers.configuration_utils import ConfigMixin

from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS
from sdjax_engine.samplers.step import advance, empty_history, network_input, timestep
from sdjax_engine.samplers.tables import Column, Table

SD = {
    "_class_name": "PNDMScheduler",
    "_diffusers_version": "0.6.0",
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "num_train_timesteps": 1000,
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
    "trained_betas": None,
    "clip_sample": False,
}
FLOW = {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0}
ROWS = 120  # of 60 steps with two evaluations
SEATS = (3, 10, 31, 60)
"""The sizes of batches: smaller ones are filled up, so that few programs are compiled."""
SHAPE = (4, 4, 4)
Z0, PICTURE = np.random.default_rng(1).standard_normal((2, *SHAPE), np.float32)
NOISE = np.random.default_rng(2).standard_normal((ROWS, *SHAPE), np.float32)
EVERYTHING = np.ones(SHAPE, np.float32)

Figures = dict[tuple[Sampler, str], float]


def config_for(sampler: Sampler, **options: Any) -> dict[str, Any]:
    """The scheduler config of a checkpoint that the sampler suits."""
    return {**(FLOW if SAMPLERS[sampler].predicts_flow else SD), **options}


def network(xp: Any, x: Any, t: Any) -> Any:
    """Return a smooth, bounded, nonlinear function of latents `x` and time `t`, in `jax.numpy` or `torch`."""
    return 0.7 * xp.tanh(1.1 * x + 0.4 * xp.roll(x, 1, -1)) + 0.3 * xp.cos(0.5 * x + t / 150)


@jax.jit
def paint(x: jax.Array, rows: jax.Array, mask: jax.Array) -> jax.Array:
    """Run tables, `rows` of `(seats, evaluations, ROW)`, on the first latents `x`; all have the same shapes.

    Where `mask` is 0 the picture is kept.
    """

    def evaluate(state: tuple[jax.Array, ...], step: tuple[jax.Array, jax.Array]) -> Any:
        (x, r, history), (row, z) = state, step
        m = network(jnp, network_input(x, row), timestep(row).reshape(-1, 1, 1, 1))
        x, r, history = advance(x, r, history, m, jnp.broadcast_to(z, x.shape), row)
        latents, noise = row[:, Column.KEEP_LATENTS], row[:, Column.KEEP_NOISE]
        kept = latents.reshape(-1, 1, 1, 1) * PICTURE + noise.reshape(-1, 1, 1, 1) * Z0
        return (jnp.where(mask == 0, kept, x), r, history), None

    state = (x, jnp.zeros_like(x), empty_history(x))
    (x, _, _), _ = jax.lax.scan(evaluate, state, (rows.swapaxes(0, 1), jnp.asarray(NOISE)))
    return x


def paint_tables(tables: Sequence[Table], *, mask: np.ndarray = EVERYTHING) -> np.ndarray:
    """The last latents of each table, all of them seats of one batch."""
    seats = next(seats for seats in SEATS if seats >= len(tables))
    filled = [*tables, *[tables[-1]] * (seats - len(tables))]
    rows = np.stack([table.padded(ROWS) for table in filled])
    scales = np.array([(table.init_latent_scale, table.init_noise_sigma) for table in filled], np.float32)
    of_picture, of_noise = scales.T.reshape(2, -1, 1, 1, 1)
    x = of_picture * PICTURE + of_noise * Z0
    return np.asarray(paint(jnp.asarray(x), jnp.asarray(rows), jnp.asarray(mask)))[: len(tables)]


@dataclass
class BrownianMotion:
    """The noise of `DPMSolverSDEScheduler`, made of `NOISE`, one for each evaluation.

    A step draws first the noise up to its midpoint and then the noise of the whole step, which includes the
    first.
    """

    noise: Iterator[np.ndarray]
    middle: float | None = None
    first: torch.Tensor = field(default_factory=lambda: torch.zeros(()))

    def __call__(self, sigma: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        drawn = torch.from_numpy(next(self.noise).copy())[None]
        if self.middle is None:
            self.middle, self.first = float(goal), drawn
            return drawn
        start, middle, end = float(sigma), self.middle, float(goal)
        self.middle = None
        way = (start - middle) ** 0.5 * self.first + (middle - end) ** 0.5 * drawn
        return way / (start - end) ** 0.5


init_keys = functools.cache(ConfigMixin._get_init_keys)


@dataclass
class Reference:
    """Makes the reference's schedulers and runs them on `Z0`, `PICTURE` and `NOISE`."""

    monkeypatch: pytest.MonkeyPatch

    def scheduler(self, sampler: Sampler, config: Mapping[str, Any]) -> Any:
        """The scheduler that the sampler equals, made by `from_config` as in a pipeline."""
        # It warns about every key of another scheduler.
        told = logging.getLogger("diffusers.configuration_utils")
        self.monkeypatch.setattr(told, "disabled", True)
        keys = staticmethod(lambda kind: set(init_keys(kind)))  # `from_config` reads those of all schedulers
        self.monkeypatch.setattr(ConfigMixin, "_get_init_keys", keys)
        ours = SAMPLERS[sampler]
        own = {key: ours.model_fields[key].default for key in ours.named}
        return getattr(diffusers, ours.reference).from_config(dict(config), **own)

    @torch.inference_mode()
    def paint(self, scheduler: Any, steps: int, **options: Any) -> np.ndarray:
        """Paint from noise, as the text-to-image pipelines do."""
        self._prepare(scheduler, steps)
        x = torch.from_numpy(Z0.copy())[None] * getattr(scheduler, "init_noise_sigma", 1.0)
        for t in scheduler.timesteps:
            x = self._step(scheduler, t, x, **options)
        return np.asarray(x[0])

    @torch.inference_mode()
    def repaint(self, scheduler: Any, steps: int, *, strength: float, mask: np.ndarray) -> np.ndarray:
        """Paint from `PICTURE`, kept where `mask` is 0, as image-to-image and inpainting pipelines do."""
        self._prepare(scheduler, steps)
        picture = torch.from_numpy(PICTURE.copy())[None]
        begin = (steps - min(int(steps * strength), steps)) * scheduler.order
        timesteps = scheduler.timesteps[begin:]
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(begin)
        x = self._noisy(scheduler, picture, timesteps[:1])
        for index, t in enumerate(timesteps):
            x = self._step(scheduler, t, x)
            later = timesteps[index + 1 : index + 2]
            kept = self._noisy(scheduler, picture, later) if len(later) else picture
            x = torch.where(torch.from_numpy(mask) == 0, kept, x)
        return np.asarray(x[0])

    def _prepare(self, scheduler: Any, steps: int) -> None:
        scheduler.set_timesteps(steps)
        if hasattr(scheduler, "set_begin_index"):  # otherwise it confuses the two equal first timesteps
            scheduler.set_begin_index(0)
        noise = iter(NOISE)
        module = importlib.import_module(type(scheduler).__module__)
        if hasattr(module, "randn_tensor"):
            fed = lambda shape, **_: torch.from_numpy(next(noise).copy()).reshape(shape)  # noqa: E731
            self.monkeypatch.setattr(module, "randn_tensor", fed)
        if hasattr(scheduler, "noise_sampler"):
            scheduler.noise_sampler = BrownianMotion(noise)

    def _step(self, scheduler: Any, t: torch.Tensor, x: torch.Tensor, **options: Any) -> torch.Tensor:
        told = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
        m = network(torch, told, t.to(torch.float32))
        after: torch.Tensor = scheduler.step(m, t, x, return_dict=False, **options)[0]
        return after

    def _noisy(self, scheduler: Any, picture: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        noise = torch.from_numpy(Z0.copy())[None]
        if hasattr(scheduler, "scale_noise"):
            noisy: torch.Tensor = scheduler.scale_noise(picture, timesteps, noise)
        else:
            noisy = scheduler.add_noise(picture, noise, timesteps)
        return noisy


def relative_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the reference's largest value; infinite if it is not finite."""
    difference = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return difference if np.isfinite(difference) else float("inf")


def print_figures(figures: Figures) -> None:
    """Print the worst difference of each sampler as a table."""
    print("\n| sampler | reference | compared | worst relative difference |\n|---|---|---|---|")
    for (sampler, compared), difference in sorted(figures.items()):
        print(f"| {sampler} | {SAMPLERS[sampler].reference} | {compared} | {difference:.1e} |")
