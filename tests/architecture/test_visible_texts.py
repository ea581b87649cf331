"""People read no words that are not in the catalogues."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bot.texts.mistakes import MISTAKES
from sdjax_engine.errors import InvalidRequest

ROOT = Path(__file__).parents[2]
SHOWN_BY = ("bot/front", "bot/delivery")
SHOWN = frozenset({"label", "title", "description", "placeholder", "content", "heading", "status", "footer"})
"""Keywords whose values people read."""

SHOWS = frozenset({"TextDisplay", "page", "page_lines", "add_page", "joined", "send", "send_message"})
"""Calls whose arguments people read."""

CODES = {"UserMistake": frozenset(MISTAKES), "InvalidRequest": frozenset(InvalidRequest.SENTENCES)}
WORD = re.compile(r"[^\W\d_]{2,}")


def calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", "")), node


def words(node: ast.AST) -> Iterator[str]:
    """The literals of an expression, outside further calls, keys and comparisons."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.search(node.value):
        yield node.value
    if not isinstance(node, ast.Call | ast.Subscript | ast.Compare):
        for child in ast.iter_child_nodes(node):
            yield from words(child)


def untranslated(source: str) -> set[str]:
    """The literals that a call shows without a catalogue."""
    found = set[str]()
    for name, call in calls(source):
        shown = [each.value for each in call.keywords if each.arg in SHOWN]
        for argument in shown + (call.args if name in SHOWS else []):
            found.update(words(argument))
    return found


def test_every_text_that_people_see_is_in_the_catalogues() -> None:
    paths = [path for place in SHOWN_BY for path in (ROOT / place).rglob("*.py")]
    assert paths
    assert [(path.name, texts) for path in paths if (texts := untranslated(path.read_text()))] == []


def test_every_mistake_has_a_sentence() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {call.args[0].value!r}"
        for place in ("bot", "sdjax_engine")
        for path in (ROOT / place).rglob("*.py")
        for name, call in calls(path.read_text())
        if name in CODES and call.args and isinstance(call.args[0], ast.Constant)
        if call.args[0].value not in CODES[name]
    }
    assert unknown == set()
