"""Names of embeddings in prompts: each stands for vectors of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Triggers:
    """The names of the embeddings of one text encoder, and the ids of the vectors of each.

    A name counts as a whole word, in any case. Of two names that begin alike the longer one counts.
    """

    names: re.Pattern[str] | None = None
    each: tuple[tuple[re.Pattern[str], range], ...] = ()

    @classmethod
    def of(cls, rows: Mapping[str, range], *, first: int) -> Triggers:
        """Return the triggers of embeddings with these rows of a bank; row 0 has the id `first`."""
        if not rows:
            return cls()
        names = sorted(rows, key=len, reverse=True)
        spelled = "|".join(map(re.escape, names))  # groups would make a search slow where there are many
        return cls(
            names=re.compile(rf"(?<!\w)(?:{spelled})(?!\w)", re.IGNORECASE),
            each=tuple(
                (
                    re.compile(re.escape(name), re.IGNORECASE),
                    range(first + rows[name].start, first + rows[name].stop),
                )
                for name in names
            ),
        )

    def parts(self, text: str) -> Iterator[tuple[int, str, Sequence[int]]]:
        """Yield the parts of a text in order: where each begins, its text, and the ids of a name."""
        end = 0
        for match in self.names.finditer(text) if self.names else ():
            yield end, text[end : match.start()], ()
            yield match.start(), match[0], next(ids for name, ids in self.each if name.fullmatch(match[0]))
            end = match.end()
        yield end, text[end:], ()

    def without_names(self, text: str) -> str:
        """Return a text with a blank in place of each name."""
        return " ".join(part for _, part, ids in self.parts(text) if not ids)


NO_TRIGGERS = Triggers()
