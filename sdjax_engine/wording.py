"""How an error of a library is quoted in a sentence of ours."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, closed by a full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".") + "."
