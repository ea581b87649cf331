"""States of jobs and images, and the requests of a recipe."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import OFFER, ORIGIN, RECIPE, recipe

from bot.domain.jobs import State, state_of_job
from bot.domain.sizes import larger_size, nearest_size
from bot.moderation.limits import places_of
from sdjax_engine.request import Variation

STATES = st.lists(st.sampled_from(State), min_size=1, max_size=9)


@given(STATES)
def test_a_job_is_final_exactly_when_all_its_images_are(states: list[State]) -> None:
    assert state_of_job(states).final == all(state.final for state in states)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("waiting waiting", "waiting"),
        ("waiting running", "running"),
        ("waiting done", "running"),
        ("failed running", "running"),
        ("done failed cancelled", "done"),
        ("failed cancelled", "failed"),
        ("cancelled cancelled", "cancelled"),
    ],
)
def test_the_state_of_a_job_sums_up_its_images(states: str, expected: str) -> None:
    assert state_of_job([State(state) for state in states.split()]) is State(expected)


def test_the_token_of_an_interaction_is_not_printed() -> None:
    assert ORIGIN.interaction_token not in repr(ORIGIN)


def test_a_start_picture_saves_the_steps_that_its_strength_leaves_out() -> None:
    whole = recipe(num_inference_steps=20)
    assert (whole.steps, replace(whole, strength=0.5).steps) == (20, 20)  # without a start picture
    started = replace(whole, init_image="aa/picture.png")
    strengths = (1.0, 0.75, 0.5, 0.04, 0.0)
    assert [replace(started, strength=strength).steps for strength in strengths] == [20, 15, 10, 1, 1]
    assert replace(started, strength=0.5).cost == whole.cost / 2


def test_a_picture_is_painted_in_the_size_of_the_nearest_shape() -> None:
    offer = replace(OFFER, sizes=((512, 512), (768, 512), (512, 768), (1024, 1024)))
    found = [nearest_size(size, offer) for size in ((4000, 3000), (3000, 4000), (700, 690), (9000, 10))]
    assert found == [(768, 512), (512, 768), (512, 512), (768, 512)]


def test_shapes_that_differ_by_less_than_a_hundredth_are_the_same_shape() -> None:
    offer = replace(OFFER, sizes=((576, 568), (1024, 1016)))
    assert nearest_size((700, 700), offer) == (576, 568)


def test_a_larger_size_is_the_next_of_the_same_shape() -> None:
    offer = replace(OFFER, sizes=((1536, 1024), (512, 512), (768, 512), (2048, 2048), (1024, 1024)))
    assert larger_size((512, 512), offer) == (1024, 1024)
    assert larger_size((1024, 1024), offer) == (2048, 2048)
    assert larger_size((768, 512), offer) == (1536, 1024)
    assert larger_size((2048, 2048), offer) is None
    assert larger_size((512, 768), offer) is None


def test_the_places_of_a_request_are_its_cost_in_default_pictures() -> None:
    assert places_of(RECIPE, OFFER) == 1
    assert places_of(replace(RECIPE, variants=9), OFFER) == 9
    assert places_of(replace(RECIPE, num_inference_steps=1), OFFER) == 1
    assert places_of(replace(RECIPE, num_inference_steps=30), OFFER) == 2
    assert (
        places_of(replace(RECIPE, width=256, height=256, num_inference_steps=100, variants=9), OFFER) == 180
    )
    assert places_of(replace(RECIPE, init_image="aa/aa.png", strength=0.5, variants=4), OFFER) == 2


NEAR = recipe(seed=7, variants=3, variations=(Variation(seed=2**32 - 1, strength=0.15),))


def test_pictures_near_another_have_its_seed_and_each_the_next_seed_of_the_variation() -> None:
    requests = [NEAR.request(index) for index in range(3)]
    assert [request.seed for request in requests] == [7, 7, 7]
    assert [request.variations[-1].seed for request in requests] == [2**32 - 1, 0, 1]
    assert NEAR.from_image(2).request(0) == NEAR.request(2)
    assert RECIPE.from_image(2).request(0) == RECIPE.request(2)
