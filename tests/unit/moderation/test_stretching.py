"""Words some of whose letters are repeated."""

import pytest

from bot.moderation.scripts import squeeze
from bot.moderation.stretching import is_stretched, is_stretched_end


@pytest.mark.parametrize(
    ("word", "form", "expected"),
    [
        ("blood", "blood", True),
        ("nuuude", "nude", True),
        ("bllood", "blood", True),
        ("bllllod", "blood", False),  # it has one o
        ("188", "18", False),  # another number
        ("guun", "gun", True),
        ("good", "god", False),  # a word of its own
        ("مممل", "ممل", True),
        ("ككلب", "كلب", False),  # one doubled letter of a short word
        ("ككتاب", "كتاب", True),
        ("كتللب", "كتلب", False),  # a letter that is often doubled
        ("ككللبب", "ككلب", True),
    ],
)
def test_a_word_is_a_stretched_form_or_another_word(word: str, form: str, *, expected: bool) -> None:
    assert squeeze(word) == squeeze(form)
    assert is_stretched(word, form, squeeze(form)) is expected


@pytest.mark.parametrize(
    ("word", "form", "expected"),
    [
        ("wblood", "blood", True),
        ("wblooood", "blood", True),
        ("xbllllod", "blood", False),
        ("bloodw", "blood", False),
    ],
)
def test_the_end_of_a_word_is_a_stretched_form_or_not(word: str, form: str, *, expected: bool) -> None:
    assert is_stretched_end(word, form) is expected
