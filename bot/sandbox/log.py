"""The log of violations: what a correct bot would never have done."""

from __future__ import annotations


class Log:
    """Sentences, oldest first; tests assert that there are none."""

    def __init__(self) -> None:
        self.violations: list[str] = []

    def violation(self, sentence: str) -> None:
        """Note one violation."""
        self.violations.append(sentence)
