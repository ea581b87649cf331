"""What lies in a device's memory and what must go, in bytes of one device; pure accounting, no devices.

budget = parameters of the models that are there      moved out, least recently used first
       + what lanes and encodings hold                 there all the time
       + the most that any program needs while it runs
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Need:
    """What something beside the models' parameters needs: held all the time, and more while it works."""

    held: int = 0
    working: int = 0


class Ledger:
    """The models, which of them are there, and the needs beside them; a `budget` of None is no limit.

    With any model there, everything else being moved out, the budget holds: `enter` and `claim` refuse what
    would end that. `bring` says who must go; between two of its calls a new claim may exceed the budget.
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self._sizes: dict[str, int] = {}
        self._there: dict[str, None] = {}  # the least recently used first
        self._needs: dict[Hashable, Need] = {}

    @property
    def models(self) -> tuple[str, ...]:
        """Every model, in the order in which they came."""
        return tuple(self._sizes)

    @property
    def there(self) -> tuple[str, ...]:
        """The models that are there, the least recently used first."""
        return tuple(self._there)

    @property
    def beside(self) -> int:
        """What is needed beside the models."""
        return beside(self._needs)

    @property
    def taken(self) -> int:
        """All that is there or may be needed at any moment."""
        return sum(self._sizes[name] for name in self._there) + self.beside

    @property
    def room(self) -> int | None:
        """How much more would fit without moving anything out; None without a limit."""
        return None if self.budget is None else max(self.budget - self.taken, 0)

    def enter(self, name: str, size: int) -> bool:
        """Let a model in, to be brought there later; False where it alone is more than there may be."""
        if self.budget is not None and size + self.beside > self.budget:
            return False
        self._sizes[name] = size
        return True

    def claim(self, who: Hashable, need: Need) -> bool:
        """Reserve what `who` needs, in the place of its earlier claim; False, and no change, if that is not.

        Models that it leaves no room for are moved out at the next `bring`.
        """
        needs = self._needs | {who: need}
        if self.budget is not None and self._largest + beside(needs) > self.budget:
            return False
        self._needs = needs
        return True

    def release(self, who: Hashable) -> None:
        """Give back what `who` has claimed, if anything."""
        self._needs.pop(who, None)

    def bring(self, name: str) -> list[str]:
        """Count a model as there and as the latest in use; return who must be moved out before it comes."""
        self._there.pop(name, None)
        self._there[name] = None
        gone = []
        while self.budget is not None and self.taken > self.budget and len(self._there) > 1:
            gone.append(next(iter(self._there)))
            del self._there[gone[-1]]
        return gone

    def lose(self, name: str) -> None:
        """Count a model as not there."""
        self._there.pop(name, None)

    def tighten(self, name: str) -> list[str]:
        """Learn that what is there is too much: from now on not all of it may be there together.

        Returns who must be moved out so that `name` is alone.
        """
        gone = [other for other in self._there if other != name]
        if gone:
            least = self._largest + self.beside
            self.budget = max(self.taken - 1, least)
            self._there = {name: None} if name in self._there else {}
        return gone

    @property
    def _largest(self) -> int:
        return max(self._sizes.values(), default=0)


def beside(needs: dict[Hashable, Need]) -> int:
    """What these need together: all that they hold, and what the hungriest needs at work, one at a time."""
    held = sum(need.held for need in needs.values())
    return held + max((need.working for need in needs.values()), default=0)
