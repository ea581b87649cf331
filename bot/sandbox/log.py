"""The log of violations of Discord's rules by the bot."""

from __future__ import annotations


class Log:
    """Sentences, oldest first; tests assert that the log is empty."""

    def __init__(self) -> None:
        self.violations: list[str] = []

    def violation(self, sentence: str) -> None:
        """Log one violation."""
        self.violations.append(sentence)
