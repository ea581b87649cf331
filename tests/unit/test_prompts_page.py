"""docs/artists/prompts.md and /help, compared with the code."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from recipes import job_of

from bot.delivery.render import render
from bot.domain.jobs import Notes, State
from bot.front.commands.help import Limits, help_text
from bot.front.features import other_commands
from bot.texts.catalogue import LANGUAGES, Texts
from sdjax_engine.prompts import MAX_WEIGHT, Piece, clean, parse_emphasis
from sdjax_engine.prompts.tokenizer import BACKTRACK
from sdjax_engine.request import Offer, PromptFacts, Sampler

COMMANDS = other_commands()
LIMITS = Limits(requests=30, waiting=60, files=6, picture_days=30, job_days=365)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "artists" / "prompts.md").read_text(encoding="utf-8")
OFFER = Offer(model="x", sizes=((8, 8),), num_inference_steps=1, guidance_scale=1.0, sampler=Sampler.DDIM)


def rows() -> Iterator[tuple[str, str]]:
    """The two first cells of each row of the tables of emphasis, the first without its backticks."""
    for table in re.findall(r"^\| written \| read as .*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE):
        for row in table.splitlines():
            written, read_as, *_ = (cell.strip() for cell in row.strip("|").split(" | "))
            yield written.strip("`"), read_as.rstrip("| ")


def told(pieces: tuple[Piece, ...]) -> str:
    """Pieces as the page writes them."""
    said = ""
    for piece in pieces:
        said += (" / " if piece.breaks else " · ") if said else ""
        said += f"`{piece.text.strip()}`" + ("" if abs(piece.weight - 1) < 1e-9 else f" × {piece.weight:.3g}")
    return said


@pytest.mark.parametrize(("written", "read_as"), list(rows()))
def test_emphasis_is_read_as_the_page_says(written: str, read_as: str) -> None:
    pieces = [piece for piece in parse_emphasis(clean(written)) if piece.text.strip()]
    assert told(tuple(pieces)) == read_as


def test_the_pages_python_answers_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(ROOT / "docs" / "artists" / "prompts.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_pages_numbers_are_those_of_the_code() -> None:
    offer = Offer(model="x", sizes=((8, 8),), num_inference_steps=1, guidance_scale=1.0, sampler=Sampler.DDIM)
    assert offer.prompt_chunks == 3
    assert "There may be three" in PAGE
    assert f"one of its last {BACKTRACK} tokens" in PAGE
    assert f"between −{MAX_WEIGHT:g} and {MAX_WEIGHT:g}" in PAGE


def test_the_sentence_on_the_page_is_the_one_that_people_read() -> None:
    notes = Notes(prompt=PromptFacts(tokens=229, limit=225, cut="and a small moon"))
    content = render(job_of(State.DONE, notes=notes), None, Texts.for_locale("en-US"))
    assert f"> {content.status}\n" in PAGE


@pytest.mark.parametrize("language", LANGUAGES)
def test_emphasis_in_the_help_is_read_as_the_help_says(language: str) -> None:
    texts = Texts.for_locale(language)
    help_of_language = help_text([OFFER], LIMITS, COMMANDS, texts=texts, names=texts)
    more, less, exactly, bracket = re.findall(r"`([^`]*[(\[][^`]*)`", help_of_language)
    weights = [parse_emphasis(written)[0].weight for written in (more, less, exactly)]
    assert weights == [1.1, 1 / 1.1, 1.3]
    assert parse_emphasis(bracket)[0].text == "("
