"""Injected faults: errors, rate limits, lost connections and slow answers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(kw_only=True)
class Faults:
    """The faults to inject next.

    These fields count future requests whose path contains `on`: `rest_429`, `rest_5xx`, `lose_answers`
    (executed, but answered with 502), `drop_requests` (the connection is cut before execution),
    `drop_answers` (executed, then the connection is cut) and `hang_answers` (executed, never answered).
    `pages` are answered with a page of HTML and `page_status`, as Cloudflare answers a blocked address.
    `refuse_intents` counts future logins at the gateway.
    `retry_after` is sent with the 429s. `slow_ms` delays every answer until it is set to 0.
    """

    rest_429: int = 0
    rest_5xx: int = 0
    lose_answers: int = 0
    drop_requests: int = 0
    drop_answers: int = 0
    hang_answers: int = 0
    pages: int = 0
    page_status: int = 403
    refuse_intents: int = 0
    on: str = ""
    retry_after: float = 0.25
    slow_ms: int = 0
    rest_429_global: bool = False

    def set(self, wanted: dict[str, Any]) -> None:
        """Set the fields that `wanted` names; raises ValueError for unknown names."""
        known = {field.name for field in fields(self)}
        strange = sorted(set(wanted) - known)
        if strange:
            raise ValueError(
                f"unknown misbehaviour {', '.join(strange)}: choose from {', '.join(sorted(known))}"
            )
        for name, value in wanted.items():
            setattr(self, name, type(getattr(self, name))(value))

    def take(self, name: str, path: str) -> bool:
        """Count down one fault of this name if it applies to `path`; return whether it did."""
        left = getattr(self, name)
        if left <= 0 or self.on not in path:
            return False
        setattr(self, name, left - 1)
        return True
