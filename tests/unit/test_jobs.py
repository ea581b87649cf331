"""States of jobs and images, and what a recipe asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import ORIGIN, recipe

from bot.jobs import ALLOWED, State, state_of_job

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


def test_nothing_leads_out_of_a_final_state() -> None:
    assert {state for state, following in ALLOWED.items() if not following} == {
        state for state in State if state.final
    }


def test_each_picture_of_a_recipe_has_the_next_seed() -> None:
    asked = recipe(seed=2**32 - 2, variants=4)
    assert [asked.request(index).seed for index in range(4)] == [2**32 - 2, 2**32 - 1, 0, 1]
    assert {asked.request(index).lane for index in range(4)} == {asked.lane}


def test_the_token_of_an_interaction_is_not_printed() -> None:
    assert ORIGIN.interaction_token not in repr(ORIGIN)
