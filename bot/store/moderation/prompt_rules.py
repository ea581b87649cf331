"""A server's rules about the words of prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bot.store.database.database import of_row
from bot.store.library.named import NamedRows
from bot.store.rows.audit import Act
from bot.store.tables.queue import prompt_rules

MAX_RULES = 50  # of one server


class Action(StrEnum):
    """What a rule does with a prompt that has its terms."""

    REFUSE = "refuse"
    ALLOW = "allow"
    HOLD = "hold"


@dataclass(frozen=True, kw_only=True)
class PromptRule:
    """One rule of a server. It holds in its channel and the channel's threads; without one, everywhere.

    A rule refuses a prompt that has one of its `terms`, or holds its pictures for review. With `also`, the
    prompt must have one of those terms too. No other rule sees the terms of a rule that allows.
    """

    name: str
    action: Action = Action.REFUSE
    terms: tuple[str, ...]
    also: tuple[str, ...] = ()
    channel_id: int | None = None


class PromptRules(NamedRows[PromptRule]):
    """The verbs of rules."""

    table = prompt_rules
    most = MAX_RULES
    full = "rules_full"
    act = Act.RULE

    @staticmethod
    def _read(row: Any) -> PromptRule:
        terms, also = tuple(row.terms), tuple(row.also)
        return of_row(PromptRule, row, action=Action(row.action), terms=terms, also=also)

    @staticmethod
    def _values(thing: PromptRule) -> Mapping[str, Any]:
        values = {"action": thing.action.value, "terms": list(thing.terms), "also": list(thing.also)}
        return {**values, "channel_id": thing.channel_id}
