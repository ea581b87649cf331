"""The audit log as a file of JSON lines; no Discord here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bot.store.rows.audit import Entry

FILE = "audit.jsonl"
LIMIT = 8 * 1024 * 1024  # bytes; Discord takes 10 MiB in every server


def lines_of(entries: Sequence[Entry], *, limit: int = LIMIT) -> tuple[bytes, int]:
    """Return one line of JSON for each entry, as many as fit into `limit` bytes, and how many these are."""
    lines: list[bytes] = []
    room = limit
    for entry in entries:
        line = json.dumps(described(entry), ensure_ascii=False).encode() + b"\n"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return b"".join(lines), len(lines)


def described(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON values; ids are text, because many programs round such large numbers."""
    return {
        "id": entry.id,
        "at": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds"),
        "server": str(entry.guild_id),
        "actor": str(entry.actor_id),
        "act": entry.act.value,
        "subject": str(entry.subject_id) if entry.subject_id else None,
        "reason": entry.reason,
        "before": _facts(entry.before),
        "after": _facts(entry.after),
    }


def _facts(facts: dict[str, Any] | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {name: str(value) if name.endswith("_id") else value for name, value in facts.items()}
