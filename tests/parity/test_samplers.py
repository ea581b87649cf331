"""Each sampler's table against the scheduler of the same name in `diffusers`.

A fixed nonlinear function stands for the network. Sixty seats of one batch hold the tables of 1 to 60
steps, as they would in a lane; the reference runs them one after the other. Differences are the
largest of any latent, relative to the reference's largest latent, both sides in float32.
Run with `-s` to see the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import diffusers
import numpy as np
import pytest
from diffusers.pipelines.flux2 import pipeline_flux2_klein
from diffusers.pipelines.z_image import pipeline_z_image
from sampler_reference import (
    SD,
    Figures,
    Reference,
    config_for,
    paint_tables,
    relative_difference,
)

from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS, plan
from sdjax_engine.samplers.ddim import DDIM
from sdjax_engine.samplers.lcm import TCD
from sdjax_engine.samplers.tables import Column, Term

pytestmark = [
    pytest.mark.parity,
    # The reference converts torch tensors by NumPy 2, which warns about torch's `__array__`.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

EVERY = {"leading": range(1, 61), "linspace": range(1, 61, 2), "trailing": (1, *range(2, 61, 2))}
SOME = (1, 2, 3, 4, 5, 6, 14, 15, 25, 50)
SPACINGS = ("leading", "linspace", "trailing")
TOLERANCE = 1e-4
SPACED = "1–60 steps, every spacing and prediction type"
OPTIONAL = "other options and sources"


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


def predictions_of(sampler: Sampler) -> tuple[str, ...]:
    return SAMPLERS[sampler].model_fields["prediction_type"].annotation.__args__  # type: ignore[union-attr]


def cases() -> Iterator[Any]:
    """Every spacing with every prediction type; `EVERY` count of steps with the first, `SOME` with others."""
    for sampler in Sampler:
        spaced = sampler not in {Sampler.LCM, Sampler.TCD, Sampler.FLOW_EULER}
        for spacing in SPACINGS if spaced else SPACINGS[:1]:
            for prediction in predictions_of(sampler):
                yield pytest.param(sampler, spacing, prediction, id=f"{sampler}-{spacing}-{prediction}")


@pytest.mark.parametrize(("sampler", "spacing", "prediction"), list(cases()))
def test_each_sampler_paints_what_its_reference_paints_in_1_to_60_steps(
    reference: Reference, figures: Figures, sampler: Sampler, spacing: str, prediction: str
) -> None:
    config = config_for(sampler, timestep_spacing=spacing, prediction_type=prediction)
    all_steps = EVERY[spacing] if prediction == predictions_of(sampler)[0] else SOME
    if sampler in {Sampler.LCM, Sampler.TCD}:
        config["original_inference_steps"] = 60
    compare(reference, figures, sampler, config, all_steps, compared=SPACED)


RESPACED = [{"use_karras_sigmas": True}, {"use_exponential_sigmas": True}, {"use_beta_sigmas": True}]
ZERO_SNR = {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"}
OPTIONS: dict[Sampler, list[dict[str, Any]]] = {
    Sampler.DDIM: [
        {"steps_offset": 0},
        {"set_alpha_to_one": True},
        ZERO_SNR,
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
        *RESPACED,
        {"steps_offset": 0, "timestep_spacing": "leading"},
        {"final_sigmas_type": "sigma_min"},
        {"use_karras_sigmas": True, "sigma_min": 0.05, "sigma_max": 12.0},
        {"use_exponential_sigmas": True, "sigma_min": 0.05, "final_sigmas_type": "sigma_min"},
        {"use_beta_sigmas": True, "sigma_max": 12.0, "timestep_spacing": "trailing"},
        {"use_karras_sigmas": True, "timestep_spacing": "leading"},
        {"rescale_betas_zero_snr": True, "timestep_spacing": "leading"},
        {"interpolation_type": "log_linear"},
        {"interpolation_type": "log_linear", "use_karras_sigmas": True, "timestep_spacing": "leading"},
        {"timestep_type": "continuous", "prediction_type": "v_prediction", "use_karras_sigmas": True},
        {"timestep_type": "continuous"},
    ],
    Sampler.EULER_ANCESTRAL: [
        {"steps_offset": 0, "timestep_spacing": "leading"},
        {"rescale_betas_zero_snr": True, "timestep_spacing": "leading"},
    ],
    Sampler.DPMPP_2M: [
        *RESPACED[1:],
        {"use_lu_lambdas": True},
        {"use_exponential_sigmas": True, "final_sigmas_type": "sigma_min", "lower_order_final": False},
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
        {"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1},
        ZERO_SNR,
    ],
    Sampler.DPMPP_2M_KARRAS: [
        {"final_sigmas_type": "sigma_min"},
        {"solver_type": "heun"},
        {"euler_at_final": True},
        {"use_beta_sigmas": True},
    ],
    Sampler.DPMPP_2M_SDE: [
        *RESPACED[1:],
        {"solver_type": "heun"},
        {"solver_order": 1},
        {"solver_order": 3, "final_sigmas_type": "sigma_min"},
    ],
    Sampler.DPMPP_2M_SDE_KARRAS: [{"solver_type": "heun"}, {"euler_at_final": True}],
    Sampler.DPMPP_SDE: [
        *RESPACED,
        {"steps_offset": 0, "timestep_spacing": "leading", "use_karras_sigmas": True},
    ],
    Sampler.HEUN: [
        *RESPACED,
        {"steps_offset": 0, "timestep_spacing": "leading"},
        {"beta_schedule": "squaredcos_cap_v2", "use_karras_sigmas": True, "timestep_spacing": "leading"},
    ],
    Sampler.UNIPC: [
        *RESPACED,
        *({**respaced, "final_sigmas_type": "sigma_min"} for respaced in RESPACED),
        {"use_karras_sigmas": True, "sigma_min": 0.05, "sigma_max": 12.0, "final_sigmas_type": "sigma_min"},
        {"solver_order": 1},
        {"solver_order": 3},
        {"solver_order": 3, "solver_type": "bh1", "final_sigmas_type": "sigma_min"},
        {"solver_type": "bh1", "final_sigmas_type": "sigma_min"},
        {"solver_type": "midpoint"},
        {"lower_order_final": False, "final_sigmas_type": "sigma_min", "solver_order": 3},
        {"disable_corrector": [0, 1, 4], "solver_order": 3},
        {"predict_x0": False, "final_sigmas_type": "sigma_min"},
        {"predict_x0": False, "final_sigmas_type": "sigma_min", "prediction_type": "v_prediction"},
        {"predict_x0": False, "final_sigmas_type": "sigma_min", "prediction_type": "sample"},
        {"predict_x0": False, "final_sigmas_type": "sigma_min", "solver_order": 3, "solver_type": "bh1"},
        {"steps_offset": 0, "timestep_spacing": "leading"},
        ZERO_SNR,
    ],
    Sampler.LCM: [
        {"original_inference_steps": 100, "timestep_scaling": 3.0},
        {"num_train_timesteps": 200, "original_inference_steps": 60},
        ZERO_SNR,
    ],
    Sampler.TCD: [{"original_inference_steps": 100}, {"beta_schedule": "linear"}, ZERO_SNR],
    Sampler.DDPM: [
        {"variance_type": "fixed_small_log"},
        {"variance_type": "fixed_large"},
        {"variance_type": "fixed_large", "timestep_spacing": "trailing", "steps_offset": 0},
        ZERO_SNR,
    ],
    Sampler.FLOW_EULER: [
        *RESPACED,
        {"shift": 1.0},
        {"shift_terminal": 0.1, "steps": SOME[1:]},
        {"stochastic_sampling": True},
        {"num_train_timesteps": 200, "shift": 6.0},
    ],
}


def option_cases() -> Iterator[Any]:
    for sampler, all_options in OPTIONS.items():
        for options in all_options:
            name = ",".join(f"{key}={str(value)[:14]}" for key, value in options.items())
            yield pytest.param(sampler, options, id=f"{sampler}-{name}")


@pytest.mark.parametrize(("sampler", "options"), list(option_cases()))
def test_each_option_of_a_scheduler_config_works_as_in_the_reference(
    reference: Reference, figures: Figures, sampler: Sampler, options: dict[str, Any]
) -> None:
    all_steps = options.get("steps", SOME)  # one step has no end to stretch a flow to
    config = config_for(sampler, **{key: value for key, value in options.items() if key != "steps"})
    compare(reference, figures, sampler, config, all_steps)


Z_IMAGE = {"ladder": "even", "mu": "linear", "strength_rounds_up": True}
SIZES = ((512, 512), (1024, 1024), (832, 1216), (256, 320), (2048, 1024))
SHIFTS: dict[str, dict[str, Any]] = {
    "static 3": {"shift": 3.0},
    "static 6": {"shift": 6.0},
    "exponential": {"use_dynamic_shifting": True, "shift": 3.0},
    "linear": {
        "use_dynamic_shifting": True,
        "time_shift_type": "linear",
        "base_shift": 0.7,
        "max_shift": 2.5,
    },
}


def theirs(shift: Mapping[str, Any], ladder: str, steps: int, pixels: int) -> Any:
    """The reference's scheduler, whose pipeline chose the σ before the shift and the shift's parameter."""
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(**shift)
    names = ("base_image_seq_len", "max_image_seq_len", "base_shift", "max_shift")
    mu = pipeline_z_image.calculate_shift(pixels // 256, *(scheduler.config[name] for name in names))
    if ladder == "even":
        scheduler.set_timesteps(sigmas=pipeline_z_image.get_default_z_image_sigmas(steps), mu=mu)
    else:
        scheduler.set_timesteps(steps, mu=mu)
    return scheduler


@pytest.mark.parametrize("ladder", ["even", "shifted ends"])
@pytest.mark.parametrize("name", SHIFTS)
def test_a_flow_has_the_noise_levels_of_the_pipeline_at_every_size(name: str, ladder: str) -> None:
    config = {**config_for(Sampler.FLOW_EULER), **Z_IMAGE, "ladder": ladder, **SHIFTS[name]}
    for height, width in SIZES:
        for steps in range(1, 51):
            rows = plan(Sampler.FLOW_EULER, steps, config, pixels=height * width).rows
            reference = theirs(SHIFTS[name], ladder, steps, height * width)
            np.testing.assert_allclose(rows[:, Column.TIMESTEP], reference.timesteps, rtol=2e-6)
            change = np.diff(np.asarray(reference.sigmas, np.float64))
            np.testing.assert_allclose(rows[:, Column.X + Term.H0], change, atol=3e-7)


def test_a_flow_whose_shift_depends_on_the_steps_has_the_noise_levels_of_its_pipeline() -> None:
    flux2 = {"ladder": "even", "mu": "empirical", "use_dynamic_shifting": True, "shift": 3.0}
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0)
    for pixels in (512 * 512, 1024 * 1024, 1040 * 1072, 2048 * 2048):
        for steps in (1, 4, 9, 28, 50):
            config = {**config_for(Sampler.FLOW_EULER), **flux2}
            rows = plan(Sampler.FLOW_EULER, steps, config, pixels=pixels).rows
            mu = pipeline_flux2_klein.compute_empirical_mu(pixels // 256, steps)
            scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=mu)
            np.testing.assert_allclose(rows[:, Column.TIMESTEP], scheduler.timesteps, rtol=2e-6)
            change = np.diff(np.asarray(scheduler.sigmas, np.float64))
            np.testing.assert_allclose(rows[:, Column.X + Term.H0], change, atol=3e-7)


def test_a_shift_by_size_in_place_of_a_static_one_is_noticed() -> None:
    rows, fixed = (
        plan(Sampler.FLOW_EULER, 8, {**config_for(Sampler.FLOW_EULER), **Z_IMAGE, **shift}, pixels=2**20).rows
        for shift in (SHIFTS["exponential"], SHIFTS["static 3"])
    )
    assert np.abs(rows - fixed).max() > 1e-2


def test_a_start_picture_leaves_the_steps_that_the_pipeline_leaves() -> None:
    config = {**config_for(Sampler.FLOW_EULER), **Z_IMAGE}
    wrong = 0
    for steps in (1, 4, 8, 9, 28):
        for strength in (0.05, 0.3, 0.55, 0.6, 0.99, 1.0):
            scheduler = theirs(SHIFTS["static 3"], "even", steps, 2**20)
            pipe = SimpleNamespace(scheduler=scheduler)
            timesteps, left = diffusers.ZImageImg2ImgPipeline.get_timesteps(pipe, steps, strength, "cpu")
            table = plan(Sampler.FLOW_EULER, steps, config, strength=strength)
            assert table.evaluations == left
            np.testing.assert_allclose(table.rows[:, Column.TIMESTEP], timesteps, rtol=2e-6)
            wrong += left != max(1, int(steps * strength))
    assert wrong


@pytest.mark.parametrize("sampler", [Sampler.EULER, Sampler.EULER_ANCESTRAL])
def test_euler_keeps_precision_for_a_large_first_sigma(
    reference: Reference, figures: Figures, sampler: Sampler
) -> None:
    """The first σ is 4096: the reference subtracts numbers of that size in float32, ours does not."""
    compared = "zero terminal SNR, v-prediction, trailing"
    config = config_for(sampler, **ZERO_SNR)
    compare(reference, figures, sampler, config, SOME, compared=compared, tolerance=1e-3)


@pytest.mark.parametrize("sampler", [sampler for sampler in Sampler if sampler is not Sampler.FLOW_EULER])
def test_a_config_written_for_another_scheduler_is_read_as_from_config_reads_it(
    reference: Reference, figures: Figures, sampler: Sampler
) -> None:
    for source in ("DDIM", "PNDM", "EulerDiscrete", "DPMSolverMultistep", "UniPCMultistep", "LCM", "DDPM"):
        written = dict(getattr(diffusers, f"{source}Scheduler").from_config(SD).config)
        saved = {key: value for key, value in written.items() if not key.startswith("_use")}
        for config in (written, saved):
            compare(reference, figures, sampler, config, (1, 5))


@pytest.mark.parametrize("sampler", [sampler for sampler in Sampler if sampler is not Sampler.FLOW_EULER])
def test_keys_that_an_old_config_lacks_have_the_reference_s_defaults(
    reference: Reference, figures: Figures, sampler: Sampler
) -> None:
    """Except `clip_sample` and `skip_prk_steps`: Stable Diffusion never had their defaults."""
    compare(reference, figures, sampler, {"clip_sample": False, "skip_prk_steps": True}, (1, 2, 20))


@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sampler", [Sampler.DDIM, Sampler.TCD])
def test_eta_adds_as_much_noise_as_in_the_reference(
    reference: Reference, figures: Figures, sampler: Sampler, eta: float
) -> None:
    for prediction in predictions_of(sampler):
        config = config_for(sampler, prediction_type=prediction, set_alpha_to_one=True)
        scheduler = reference.scheduler(sampler, config)
        read = DDIM.read(config) if sampler is Sampler.DDIM else TCD.read(config)
        tables = [read.table(steps, eta=eta) for steps in SOME]
        for steps, ours in zip(SOME, paint_tables(tables), strict=True):
            difference = relative_difference(ours, reference.paint(scheduler, steps, eta=eta))
            named = sampler, f"eta {eta:g}"
            figures[named] = max(figures.get(named, 0.0), difference)
            assert difference < TOLERANCE, f"{steps} steps, {prediction}"


@pytest.mark.parametrize("sampler", Sampler)
@pytest.mark.parametrize("spacing", SPACINGS)
def test_timesteps_and_the_first_sigma_equal_the_reference(
    reference: Reference, sampler: Sampler, spacing: str
) -> None:
    config = config_for(sampler, timestep_spacing=spacing, original_inference_steps=150)
    scheduler = reference.scheduler(sampler, config)
    for steps in (*range(1, 151, 7), 61, 103, 121, 122):
        scheduler.set_timesteps(steps)
        table = plan(sampler, steps, config)
        # "trailing" with 61 steps and a few more counts has a timestep of -1 at the end, by rounding.
        told = scheduler.timesteps.numpy()[: table.evaluations]
        np.testing.assert_allclose(table.rows[:, 0], told, rtol=1e-6, atol=1e-4)
        sigma = float(getattr(scheduler, "init_noise_sigma", 1.0))
        assert table.init_noise_sigma == pytest.approx(sigma, rel=1e-5)
