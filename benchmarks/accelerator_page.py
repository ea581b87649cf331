"""The page of results that `accelerator.py` writes: conditions, a summary, and each part's output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LINES_SHOWN = 80
"""Lines of a part's output on the page; the last ones."""
REASON_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a part: `status` is its exit status, None if it exceeded its time limit."""

    title: str
    command: str
    status: int | None
    seconds: float
    output: str
    note: str = ""

    @property
    def ran(self) -> bool:
        """Whether the part ran to its end and found nothing wrong."""
        return self.status == 0

    @property
    def verdict(self) -> str:
        """One line: how long it took, or why it failed."""
        if self.ran:
            return "ran"
        if self.status is None:
            return f"failed: no end after {self.seconds:.0f} s"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        said = lines[-1][:REASON_LENGTH] if lines else "it said nothing"
        return f"failed with status {self.status}: {said}"


def page(conditions: dict[str, str], outcomes: Sequence[Outcome]) -> str:
    """Return the page as Markdown."""
    failed = sum(not each.ran for each in outcomes)
    state = "Every part ran." if not failed else f"{failed} of {len(outcomes)} parts failed."
    lines = ["# Results on an accelerator", "", state, "", "| condition | value |", "|---|---|"]
    lines += [f"| {name} | {in_cell(value)} |" for name, value in conditions.items()]
    lines += ["", "| part | result | seconds |", "|---|---|---|"]
    lines += [f"| {each.title} | {in_cell(each.verdict)} | {each.seconds:.0f} |" for each in outcomes]
    for each in outcomes:
        lines += ["", *section(each)]
    return "\n".join(lines) + "\n"


def section(outcome: Outcome) -> list[str]:
    """Return the lines of one part."""
    shown = outcome.output.rstrip().splitlines()[-LINES_SHOWN:]
    fence = "`" * max(3, 1 + max((longest_run(line, "`") for line in shown), default=0))
    note = [outcome.note, ""] if outcome.note else []
    return [f"## {outcome.title}", "", f"`{outcome.command}`", "", *note, fence, *shown, fence]


def longest_run(text: str, character: str) -> int:
    """Return the length of the longest run of a character in a text."""
    longest = run = 0
    for each in text:
        run = run + 1 if each == character else 0
        longest = max(longest, run)
    return longest


def in_cell(text: str) -> str:
    """Return a text as the cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
