"""How samplers read a checkpoint's scheduler_config.json, and the values that they refuse."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from schedules import FLOW, ON_NOISE, SD

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.families.stable_diffusion.parts import CORRECTIONS
from sdjax_engine.request import Sampler
from sdjax_engine.samplers import SAMPLERS, default_sampler, pipeline_config, plan
from sdjax_engine.samplers.tables import Column, Table


def same(first: Table, second: Table) -> bool:
    """Whether two tables have the same rows, and begin at the same level."""
    return np.array_equal(first.rows, second.rows) and first.first_level == second.first_level


@pytest.mark.parametrize(
    ("sampler", "key", "value"),
    [
        (Sampler.DDIM, "clip_sample", True),
        (Sampler.DDIM, "thresholding", True),
        (Sampler.PNDM, "skip_prk_steps", False),
        (Sampler.PNDM, "prediction_type", "sample"),
        (Sampler.EULER_ANCESTRAL, "prediction_type", "sample"),
        (Sampler.EULER, "final_sigmas_type", "one"),
        (Sampler.DPMPP_2M, "prediction_type", "flow_prediction"),
        (Sampler.DPMPP_2M, "solver_order", 4),
        (Sampler.DPMPP_2M, "use_flow_sigmas", True),
        (Sampler.DPMPP_2M, "variance_type", "learned"),
        (Sampler.DPMPP_2M_SDE, "variance_type", "learned_range"),
        (Sampler.DPMPP_2M_KARRAS, "thresholding", True),
        (Sampler.DPMPP_SDE, "prediction_type", "sample"),
        (Sampler.HEUN, "clip_sample", True),
        (Sampler.UNIPC, "solver_order", 4),
        (Sampler.UNIPC, "solver_p", {"_class_name": "DDIMScheduler"}),
        (Sampler.UNIPC, "use_flow_sigmas", True),
        (Sampler.LCM, "thresholding", True),
        (Sampler.LCM, "original_inference_steps", 1001),
        (Sampler.TCD, "clip_sample", True),
        (Sampler.DDPM, "variance_type", "learned_range"),
        (Sampler.DDPM, "variance_type", "fixed_large_log"),
        (Sampler.DDIM, "beta_schedule", "quadratic"),
        (Sampler.DDIM, "beta_end", 1.5),
        (Sampler.DDIM, "timestep_spacing", "logarithmic"),
        (Sampler.DDIM, "num_train_timesteps", "many"),
        (Sampler.DDIM, "trained_betas", [0.1, 0.2]),
    ],
)
def test_an_unsupported_value_is_refused_by_the_name_of_its_key(
    sampler: Sampler, key: str, value: object
) -> None:
    with pytest.raises(UnreadableCheckpoint, match=key):
        plan(sampler, 20, {**SD, key: value})


@pytest.mark.parametrize("key", ["use_dynamic_shifting", "invert_sigmas"])
def test_an_unsupported_value_of_a_flow_is_refused_by_the_name_of_its_key(key: str) -> None:
    with pytest.raises(UnreadableCheckpoint, match=key):
        plan(Sampler.FLOW_EULER, 20, {**FLOW, key: True})


@pytest.mark.parametrize("sampler", Sampler)
@pytest.mark.parametrize("config", [SD, FLOW, {**SD, "prediction_type": "flow_prediction"}])
def test_only_a_sampler_for_flows_suits_a_network_that_predicts_one(
    sampler: Sampler, config: dict[str, Any]
) -> None:
    if (sampler is Sampler.FLOW_EULER) is (config is not SD):
        assert plan(sampler, 4, config).evaluations >= 4
    else:
        with pytest.raises(UnreadableCheckpoint, match=r"_class_name or prediction_type .* flow"):
            plan(sampler, 4, config)


@pytest.mark.parametrize("sampler", [Sampler.EULER, Sampler.HEUN, Sampler.UNIPC, Sampler.DPMPP_SDE])
def test_sigmas_that_are_to_be_spaced_in_two_ways_are_refused(sampler: Sampler) -> None:
    with pytest.raises(UnreadableCheckpoint, match="only one of use_karras_sigmas, use_beta_sigmas"):
        plan(sampler, 20, {**SD, "use_karras_sigmas": True, "use_beta_sigmas": True})


@pytest.mark.parametrize("sampler", [Sampler.LCM, Sampler.TCD])
def test_more_steps_than_the_distillation_had_raise_invalid_request(sampler: Sampler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(sampler, 51, SD)
    assert caught.value.details == {"value": 51, "limit": 50}


def test_all_bad_values_are_in_one_error() -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"beta_start.*clip_sample"):
        plan(Sampler.DDIM, 20, {**SD, "clip_sample": True, "beta_start": -1})


def test_timesteps_beyond_the_trained_ones_are_refused() -> None:
    with pytest.raises(UnreadableCheckpoint, match="steps_offset"):
        plan(Sampler.DDIM, 20, {**SD, "steps_offset": 60})


def test_pure_noise_and_an_epsilon_prediction_are_refused_together() -> None:
    config = {**SD, "rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    with pytest.raises(UnreadableCheckpoint, match=r"prediction_type.*rescale_betas_zero_snr"):
        plan(Sampler.DDIM, 20, config)
    plan(Sampler.DDIM, 20, {**config, "prediction_type": "v_prediction"})


def test_a_schedule_without_finite_coefficients_is_refused() -> None:
    with pytest.raises(UnreadableCheckpoint, match="no finite coefficients"):
        plan(Sampler.EULER, 20, {"trained_betas": [0.999] * 1000, "prediction_type": "v_prediction"})


@pytest.mark.parametrize("timestep_spacing", ["leading", "linspace", "trailing"])
@pytest.mark.parametrize("sampler", ON_NOISE)
def test_as_many_steps_as_timesteps_give_a_table_or_a_refusal(
    sampler: Sampler, timestep_spacing: str
) -> None:
    """Timesteps repeat then, and solvers divide by the steps between them."""
    for solver_order in (1, 2, 3):
        config = {**SD, "num_train_timesteps": 100, "original_inference_steps": 100}
        config |= {"timestep_spacing": timestep_spacing, "solver_order": solver_order}
        with suppress(UnreadableCheckpoint):
            assert np.isfinite(plan(sampler, 100, config).rows).all()


def test_a_last_step_of_no_length_changes_nothing() -> None:
    """Karras' σ end at the smallest; "sigma_min" appends it again, where the reference divides by zero."""
    config = {**SD, "final_sigmas_type": "sigma_min", "solver_type": "heun"}
    last = plan(Sampler.DPMPP_2M_KARRAS, 20, config).rows[-1]
    assert last[Column.X : Column.R].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("sampler", Sampler)
def test_a_checkpoint_s_own_sampler_is_found_by_its_class_name(sampler: Sampler) -> None:
    ours = SAMPLERS[sampler]
    decided = {key: ours.model_fields[key].default for key in ours.named}
    config = {"_class_name": ours.reference, **decided}
    assert default_sampler(config) is sampler
    assert default_sampler({**config, "_class_name": f"Flax{config['_class_name']}"}) is sampler


@pytest.mark.parametrize("name", ["DDIMParallelScheduler", "FlaxDDIMScheduler"])
def test_other_names_of_a_method_are_read_as_that_method(name: str) -> None:
    assert default_sampler({"_class_name": name}) is Sampler.DDIM


@pytest.mark.parametrize("algorithm_type", ["dpmsolver", "sde-dpmsolver"])
def test_an_unsupported_solver_of_a_checkpoint_is_refused(algorithm_type: str) -> None:
    with pytest.raises(UnreadableCheckpoint, match="algorithm_type"):
        default_sampler({"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": algorithm_type})


@pytest.mark.parametrize("config", [{}, {"_class_name": "KDPM2DiscreteScheduler"}])
def test_an_unknown_class_name_is_refused_with_the_known_ones(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"_class_name.*PNDMScheduler.*the key sampler"):
        default_sampler(config)


@pytest.mark.parametrize("name", ["EDMDPMSolverMultistepScheduler", "EDMEulerScheduler"])
def test_a_network_of_the_edm_schedule_is_refused_whichever_sampler_is_named(name: str) -> None:
    with pytest.raises(
        UnreadableCheckpoint, match=rf"{name}, and a network of the EDM schedule .* any sampler"
    ):
        pipeline_config({**SD, "_class_name": name, "sigma_data": 0.5}, {})


def test_an_old_config_is_read_as_the_reference_s_pipeline_reads_it() -> None:
    old = {**SD, "steps_offset": 0, "clip_sample": True, "_use_default_values": ["steps_offset"]}
    new = {**SD, "steps_offset": 1, "clip_sample": False}
    corrected = pipeline_config(old, CORRECTIONS["StableDiffusionPipeline"])
    assert same(plan(Sampler.DDIM, 20, corrected), plan(Sampler.DDIM, 20, new))


def test_a_pipeline_that_corrects_nothing_uses_the_config_as_it_is_written() -> None:
    old = {**SD, "steps_offset": 0, "clip_sample": True}
    assert pipeline_config(old, {}).items() >= old.items()
    inpainting = pipeline_config(
        {**SD, "skip_prk_steps": False}, CORRECTIONS["StableDiffusionInpaintPipeline"]
    )
    assert same(plan(Sampler.PNDM, 20, inpainting), plan(Sampler.PNDM, 20, SD))
