"""The shares of detected evasions and of accepted innocent prompts."""

import pytest
from moderation_lists import LANGUAGES, Prompts, condemned, held_out_prompts, missed, own_prompts

from bot.moderation import find_all


def caught(prompts: Prompts) -> float:
    return 1 - len(missed(prompts, find_all)) / prompts.evasion_count


def passed(prompts: Prompts) -> float:
    return 1 - len(condemned(prompts, find_all)) / len(prompts.innocent)


def test_the_lists_are_long_enough_for_percentages() -> None:
    own = own_prompts()
    assert sum(prompts.evasion_count for prompts in own.values()) >= 300
    assert sum(len(set(prompts.innocent)) for prompts in own.values()) >= 300
    assert all(prompts.evasion_count >= 70 and len(prompts.innocent) >= 70 for prompts in own.values())
    held_out = held_out_prompts()
    assert sum(prompts.evasion_count + len(prompts.innocent) for prompts in held_out.values()) >= 80


@pytest.mark.parametrize("language", LANGUAGES)
def test_nearly_all_evasions_of_a_language_are_caught(language: str) -> None:
    assert caught(own_prompts()[language]) >= 0.95, missed(own_prompts()[language], find_all)


@pytest.mark.parametrize("language", LANGUAGES)
def test_innocent_prompts_of_a_language_pass(language: str) -> None:
    assert condemned(own_prompts()[language], find_all) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_evasions_that_the_matcher_was_not_built_with_are_caught(language: str) -> None:
    assert caught(held_out_prompts()[language]) >= 0.9


@pytest.mark.parametrize("language", LANGUAGES)
def test_innocent_prompts_that_the_matcher_was_not_built_with_pass(language: str) -> None:
    assert passed(held_out_prompts()[language]) == 1
