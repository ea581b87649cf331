"""The pages of /style show and /wildcard show fit a message with any contents."""

from __future__ import annotations

import pytest

from bot.front.answers.answers import MAX_PAGE, page_lines
from bot.front.commands.style import described, listed
from bot.front.commands.wildcard import entries_of, names_of
from bot.store.library.styles import Style
from bot.store.library.wildcards import Wildcard
from bot.texts.catalogue import LANGUAGES, Texts

LONG = "*`_ب" * 500
STYLES = [
    Style(name=f"*{number}* " + "م" * 50, prompt=LONG, negative_prompt=LONG, options={"lora": LONG})
    for number in range(200)
]
LISTS = [Wildcard(name=f"{number}" + "x" * 37, entries=(LONG[:200],) * 500) for number in range(100)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_longest_lists_fit_and_say_how_many_are_left_out(language: str) -> None:
    texts = Texts.for_locale(language)
    for lines in (listed(STYLES, texts), entries_of("0" + "x" * 37, LISTS, texts), names_of(LISTS, texts)):
        shown = page_lines(lines, texts).splitlines()
        assert len("\n".join(shown)) <= MAX_PAGE
        assert len(shown) > 5
        assert str(len(lines) - len(shown) + 1) in shown[-1]
    assert page_lines(lines[:9], texts).splitlines() == lines[:9]
    below = ["x" * 900, "y" * 900]
    whole = page_lines(lines, texts, below=below)
    assert whole.splitlines()[-2:] == below
    assert len(whole) <= MAX_PAGE


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_longest_style_is_shown_whole(language: str) -> None:
    texts = Texts.for_locale(language)
    lines = [*described(STYLES[0], texts, names=texts)]
    assert page_lines(lines, texts).splitlines() == lines


def test_a_style_of_the_server_stands_for_the_one_of_all_servers() -> None:
    own, of_all = Style(name="INK", prompt="own"), Style(name="Ink", prompt="of all")
    assert listed([own, of_all], Texts.for_locale("en"))[1:] == ["- **INK** · own"]
