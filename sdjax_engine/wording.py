"""Short quotations of library errors and untrusted values, for the sentences of our errors."""

from __future__ import annotations

LONGEST_QUOTE = 80  # characters


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, closed by a full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".") + "."


def quoted(value: object) -> str:
    """Return a value of an untrusted file as text for an error's sentence, cut where it is long."""
    return cut(repr(value))


def cut(text: str) -> str:
    """Return a text, cut after `LONGEST_QUOTE` characters."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def in_bytes(count: int) -> str:
    """Return a number of bytes as people read it: "11.2 GiB", or "3.4 MiB" below a tenth of that."""
    gib = count / 2**30
    return f"{gib:.1f} GiB" if gib >= 0.1 else f"{count / 2**20:.1f} MiB"
