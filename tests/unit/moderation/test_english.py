"""Forms of English words."""

import pytest

from bot.moderation.english import inflect, separate_contractions


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("ox", ""),
        ("run", "runs runned running"),
        ("cow", "cows"),
        ("elf", "elfs"),
        ("aid", "aids"),
        ("ore", "ores"),
        ("box", "boxes boxs"),
        ("drag", "drags dragged dragging"),
        ("rain", "rains rained raining"),
        ("kiss", "kisses kissed kissing"),
        ("bake", "bakes baked baking"),
        ("baby", "babys babies babied babyed babying"),
        ("strip", "strips striped striping stripped stripping"),
        ("fireman", "firemans firemen firemaned firemaning firemanned firemanning"),
    ],
)
def test_a_word_has_its_plural_and_the_forms_of_a_verb(word: str, others: str) -> None:
    inflect.cache_clear()  # other tests ask for the same words
    assert inflect(word) == {word, *others.split()}


def test_only_the_apostrophe_of_a_contraction_becomes_a_space() -> None:
    assert separate_contractions("he'll, who’re at 5 o'clock: it's") == "he ll, who re at 5 o'clock: it s"
