"""Misbehaviour on request: what a real Discord does on a bad day."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(kw_only=True)
class Faults:
    """What goes wrong next.

    These count requests to come whose path contains `on`: `rest_429`, `rest_5xx`, `lose_answers` (done, yet
    answered with a 502), `drop_requests` (the connection is cut before anything is done), `drop_answers`
    (done, then the connection is cut) and `hang_answers` (done, and never answered). `retry_after` goes with
    the 429s; `slow_ms` holds every answer back until it is set to 0.
    """

    rest_429: int = 0
    rest_5xx: int = 0
    lose_answers: int = 0
    drop_requests: int = 0
    drop_answers: int = 0
    hang_answers: int = 0
    on: str = ""
    retry_after: float = 0.25
    slow_ms: int = 0
    rest_429_global: bool = False

    def set(self, wanted: dict[str, Any]) -> None:
        """Take over the fields that `wanted` names; those it does not know raise ValueError."""
        known = {field.name for field in fields(self)}
        strange = sorted(set(wanted) - known)
        if strange:
            raise ValueError(
                f"unknown misbehaviour {', '.join(strange)}: choose from {', '.join(sorted(known))}"
            )
        for name, value in wanted.items():
            setattr(self, name, type(getattr(self, name))(value))

    def take(self, name: str, path: str) -> bool:
        """Use up one fault of this name if it concerns `path`."""
        left = getattr(self, name)
        if left <= 0 or self.on not in path:
            return False
        setattr(self, name, left - 1)
        return True
