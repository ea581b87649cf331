"""Measures what each verb of a store reads."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any

from bot.store.database.database import Verbs


class Meter:
    """What each verb of a store has read: the largest measure of its statements, with the statement."""

    def __init__(self) -> None:
        self.verb = ""
        self.read: dict[str, tuple[int, Any]] = {}

    def note(self, measure: int, statement: Any) -> None:
        if measure > self.read.get(self.verb, (0, ""))[0]:
            self.read[self.verb] = measure, statement

    def metered(self, member: Verbs) -> Any:
        return _Metered(member, self)


class _Metered:
    """A member of a store whose verbs are measured under their names."""

    def __init__(self, member: Verbs, meter: Meter) -> None:
        self._member, self._meter = member, meter

    def __getattr__(self, name: str) -> Any:
        self._meter.verb = f"{type(self._member).__name__}.{name}"
        self._meter.read.setdefault(self._meter.verb, (0, ""))
        return getattr(self._member, name)


def public_verbs(members: list[Verbs]) -> set[str]:
    return {
        f"{type(member).__name__}.{name}"
        for member in members
        for kind in type(member).__mro__[:-1]
        for name, verb in vars(kind).items()
        if iscoroutinefunction(verb) and not name.startswith("_")
    }
