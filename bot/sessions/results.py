"""The results of a vote: places, with ties named as ties, and the pages of a round's pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bot.store.sessions.boards import Entry
from bot.store.sessions.phases import PAGE_ENTRIES

MOST_PLACES = 3


@dataclass(frozen=True, kw_only=True)
class Rank:
    """A place in a vote: 1 is the first. All `entries` have `votes` votes; several are a tie."""

    number: int
    votes: int
    entries: tuple[Entry, ...]

    @property
    def tied(self) -> bool:
        """Whether several pictures share the place."""
        return len(self.entries) > 1


@dataclass(frozen=True, kw_only=True)
class Champions:
    """The people, by id and name, whose pictures have the most `votes` together; several are a tie."""

    votes: int
    people: tuple[tuple[int, str], ...]


def places(entries: Sequence[Entry]) -> list[Rank]:
    """Return the first places of a vote, of pictures that got votes and may be seen.

    The place after a tie of two first places is the third.
    """
    voted = sorted(
        (entry for entry in entries if entry.votes and entry.artifact is not None),
        key=lambda entry: (-entry.votes, entry.round, entry.number),
    )
    found: list[Rank] = []
    ahead = 0
    for votes, group in groupby(voted, key=lambda entry: entry.votes):
        here = tuple(group)
        if ahead >= MOST_PLACES:
            break
        found.append(Rank(number=ahead + 1, votes=votes, entries=here))
        ahead += len(here)
    return found


def champions(entries: Sequence[Entry]) -> Champions | None:
    """Return the people whose pictures have the most votes together; None without votes."""
    totals, names = Counter[int](), dict[int, str]()
    for entry in entries:
        if entry.votes and entry.artifact is not None:
            totals[entry.user_id] += entry.votes
            names[entry.user_id] = entry.user_name
    if not totals:
        return None
    most = max(totals.values())
    people = tuple((user_id, names[user_id]) for user_id, votes in totals.items() if votes == most)
    return Champions(votes=most, people=people)


def page_of(entries: Sequence[Entry], page: int, *, whole: bool = False) -> list[tuple[int, Entry | None]]:
    """Return the numbers of a page, counted from 1, each with its picture.

    Pictures of a round keep their numbers; None stands for a picture whose request was deleted. The pictures
    of a `whole` session are numbered in their order.
    """
    numbered = dict(enumerate(entries, 1)) if whole else {entry.number: entry for entry in entries}
    last = min(page * PAGE_ENTRIES, max(numbered, default=0))
    return [(number, numbered.get(number)) for number in range((page - 1) * PAGE_ENTRIES + 1, last + 1)]
