"""What must hold of a sampler's table, and of the one update that runs it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sdjax_engine.request import InvalidRequest, Sampler, UnreadableCheckpoint
from sdjax_engine.samplers import SAMPLERS, default_sampler, pipeline_config, plan
from sdjax_engine.samplers.ddim import DDIM
from sdjax_engine.samplers.step import advance, empty_history, network_input, timestep
from sdjax_engine.samplers.tables import (
    CLEAN,
    HISTORY,
    MAX_ROWS,
    ROW,
    Column,
    Evaluation,
    Level,
    Mix,
    Table,
    Term,
)
from sdjax_engine.samplers.tcd import TCD

SD: dict[str, Any] = {
    "_class_name": "PNDMScheduler",
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "steps_offset": 1,
    "set_alpha_to_one": True,
}
FLOW: dict[str, Any] = {"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}
ON_NOISE = [sampler for sampler in Sampler if not SAMPLERS[sampler].predicts_flow]
TWICE = {Sampler.HEUN, Sampler.DPMPP_SDE}
"""Samplers that ask twice a step, but for the last."""
SHAPE = (3, 4, 2)


def config_for(sampler: Sampler) -> dict[str, Any]:
    """The scheduler config of a checkpoint that the sampler suits."""
    return FLOW if SAMPLERS[sampler].predicts_flow else SD


def noise(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32))


def again(sampler: Sampler, steps: int) -> int:
    """How many evaluations more than steps there are."""
    if sampler is Sampler.PNDM:
        return 1 if steps > 1 else 0
    return steps - 1 if sampler in TWICE else 0


def run(table: Table, *, network: Any, z0: jax.Array) -> jax.Array:
    """Sample one seat to the end, with fresh noise for every evaluation."""
    x = z0[None] * table.init_noise_sigma
    r, history = jnp.zeros_like(x), empty_history(x)
    for index, numbers in enumerate(table.rows):
        row = jnp.asarray(numbers)[None]
        m = network(network_input(x, row), timestep(row))
        x, r, history = advance(x, r, history, m, noise(index, *x.shape), row)
    return x[0]


@pytest.mark.parametrize("sampler", [sampler for sampler in ON_NOISE if sampler is not Sampler.TCD])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 20])
def test_a_network_that_knows_the_picture_is_led_to_it(sampler: Sampler, steps: int) -> None:
    """With m the noise that is left over one known picture, every method ends on that picture."""
    picture = noise(1, *SHAPE)
    alpha_bar = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2)

    def network(x: jax.Array, t: jax.Array) -> jax.Array:
        a = float(np.interp(float(t[0]), np.arange(1000), alpha_bar))
        return (x - a**0.5 * picture) / (1 - a) ** 0.5

    end = run(plan(sampler, steps, SD), network=network, z0=noise(2, *SHAPE))
    np.testing.assert_allclose(end, picture, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_a_flow_that_knows_the_picture_is_led_to_it(steps: int) -> None:
    picture = noise(1, *SHAPE)

    def network(x: jax.Array, t: jax.Array) -> jax.Array:
        return (x - picture) / (float(t[0]) / 1000)

    end = run(plan(Sampler.FLOW_EULER, steps, FLOW), network=network, z0=noise(2, *SHAPE))
    np.testing.assert_allclose(end, picture, atol=1e-4)


@pytest.mark.parametrize("sampler", Sampler)
@pytest.mark.parametrize("steps", [1, 2, 3, 20, 150])
def test_a_table_has_one_row_for_each_evaluation(sampler: Sampler, steps: int) -> None:
    table = plan(sampler, steps, {**config_for(sampler), "original_inference_steps": 150})
    assert table.evaluations == steps + again(sampler, steps)
    assert table.evaluations <= MAX_ROWS
    assert table.rows.shape == (table.evaluations, ROW)
    assert table.rows.dtype == np.float32


def test_only_stochastic_methods_read_fresh_noise() -> None:
    tables = {sampler: plan(sampler, 20, config_for(sampler)) for sampler in Sampler}
    noisy = {sampler for sampler, table in tables.items() if table.rows[:, Column.X + Term.Z].any()}
    assert noisy == {
        Sampler.EULER_ANCESTRAL,
        Sampler.DPMPP_2M_SDE,
        Sampler.DPMPP_2M_SDE_KARRAS,
        Sampler.DPMPP_SDE,
        Sampler.LCM,
        Sampler.TCD,
        Sampler.DDPM,
    }
    assert DDIM.read(SD).table(20, eta=1.0).rows[:, Column.X + Term.Z].any()
    assert not TCD.read(SD).table(20, eta=0.0).rows[:, Column.X + Term.Z].any()


def test_every_column_is_where_its_name_says() -> None:
    x = Mix(x=5, r=6, h=[7, 8, 9, 10, 11], z=12)
    r = Mix(x=13, r=14, h=[15, 16, 17, 18, 19], z=20)
    first = Evaluation(level=CLEAN, t=1, s=2, p=3, q=4, x=x, r=r)
    row = Table.of([first, replace(first, level=Level(21, 22))]).rows[0]
    assert row.tolist() == list(range(1, 23))
    assert row[Column.X + Term.Z] == 12
    assert row[Column.R + Term.X] == 13
    assert (row[Column.KEEP_LATENTS], row[Column.KEEP_NOISE]) == (21, 22)


def test_one_step_computes_what_the_table_s_definition_says() -> None:
    rows = np.random.default_rng(3).standard_normal((2, ROW), np.float32)
    x, r, m, z = (noise(seed, 2, *SHAPE) for seed in range(4))
    history = noise(4, 2, HISTORY, *SHAPE)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        got = jax.jit(advance)(x, r, history, m, z, jnp.asarray(rows))
    for seat, row in enumerate(rows):
        h_0 = row[Column.P] * x[seat] + row[Column.Q] * m[seat]
        terms = np.stack([x[seat], r[seat], h_0, *history[seat], z[seat]])
        kept = np.stack([h_0, *history[seat][:-1]])
        matrix = row[Column.X : Column.KEEP_LATENTS].reshape(2, len(Term))
        expected = (*np.tensordot(matrix, terms, 1), kept)
        for ours, wanted in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours[seat], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sampler", Sampler)
def test_a_seat_s_result_has_the_same_bits_in_any_seat_and_any_company(sampler: Sampler) -> None:
    tables = [plan(name, 4, config_for(name)).padded(7) for name in (sampler, *Sampler)]
    rows = jnp.asarray(np.stack(tables)[:, 1])
    seats = len(tables)
    x, m, z, r = (jnp.broadcast_to(noise(seed, 1, *SHAPE), (seats, *SHAPE)) for seed in range(4))
    history = jnp.broadcast_to(noise(5, 1, HISTORY, *SHAPE), (seats, HISTORY, *SHAPE))
    step = jax.jit(advance)
    together = step(x, r, history, m, z, rows)
    turned = step(x, r, history, m, z, jnp.roll(rows, 3, axis=0))
    for one, other in zip(together, turned, strict=True):
        np.testing.assert_array_equal(one[0], other[3])


def test_nothing_of_an_earlier_image_reaches_the_next_in_its_seat() -> None:
    """What a method has not written yet it does not read, were it a NaN."""
    for sampler in Sampler:
        table = plan(sampler, 7, config_for(sampler))
        x = noise(1, 1, *SHAPE)
        r, history = jnp.full_like(x, np.nan), jnp.full_like(empty_history(x), np.nan)
        for numbers in table.rows:
            x, r, history = advance(x, r, history, x, x, jnp.asarray(numbers)[None])
            assert jnp.isfinite(x).all(), sampler


def test_a_finished_seat_rests_while_others_go_on() -> None:
    table = plan(Sampler.EULER, 3, SD)
    rows = table.padded(5)
    np.testing.assert_array_equal(rows[:3], table.rows)
    x, r, m = noise(1, 1, *SHAPE), noise(2, 1, *SHAPE), jnp.full((1, *SHAPE), jnp.nan)
    x_next, r_next, _ = advance(x, r, empty_history(x), m, m, jnp.asarray(rows[3:4]))
    np.testing.assert_array_equal(x_next, x)
    np.testing.assert_array_equal(r_next, r)


def test_a_table_longer_than_the_lane_s_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="21 rows does not fit in 20"):
        plan(Sampler.PNDM, 20, SD).padded(20)


def test_the_network_s_output_may_be_bfloat16_and_the_arithmetic_stays_float32() -> None:
    x = noise(1, 1, *SHAPE)
    row = jnp.asarray(plan(Sampler.EULER, 3, SD).rows[:1])
    with jax.numpy_dtype_promotion("strict"):
        results = advance(x, x, empty_history(x), x.astype(jnp.bfloat16), x, row)
    assert {result.dtype for result in results} == {jnp.dtype(jnp.float32)}


def test_tables_are_shared_and_cannot_be_written() -> None:
    table = plan(Sampler.DDIM, 20, SD)
    assert plan(Sampler.DDIM, 20, dict(SD)) is table
    with pytest.raises(ValueError, match="read-only"):
        table.rows[0, 0] = 1.0


@pytest.mark.parametrize("steps", [0, -1, 1001])
def test_a_count_of_steps_that_the_schedule_does_not_have_is_the_person_s_mistake(steps: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(Sampler.DDIM, steps, SD)
    assert caught.value.details == {"value": steps, "limit": 1000}


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
def test_a_value_that_cannot_be_honoured_is_refused_by_the_name_of_its_key(
    sampler: Sampler, key: str, value: object
) -> None:
    with pytest.raises(UnreadableCheckpoint, match=key):
        plan(sampler, 20, {**SD, key: value})


@pytest.mark.parametrize("key", ["use_dynamic_shifting", "invert_sigmas"])
def test_a_flow_s_value_that_cannot_be_honoured_is_refused_by_the_name_of_its_key(key: str) -> None:
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
def test_more_steps_than_the_distillation_had_are_the_person_s_mistake(sampler: Sampler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(sampler, 51, SD)
    assert caught.value.details == {"value": 51, "limit": 50}


def test_all_bad_values_are_told_at_once() -> None:
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


def test_the_sampler_s_name_decides_whether_sigmas_are_karras() -> None:
    for says in (True, False):
        config = {**SD, "use_karras_sigmas": says}
        plain, karras = plan(Sampler.DPMPP_2M, 20, config), plan(Sampler.DPMPP_2M_KARRAS, 20, config)
        assert plain is plan(Sampler.DPMPP_2M, 20, SD)
        assert karras is plan(Sampler.DPMPP_2M_KARRAS, 20, SD)
        assert not np.array_equal(plain.rows, karras.rows)


def test_the_sampler_s_name_decides_whether_the_solver_adds_noise() -> None:
    for says in ("dpmsolver++", "sde-dpmsolver++", "dpmsolver"):
        config = {**SD, "algorithm_type": says}
        plain, noisy = plan(Sampler.DPMPP_2M, 20, config), plan(Sampler.DPMPP_2M_SDE, 20, config)
        assert plain is plan(Sampler.DPMPP_2M, 20, SD)
        assert noisy is plan(Sampler.DPMPP_2M_SDE, 20, SD)


def test_keys_that_nobody_chose_take_the_defaults_of_the_sampler_s_own_class() -> None:
    written = {**SD, "timestep_spacing": "leading", "_use_default_values": ["timestep_spacing"]}
    assert plan(Sampler.EULER, 5, written).rows[0, Column.TIMESTEP] == 999
    assert plan(Sampler.DDIM, 5, written).rows[0, Column.TIMESTEP] == 801


def test_null_means_missing() -> None:
    config = {**SD, "trained_betas": None, "variance_type": None, "use_karras_sigmas": None}
    for sampler in ON_NOISE:
        assert plan(sampler, 3, config) is plan(sampler, 3, SD)


@pytest.mark.parametrize("sampler", Sampler)
def test_a_checkpoint_s_own_sampler_is_found_by_its_class_name(sampler: Sampler) -> None:
    ours = SAMPLERS[sampler]
    decided = {key: ours.model_fields[key].default for key in ours.named}
    config = {"_class_name": ours.reference, **decided}
    assert default_sampler(config) is sampler
    assert default_sampler({**config, "_class_name": f"Flax{config['_class_name']}"}) is sampler


@pytest.mark.parametrize("algorithm_type", ["dpmsolver", "sde-dpmsolver"])
def test_a_checkpoint_s_own_solver_that_there_is_no_sampler_for_is_refused(algorithm_type: str) -> None:
    with pytest.raises(UnreadableCheckpoint, match="algorithm_type"):
        default_sampler({"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": algorithm_type})


@pytest.mark.parametrize("config", [{}, {"_class_name": "KDPM2DiscreteScheduler"}])
def test_an_unknown_class_name_is_refused_with_those_there_are(config: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"_class_name.*PNDMScheduler"):
        default_sampler(config)


def test_an_old_config_is_read_as_the_reference_s_pipeline_reads_it() -> None:
    old = {**SD, "steps_offset": 0, "clip_sample": True, "_use_default_values": ["steps_offset"]}
    new = {**SD, "steps_offset": 1, "clip_sample": False}
    assert plan(Sampler.DDIM, 20, pipeline_config(old)) is plan(Sampler.DDIM, 20, new)
    flax = pipeline_config(old, pipeline="FlaxStableDiffusionPipeline")
    assert plan(Sampler.DDIM, 20, flax) is plan(Sampler.DDIM, 20, new)


def test_a_pipeline_that_corrects_nothing_uses_the_config_as_it_is_written() -> None:
    old = {**SD, "steps_offset": 0, "clip_sample": True}
    assert pipeline_config(old, pipeline="StableDiffusionXLPipeline").items() >= old.items()
    inpainting = pipeline_config({**SD, "skip_prk_steps": False}, pipeline="StableDiffusionInpaintPipeline")
    assert plan(Sampler.PNDM, 20, inpainting) is plan(Sampler.PNDM, 20, SD)


@pytest.mark.parametrize("sampler", Sampler)
def test_a_picture_to_start_from_leaves_so_much_of_the_steps_but_at_least_one(sampler: Sampler) -> None:
    config = config_for(sampler)
    assert plan(sampler, 20, config).init_latent_scale == 0
    for strength, left in ((1.0, 20), (0.5, 10), (0.05, 1), (0.0, 1)):
        table = plan(sampler, 20, config, strength=strength)
        doubled = 1 if sampler is Sampler.PNDM else again(sampler, left)  # even where one step is left
        assert table.evaluations == left + doubled
        assert table.init_latent_scale > 0 or strength == 1
        np.testing.assert_array_equal(
            table.rows[-1, Column.KEEP_LATENTS :], [1, 0], "the picture itself at the end"
        )


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_a_strength_out_of_range_is_the_person_s_mistake(strength: float) -> None:
    with pytest.raises(InvalidRequest, match="between 0 and 1"):
        plan(Sampler.DDIM, 20, SD, strength=strength)
