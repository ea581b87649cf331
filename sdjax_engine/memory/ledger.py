"""The accounting of a device's memory, in bytes of one device; pure, without devices.

budget = parameters of the resident models            evicted to the host, least recently used first
       + what arriving models, lanes, encodings hold  allocated all the time
       + the most that any program needs while it runs
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Need:
    """What an owner needs besides the models' parameters: `held` all the time, `working` while it runs."""

    held: int = 0
    working: int = 0


Needs = dict[Hashable, Need]
"""The needs of all owners besides the models."""


class Ledger:
    """The models, the resident ones, and the other owners' needs; a `budget` of None is no limit.

    Each model fits into the budget when all others are evicted, and the host keeps `host` bytes of evicted
    models (None: no limit): where all models together are larger, all must fit into the budget at once.
    `enter` and `claim` refuse a model or a need that would break this rule. `bring` and `claim` return the
    models to evict before the memory is used.
    """

    def __init__(self, budget: int | None, host: int | None = None) -> None:
        self.budget = budget
        self.host = host
        self._sizes: dict[str, int] = {}
        self._resident: dict[str, None] = {}  # the least recently used first
        self._needs: Needs = {}
        self._too_much: set[frozenset[str]] = set()  # models for which there was too little memory together

    @property
    def models(self) -> tuple[str, ...]:
        """Every model, in the order of `enter`."""
        return tuple(self._sizes)

    @property
    def resident(self) -> tuple[str, ...]:
        """The models on the devices, the least recently used first."""
        return tuple(self._resident)

    @property
    def reserved(self) -> int:
        """The memory that is reserved besides the models."""
        return reserved(self._needs)

    @property
    def taken(self) -> int:
        """The memory that is in use, or may be at any moment."""
        return sum(self._sizes[name] for name in self._resident) + self.reserved

    @property
    def room(self) -> int | None:
        """The memory that is left without an eviction; None without a limit."""
        return None if self.budget is None else max(self.budget - self.taken, 0)

    def enter(self, name: str, size: int) -> bool:
        """Add a model, not yet resident; False where it never fits."""
        sizes = {**self._sizes, name: size}
        if self.budget is not None and self.most_at_once(sizes) + self.reserved > self.budget:
            return False
        self._sizes = sizes
        return True

    def claim(self, owner: Hashable, need: Need) -> list[str] | None:
        """Reserve what `owner` needs, in place of its earlier claim; None, and no change, without room.

        Returns the models that it displaces, to evict before the memory is used.
        """
        if self.lacking(owner, need):
            return None
        self._needs = self._needs | {owner: need}
        return self._displaced()

    def lacking(self, owner: Hashable, need: Need) -> int:
        """Return how many bytes are missing for what `owner` needs, in place of its earlier claim."""
        wanted = self.most_at_once(self._sizes) + reserved(self._needs | {owner: need})
        return 0 if self.budget is None else max(wanted - self.budget, 0)

    def held_by(self, owner: Hashable) -> int:
        """Return the bytes that an owner holds all the time."""
        return self._needs.get(owner, Need()).held

    def release(self, owner: Hashable) -> None:
        """Give back the claim of `owner`, if any."""
        self._needs = {other: need for other, need in self._needs.items() if other != owner}

    def bring(self, name: str) -> list[str]:
        """Count a model as resident and the latest in use; return the models to evict before it is loaded."""
        self._resident.pop(name, None)
        self._resident[name] = None
        return self._displaced()

    def leave(self, name: str) -> None:
        """Forget a model; nothing for an unknown one."""
        self._sizes.pop(name, None)
        self._resident.pop(name, None)
        self._too_much = {models for models in self._too_much if name not in models}

    def lose(self, name: str) -> None:
        """Count a model as not resident."""
        self._resident.pop(name, None)

    def tighten(self, name: str) -> list[str]:
        """Learn that the resident models are too much: they are never all resident together again.

        Returns the models to evict so that `name` is alone; none where the host cannot keep them.
        """
        evicted = [other for other in self._resident if other != name]
        if not self._fits_host(self._sizes):
            return []
        if evicted:
            # A lower budget alone is not enough: it must hold the largest model, resident or not.
            self._too_much.add(frozenset(self._resident))
            self.budget = max(self.taken - 1, self.most_at_once(self._sizes) + self.reserved)
            self._resident = {name: None} if name in self._resident else {}
        return evicted

    def most_at_once(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes of the models that must fit at once: the largest, or all that no host can keep."""
        return max(sizes.values(), default=0) if self._fits_host(sizes) else sum(sizes.values())

    def _fits_host(self, sizes: Mapping[str, int]) -> bool:
        return self.host is None or sum(sizes.values()) <= self.host

    def _displaced(self) -> list[str]:
        """Count models as evicted, the least recently used first, while the others are too much."""
        evicted = []
        while len(self._resident) > 1 and self._exceeds():
            evicted.append(next(iter(self._resident)))
            del self._resident[evicted[-1]]
        return evicted

    def _exceeds(self) -> bool:
        """Whether the resident models need more than the budget, or were too much before."""
        over_budget = self.budget is not None and self.taken > self.budget
        return over_budget or any(models <= self._resident.keys() for models in self._too_much)


def reserved(needs: Needs) -> int:
    """Return the memory for these needs: all that is held, and the most that one uses while it works."""
    held = sum(need.held for need in needs.values())
    return held + max((need.working for need in needs.values()), default=0)
