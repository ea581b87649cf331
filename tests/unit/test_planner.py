"""Samplers that do not suit a checkpoint's schedule are found before painting."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from engines import PLAIN, TINY, like

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.model.prepare import Planner
from sdjax_engine.request import Sampler
from sdjax_engine.samplers import plan

SD: dict[str, Any] = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}
FLOW: dict[str, Any] = {"_class_name": "FlowMatchEulerDiscreteScheduler"}
PREDICTS_THE_PICTURE = {**SD, "prediction_type": "sample"}
UNSUITED = (Sampler.PNDM, Sampler.EULER_ANCESTRAL, Sampler.DPMPP_SDE, Sampler.FLOW_EULER)
SUITED = tuple(sampler for sampler in Sampler if sampler not in UNSUITED)


def test_a_request_gets_its_table() -> None:
    planner = Planner(TINY, SD)
    assert [*planner.samplers] == [sampler for sampler in Sampler if sampler is not Sampler.FLOW_EULER]
    table = planner.table(PLAIN)
    np.testing.assert_array_equal(table.rows, plan(PLAIN.sampler, PLAIN.num_inference_steps, SD).rows)


@pytest.mark.parametrize("sampler", UNSUITED)
def test_a_sampler_that_does_not_suit_is_refused_with_those_that_do(sampler: Sampler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Planner(TINY, PREDICTS_THE_PICTURE).table(like(sampler=sampler))
    assert caught.value.problem == "unsuited_sampler"
    choices = ", ".join(SUITED)
    assert str(caught.value) == f"The sampler “{sampler}” does not suit tiny: choose from {choices}."


@pytest.mark.parametrize("sampler", SUITED)
def test_every_sampler_that_is_named_can_be_used(sampler: Sampler) -> None:
    assert Planner(TINY, PREDICTS_THE_PICTURE).table(like(sampler=sampler)).evaluations


def test_only_a_sampler_for_flows_suits_a_network_that_predicts_one() -> None:
    offer = dataclasses.replace(TINY, sampler=Sampler.FLOW_EULER)
    assert [*Planner(offer, FLOW).samplers] == [Sampler.FLOW_EULER]
    with pytest.raises(UnreadableCheckpoint, match=r"sampler ddim \(flow_euler would suit\)"):
        Planner(TINY, FLOW)


def test_an_offer_whose_own_sampler_does_not_suit_is_refused_by_the_key_and_with_those_that_do() -> None:
    offer = dataclasses.replace(TINY, sampler=Sampler.PNDM)
    with pytest.raises(UnreadableCheckpoint, match=r"tiny .*pndm \(ddim, .* would suit\): .*prediction_type"):
        Planner(offer, PREDICTS_THE_PICTURE)


def test_a_schedule_that_no_sampler_suits_is_refused_by_the_key() -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"sampler ddim: .*beta_schedule"):
        Planner(TINY, {**SD, "beta_schedule": "quadratic"})


def test_an_offer_of_more_steps_than_were_trained_is_refused() -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"4 steps: .*num_train_timesteps = 3"):
        Planner(TINY, {**SD, "num_train_timesteps": 3})


@pytest.mark.parametrize(("steps", "limit"), [(100, 99), (101, 100)])
def test_steps_outside_the_schedule_raise_invalid_request(steps: int, limit: int) -> None:
    """The hundredth of a hundred timesteps lies one beyond the last, by the offset that pipelines add."""
    planner = Planner(TINY, {**SD, "num_train_timesteps": 100, "steps_offset": 1})
    with pytest.raises(InvalidRequest) as caught:
        planner.table(like(num_inference_steps=steps))
    assert (caught.value.problem, caught.value.details) == ("steps", {"value": steps, "limit": limit})


def test_only_a_picture_gives_the_strength_a_meaning() -> None:
    planner = Planner(TINY, SD)
    whole = planner.table(like(num_inference_steps=20))
    other = planner.table(like(num_inference_steps=20, strength=0.5))
    np.testing.assert_array_equal(other.rows, whole.rows)
    half = planner.table(like(num_inference_steps=20, strength=0.5, init_image=b"a picture"))
    assert (half.evaluations, half.init_latent_scale > 0) == (10, True)


def test_a_mask_with_full_strength_starts_from_nothing_but_noise() -> None:
    planner = Planner(TINY, SD)
    picture, mask = b"a picture", b"a mask"
    assert planner.table(like(init_image=picture, mask_image=mask)).init_latent_scale == 0
    assert planner.table(like(init_image=picture)).init_latent_scale > 0
    assert planner.table(like(init_image=picture, mask_image=mask, strength=0.9)).init_latent_scale > 0
