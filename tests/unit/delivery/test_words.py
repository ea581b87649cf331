"""People's words in messages: no Markdown, no change of direction, no invisible characters."""

from __future__ import annotations

import pytest

from bot.texts.markup import shown, tidy


def test_words_do_not_change_the_direction_of_the_text_after_them() -> None:
    assert shown("a\u202eb\u2066c", 10) == "abc"


@pytest.mark.parametrize(
    "whole",
    [
        "👩\u200d🎨",
        "👁\ufe0f\u200d🗨\ufe0f",
        "می\u200cخواهم",
        "שָׁלֽוֹם",
        "e\u0302\u0301",
        "한국어",
        "مُحَمَّدٌ",
        "สวัสดีครับ",
    ],
)
def test_letters_with_their_marks_stay_whole(whole: str) -> None:
    assert shown(whole, 20) == whole


def test_runs_of_marks_and_of_nothing_are_bounded() -> None:
    assert tidy("Z" + "\u0301\u0489" * 40) == "Z" + "\u0301\u0489" * 2
    assert tidy("a" + "\u200b\u2060" * 40 + "b") == "a\u200b\u2060b"
    assert tidy("a" + "\u200f" * 40 + "b") == "a\u200f\u200fb"
    assert tidy("a\U000e0041\U000e0042\U000e0043\U000e0044b") == "a\U000e0041\U000e0042b"
    assert tidy("a\x00\x1b\x9b[2Kb") == "a[2Kb"


@pytest.mark.parametrize(
    ("typed", "inert"),
    [
        ("see https://evil.example/x", "see https\\://evil.example/x"),
        ("HTTP://evil.example", "HTTP\\://evil.example"),
        ("discord://-/x", "discord\\://-/x"),
        ("a cat: on a mat", "a cat: on a mat"),
        ("16:9 // wide", "16:9 // wide"),
    ],
)
def test_a_bare_link_is_no_link(typed: str, inert: str) -> None:
    assert shown(typed, 100) == inert


@pytest.mark.parametrize("typed", [r"\<@123>", r"\\<@123>", r"\[a](https://e.example)", "\\"])
def test_a_typed_backslash_undoes_no_escaping(typed: str) -> None:
    inert = shown(typed, 100)
    assert inert.replace("\\\\", "").replace("\\<", "").replace("\\[", "").count("<") == 0
    assert _read(inert) == typed


@pytest.mark.parametrize("typed", ["# big", "> quote", "- item", "-# small", "1. first", "+ more"])
def test_a_line_of_words_is_no_heading_and_no_list(typed: str) -> None:
    assert shown(typed, 100)[1 if typed[0].isdigit() else 0] == "\\"
    assert _read(shown(typed, 100)) == typed


def test_words_are_shortened_before_they_are_escaped() -> None:
    assert shown("a  b\n c", 10) == "a b c"
    assert shown("*" * 10, 5) == "\\*" * 4 + "…"


def _read(escaped: str) -> str:
    """What Discord shows of escaped text."""
    read, at = "", 0
    while at < len(escaped):
        at += escaped[at] == "\\"
        read += escaped[at]
        at += 1
    return read
