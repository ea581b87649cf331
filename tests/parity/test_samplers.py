"""Each sampler's table against the scheduler of the same name in `diffusers`.

A fixed nonlinear function stands for the network. Sixty seats of one batch hold the tables of 1 to 60
steps, as they would in a lane; the reference runs them one after the other. Differences are the
largest of any latent, relative to the reference's largest latent, both sides in float32.
Run with `-s` to see the figures.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS, plan
from sdjax_engine.samplers.ddim import DDIM
from sdjax_engine.samplers.step import advance, empty_history, network_input, timestep
from sdjax_engine.samplers.tables import Column, Table

pytestmark = [
    pytest.mark.parity,
    # The reference hands torch tensors to NumPy 2, which tells torch so.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

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
ROWS = 61
EVERY = range(1, 61)
SOME = (1, 2, 3, 4, 5, 6, 9, 14, 15, 16, 25, 50, 60)
SPACINGS = ("leading", "linspace", "trailing")
PREDICTIONS = {
    Sampler.DDIM: ("epsilon", "v_prediction", "sample"),
    Sampler.PNDM: ("epsilon", "v_prediction"),
    Sampler.EULER: ("epsilon", "v_prediction", "sample"),
    Sampler.EULER_ANCESTRAL: ("epsilon", "v_prediction"),
    Sampler.DPMPP_2M: ("epsilon", "v_prediction", "sample"),
    Sampler.DPMPP_2M_KARRAS: ("epsilon", "v_prediction", "sample"),
}
SHAPE = (4, 4, 4)
Z0 = np.random.default_rng(1).standard_normal(SHAPE, np.float32)
NOISE = np.random.default_rng(2).standard_normal((ROWS, *SHAPE), np.float32)
PICTURE = np.random.default_rng(3).standard_normal(SHAPE, np.float32)
EVERYTHING = np.ones(SHAPE, np.float32)
HALF = np.repeat(np.array([[[1.0], [0.0], [1.0], [0.0]]], np.float32), 4, axis=0).repeat(4, axis=2)
TOLERANCE = 1e-4
SPACED = "1–60 steps, every spacing and prediction type"
OPTIONAL = "other options and sources, 13 counts of 1–60 steps"

Figures = dict[tuple[Sampler, str], float]


def network(xp: Any, x: Any, t: Any) -> Any:
    """Answer for latents `x` at time `t`, alike in `jax.numpy` and `torch`: smooth, bounded, not linear."""
    return 0.7 * xp.tanh(1.1 * x + 0.4 * xp.roll(x, 1, -1)) + 0.3 * xp.cos(0.5 * x + t / 150)


@jax.jit
def paint(x: jax.Array, rows: jax.Array, mask: jax.Array) -> jax.Array:
    """Run `rows` of `(seats, ROWS, ROW)` on the first latents `x`; seat and sampler change no shape.

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
    rows = np.stack([table.padded(ROWS) for table in tables])
    scales = np.array([(table.init_latent_scale, table.init_noise_sigma) for table in tables], np.float32)
    of_picture, of_noise = scales.T.reshape(2, -1, 1, 1, 1)
    x = of_picture * PICTURE + of_noise * Z0
    return np.asarray(paint(jnp.asarray(x), jnp.asarray(rows), jnp.asarray(mask)))


def paint_by_reference(scheduler: Any, steps: int, **options: Any) -> np.ndarray:
    scheduler.set_timesteps(steps)
    x = torch.from_numpy(Z0.copy())[None] * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        m = network(torch, scheduler.scale_model_input(x, t), t.to(torch.float32))
        x = scheduler.step(m, t, x, **options).prev_sample
    return x[0].numpy()


def repaint_by_reference(scheduler: Any, steps: int, *, strength: float, mask: np.ndarray) -> np.ndarray:
    """Start from `PICTURE` and keep it where `mask` is 0, as the reference's pipelines use a scheduler."""
    noise, picture = (torch.from_numpy(array.copy())[None] for array in (Z0, PICTURE))
    scheduler.set_timesteps(steps)
    begin = steps - min(int(steps * strength), steps)
    timesteps = scheduler.timesteps[begin * scheduler.order :]
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(begin * scheduler.order)
    x = scheduler.add_noise(picture, noise, timesteps[:1])
    for index, t in enumerate(timesteps):
        m = network(torch, scheduler.scale_model_input(x, t), t.to(torch.float32))
        x = scheduler.step(m, t, x).prev_sample
        later = timesteps[index + 1 : index + 2]
        kept = scheduler.add_noise(picture, noise, later) if len(later) else picture
        x = torch.where(torch.from_numpy(mask) == 0, kept, x)
    return x[0].numpy()


@dataclass
class Reference:
    """Makes the reference's schedulers, whose noise comes from `NOISE`."""

    monkeypatch: pytest.MonkeyPatch

    def scheduler(self, sampler: Sampler, config: Mapping[str, Any]) -> Any:
        name = SAMPLERS[sampler].reference
        own = {}
        if "use_karras_sigmas" in SAMPLERS[sampler].named:
            own["use_karras_sigmas"] = sampler is Sampler.DPMPP_2M_KARRAS
        return getattr(diffusers, name).from_config(dict(config), **own)

    def paint(self, scheduler: Any, steps: int, **options: Any) -> np.ndarray:
        self._feed_noise(scheduler)
        return paint_by_reference(scheduler, steps, **options)

    def repaint(self, scheduler: Any, steps: int, *, strength: float, mask: np.ndarray) -> np.ndarray:
        self._feed_noise(scheduler)
        return repaint_by_reference(scheduler, steps, strength=strength, mask=mask)

    def _feed_noise(self, scheduler: Any) -> None:
        module = importlib.import_module(type(scheduler).__module__)
        if hasattr(module, "randn_tensor"):
            noise = iter(NOISE)
            fed = lambda shape, **_: torch.from_numpy(next(noise).copy()).reshape(shape)  # noqa: E731
            self.monkeypatch.setattr(module, "randn_tensor", fed)


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Reference:
    return Reference(monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[Figures]:
    """Collect the worst difference of each sampler and print them at the end."""
    worst: Figures = {}
    yield worst
    print("\n| sampler | reference | compared | worst relative difference |\n|---|---|---|---|")
    for (sampler, compared), difference in sorted(worst.items()):
        print(f"| {sampler} | {SAMPLERS[sampler].reference} | {compared} | {difference:.1e} |")


def compare(
    reference: Reference,
    figures: Figures,
    sampler: Sampler,
    config: Mapping[str, Any],
    all_steps: Sequence[int],
    *,
    compared: str = OPTIONAL,
    tolerance: float = TOLERANCE,
) -> None:
    """Assert that `sampler` paints with `config` what the reference paints, for every count of steps."""
    scheduler = reference.scheduler(sampler, config)
    tables = [plan(sampler, steps, config) for steps in all_steps]
    for steps, table, ours in zip(all_steps, tables, paint_tables(tables), strict=True):
        theirs = reference.paint(scheduler, steps)
        assert table.evaluations == len(scheduler.timesteps), f"{steps} steps"
        difference = relative_difference(ours, theirs)
        figures[sampler, compared] = max(figures.get((sampler, compared), 0.0), difference)
        assert difference < tolerance, f"{steps} steps"


def relative_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def cases() -> Iterator[Any]:
    for sampler, predictions in PREDICTIONS.items():
        for spacing in SPACINGS:
            for prediction in predictions:
                yield pytest.param(sampler, spacing, prediction, id=f"{sampler}-{spacing}-{prediction}")


@pytest.mark.parametrize(("sampler", "spacing", "prediction"), list(cases()))
def test_each_sampler_paints_what_its_reference_paints_in_1_to_60_steps(
    reference: Reference, figures: Figures, sampler: Sampler, spacing: str, prediction: str
) -> None:
    config = {**SD, "timestep_spacing": spacing, "prediction_type": prediction}
    compare(reference, figures, sampler, config, EVERY, compared=SPACED)


OPTIONS: dict[Sampler, list[dict[str, Any]]] = {
    Sampler.DDIM: [
        {"steps_offset": 0},
        {"set_alpha_to_one": True},
        {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
        {"rescale_betas_zero_snr": True, "prediction_type": "sample", "timestep_spacing": "linspace"},
        {"beta_schedule": "linear", "beta_start": 0.0001, "beta_end": 0.02},
        {"beta_schedule": "squaredcos_cap_v2"},
        {"trained_betas": [0.001 + 0.0001 * t for t in range(200)], "num_train_timesteps": 200},
    ],
    Sampler.PNDM: [
        {"steps_offset": 0},
        {"set_alpha_to_one": True},
        {"set_alpha_to_one": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
    ],
    Sampler.EULER: [
        {"steps_offset": 0, "timestep_spacing": "leading"},
        {"final_sigmas_type": "sigma_min"},
        {"use_karras_sigmas": True},
        {"use_karras_sigmas": True, "sigma_min": 0.05, "sigma_max": 12.0},
        {"use_karras_sigmas": True, "timestep_spacing": "leading"},
        {"rescale_betas_zero_snr": True, "timestep_spacing": "leading"},
    ],
    Sampler.EULER_ANCESTRAL: [
        {"steps_offset": 0, "timestep_spacing": "leading"},
        {"rescale_betas_zero_snr": True, "timestep_spacing": "leading"},
    ],
    Sampler.DPMPP_2M: [
        {"steps_offset": 0, "timestep_spacing": "leading"},
        {"use_karras_sigmas": True},
        {"lower_order_final": False},
        {"euler_at_final": True, "final_sigmas_type": "sigma_min"},
        {"final_sigmas_type": "sigma_min"},
        {"final_sigmas_type": "sigma_min", "lower_order_final": False},
        {"solver_type": "heun"},
        {"solver_type": "bh2"},
        {"solver_order": 1},
        {"solver_order": 3},
        {"solver_order": 3, "final_sigmas_type": "sigma_min"},
        {"solver_order": 3, "lower_order_final": False},
        {"algorithm_type": "deis", "final_sigmas_type": "sigma_min"},
        {"algorithm_type": "sde-dpmsolver++"},
        {"algorithm_type": "sde-dpmsolver++", "solver_type": "heun"},
        {"algorithm_type": "sde-dpmsolver++", "solver_order": 3, "final_sigmas_type": "sigma_min"},
        {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1},
        {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
    ],
    Sampler.DPMPP_2M_KARRAS: [
        {"final_sigmas_type": "sigma_min"},
        {"solver_type": "heun"},
        {"algorithm_type": "sde-dpmsolver++"},
        {"euler_at_final": True},
    ],
}


def option_cases() -> Iterator[Any]:
    for sampler, all_options in OPTIONS.items():
        for options in all_options:
            name = ",".join(f"{key}={str(value)[:14]}" for key, value in options.items())
            yield pytest.param(sampler, options, id=f"{sampler}-{name}")


@pytest.mark.parametrize(("sampler", "options"), list(option_cases()))
def test_each_option_of_a_scheduler_config_is_honoured_as_the_reference_does(
    reference: Reference, figures: Figures, sampler: Sampler, options: dict[str, Any]
) -> None:
    compare(reference, figures, sampler, {**SD, **options}, SOME)


@pytest.mark.parametrize("sampler", [Sampler.EULER, Sampler.EULER_ANCESTRAL])
def test_euler_starts_from_pure_noise_where_the_reference_loses_digits(
    reference: Reference, figures: Figures, sampler: Sampler
) -> None:
    """σ is 4096 there; the reference subtracts numbers of that size in float32, which ours does not."""
    options = {
        "rescale_betas_zero_snr": True,
        "prediction_type": "v_prediction",
        "timestep_spacing": "trailing",
    }
    compared = "zero terminal SNR, v-prediction, trailing"
    compare(reference, figures, sampler, {**SD, **options}, SOME, compared=compared, tolerance=1e-3)


@pytest.mark.parametrize(
    "source", ["DDIM", "PNDM", "EulerDiscrete", "EulerAncestralDiscrete", "DPMSolverMultistep"]
)
@pytest.mark.parametrize("sampler", Sampler)
def test_a_config_written_for_another_scheduler_is_read_as_from_config_reads_it(
    reference: Reference, figures: Figures, sampler: Sampler, source: str
) -> None:
    written = getattr(diffusers, f"{source}Scheduler").from_config(SD).config
    compare(reference, figures, sampler, dict(written), (1, 2, 20))


@pytest.mark.parametrize("sampler", Sampler)
@pytest.mark.parametrize("spacing", SPACINGS)
def test_a_picture_to_start_from_is_painted_as_the_reference_s_pipelines_paint_it(
    reference: Reference, figures: Figures, sampler: Sampler, spacing: str
) -> None:
    """Strengths and steps that leave one step, two, all but one, all; half of the picture kept or none."""
    config = {**SD, "timestep_spacing": spacing}
    scheduler = reference.scheduler(sampler, config)
    wishes = [
        (20, 0.05),
        (20, 0.1),
        (20, 0.3),
        (20, 0.75),
        (20, 0.96),
        (20, 1.0),
        (3, 0.4),
        (3, 0.7),
        (1, 1.0),
    ]
    tables = [plan(sampler, steps, config, strength=strength) for steps, strength in wishes]
    for mask, compared in ((EVERYTHING, "from a picture"), (HALF, "with half of the picture kept")):
        pictures = paint_tables(tables, mask=mask)
        for (steps, strength), ours in zip(wishes, pictures, strict=True):
            theirs = reference.repaint(scheduler, steps, strength=strength, mask=mask)
            difference = relative_difference(ours, theirs)
            figures[sampler, compared] = max(figures.get((sampler, compared), 0.0), difference)
            assert difference < TOLERANCE, f"{steps} steps, strength {strength}, {compared}"


@pytest.mark.parametrize("prediction", PREDICTIONS[Sampler.DDIM])
@pytest.mark.parametrize("eta", [0.3, 1.0])
def test_ddim_adds_eta_noise_as_the_reference_does(
    reference: Reference, figures: Figures, eta: float, prediction: str
) -> None:
    config = {**SD, "prediction_type": prediction, "set_alpha_to_one": True}
    scheduler = reference.scheduler(Sampler.DDIM, config)
    tables = [DDIM.read(config).table(steps, eta=eta) for steps in SOME]
    for steps, ours in zip(SOME, paint_tables(tables), strict=True):
        difference = relative_difference(ours, reference.paint(scheduler, steps, eta=eta))
        named = Sampler.DDIM, f"eta {eta}, 13 counts of 1–60 steps"
        figures[named] = max(figures.get(named, 0.0), difference)
        assert difference < TOLERANCE, f"{steps} steps"


@pytest.mark.parametrize("sampler", Sampler)
@pytest.mark.parametrize("spacing", SPACINGS)
def test_the_network_is_told_the_reference_s_timesteps_and_the_first_noise_has_its_sigma(
    reference: Reference, sampler: Sampler, spacing: str
) -> None:
    config = {**SD, "timestep_spacing": spacing}
    scheduler = reference.scheduler(sampler, config)
    for steps in range(1, 151):
        scheduler.set_timesteps(steps)
        table = plan(sampler, steps, config)
        told = scheduler.timesteps.numpy()
        # "trailing" with 61 steps and a few more counts has a timestep of -1 at the end, by rounding.
        np.testing.assert_allclose(table.rows[:, 0], told[told >= 0], rtol=1e-6, atol=1e-4)
        assert table.init_noise_sigma == pytest.approx(float(scheduler.init_noise_sigma), rel=1e-5)
