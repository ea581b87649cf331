"""The sentences of the audit log about group sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.texts.catalogue import Texts


def said_of_session(facts: Mapping[str, Any], actor: str, place: str, texts: Texts) -> str:
    """Return the sentence of an act, by the `change` in its facts."""
    fields = {"actor": actor, "place": place}
    said = {
        "open": texts.gettext("{actor} opened a group session in {place}", **fields),
        "next": texts.gettext("{actor} moved the group session in {place} to its next phase", **fields),
        "pause": texts.gettext("{actor} paused the group session in {place}", **fields),
        "resume": texts.gettext("{actor} resumed the group session in {place}", **fields),
        "extend": texts.gettext("{actor} gave the group session in {place} more time", **fields),
        "host": texts.gettext("{actor} became the host of the group session in {place}", **fields),
    }
    closed = texts.gettext("{actor} closed the group session in {place}", **fields)
    return said.get(str(facts.get("change")), closed)
