"""The account of the devices' memory, in bytes of one device; pure policy, without devices.

budget = parameters of the resident groups            evicted to the host, least recently used first
       + what arriving models, lanes, encodings hold  allocated all the time
       + the most that any program needs while it runs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True)
class Need:
    """What an owner needs besides the models' parameters: `held` all the time, `working` while it runs."""

    held: int = 0
    working: int = 0


Needs = dict[Hashable, Need]
"""The needs of all owners besides the models."""


class Group(NamedTuple):
    """The key of some of a model's parameters that are moved together."""

    model: str
    name: str

    def __str__(self) -> str:
        return f"the {self.name} of {self.model}"


class Ledger:
    """The groups of all models, the resident ones, and other owners' needs; a `budget` of None is no limit.

    The groups of any one program fit into the budget when all others are evicted, and the host keeps `host`
    bytes of evicted groups (None: no limit): where all groups together are larger, all must fit into the
    budget at once. `enter` and `claim` refuse a model or a need that would break this rule. `bring` and
    `claim` return the groups to evict before the memory is used.
    """

    def __init__(self, budget: int | None, host: int | None = None) -> None:
        self.budget = budget
        self.host = host
        self._sizes: dict[Group, int] = {}
        self._at_once: dict[str, int] = {}  # by model
        self._resident: dict[Group, None] = {}  # the least recently used first
        self._needs: Needs = {}
        self._too_much: set[frozenset[Group]] = set()  # groups for which there was too little memory together

    @property
    def models(self) -> tuple[str, ...]:
        """Every model, in the order of `enter`."""
        return tuple(self._at_once)

    @property
    def resident(self) -> tuple[Group, ...]:
        """The groups on the devices, the least recently used first."""
        return tuple(self._resident)

    @property
    def reserved(self) -> int:
        """The memory that is reserved besides the models."""
        return reserved(self._needs)

    @property
    def taken(self) -> int:
        """The memory that is in use, or may be at any moment; any thread may read this."""
        # The copy is made at once, and a model may leave before its size is read.
        return sum(self._sizes.get(group, 0) for group in tuple(self._resident)) + self.reserved

    @property
    def room(self) -> int | None:
        """The memory that is left without an eviction; None without a limit."""
        return None if self.budget is None else max(self.budget - self.taken, 0)

    def enter(self, model: str, sizes: Mapping[str, int], at_once: int) -> bool:
        """Add a model's groups, none of them resident; False where they never fit.

        `sizes` are by the groups' names; `at_once` is the most that one program needs of them.
        """
        groups = self._sizes | {Group(model, name): size for name, size in sizes.items()}
        most = self._most(groups, self._at_once | {model: at_once})
        if self.budget is not None and most + self.reserved > self.budget:
            return False
        self._sizes, self._at_once[model] = groups, at_once
        return True

    def claim(self, owner: Hashable, need: Need) -> list[Group] | None:
        """Reserve what `owner` needs, in place of its earlier claim; None, and no change, without room.

        Returns the groups that it displaces, to evict before the memory is used.
        """
        if self.lacking(owner, need):
            return None
        self._needs = self._needs | {owner: need}
        return self._displaced(self.resident[-1:])

    def lacking(self, owner: Hashable, need: Need) -> int:
        """Return how many bytes are missing for what `owner` needs, in place of its earlier claim.

        They are beside the largest groups of a program.
        """
        wanted = self._most(self._sizes, self._at_once) + reserved(self._needs | {owner: need})
        return 0 if self.budget is None else max(wanted - self.budget, 0)

    def splits(self, owner: Hashable, need: Need) -> bool:
        """Whether the groups of a model that has room as a whole would take turns after a claim."""
        if self.budget is None:
            return False
        models = Counter[str]()
        for group, size in self._sizes.items():
            models[group.model] += size
        before, after = self.budget - self.reserved, self.budget - reserved(self._needs | {owner: need})
        return any(after < size <= before for size in models.values())

    def fit(self, groups: Collection[Group]) -> bool:
        """Whether these groups may be resident together."""
        size = sum(self._sizes[group] for group in groups)
        fits = self.budget is None or size + self.reserved <= self.budget
        return fits and not any(together <= set(groups) for together in self._too_much)

    def need_of(self, owner: Hashable) -> Need:
        """Return what an owner has claimed."""
        return self._needs.get(owner, Need())

    def release(self, owner: Hashable, *, down_to: Need | None = None) -> None:
        """Give back the claim of `owner`, if any; of a larger claim keep `down_to`."""
        others = {other: need for other, need in self._needs.items() if other != owner}
        self._needs = others if down_to is None else others | {owner: down_to}

    def bring(self, groups: Collection[Group]) -> list[Group]:
        """Count the groups of a program as resident and the latest in use.

        Returns the groups to evict before these are loaded.
        """
        for group in groups:
            self._resident.pop(group, None)
            self._resident[group] = None
        return self._displaced(groups)

    def leave(self, model: str) -> None:
        """Forget a model; nothing for an unknown one."""
        self._at_once.pop(model, None)
        self._sizes = {group: size for group, size in self._sizes.items() if group.model != model}
        self.lose([group for group in self._resident if group.model == model])
        self._too_much = {each for each in self._too_much if all(group.model != model for group in each)}

    def lose(self, groups: Collection[Group]) -> None:
        """Count groups as not resident."""
        for group in groups:
            self._resident.pop(group, None)

    def stay(self, groups: Sequence[Group]) -> None:
        """Count groups as resident that could not be evicted, as the least recently used."""
        self._resident = dict.fromkeys(groups) | self._resident

    def tighten(self, kept: Collection[Group]) -> list[Group]:
        """Learn that the resident groups are too much: they are never all resident together again.

        Returns the groups to evict, all but those that are `kept`; none where that was tried before, or the
        host cannot keep them.
        """
        together = frozenset(self._resident)
        evicted = [group for group in self._resident if group not in kept]
        if not (evicted and self._fits_host(self._sizes)) or together in self._too_much:
            return []
        # A lower budget alone is not enough: it must hold the largest groups, resident or not.
        self._too_much.add(together)
        self.budget = max(self.taken - 1, self._most(self._sizes, self._at_once) + self.reserved)
        self.lose(evicted)
        return evicted

    def _most(self, sizes: Mapping[Group, int], at_once: Mapping[str, int]) -> int:
        """Return the bytes that must fit at once: the most of a program, or all that no host can keep."""
        return max(at_once.values(), default=0) if self._fits_host(sizes) else sum(sizes.values())

    def _fits_host(self, sizes: Mapping[Group, int]) -> bool:
        return self.host is None or sum(sizes.values()) <= self.host

    def _displaced(self, kept: Collection[Group]) -> list[Group]:
        """Count groups as evicted, the least recently used first, while the others are too much."""
        evicted = []
        for group in self.resident:
            if not self._exceeds():
                break
            if group not in kept:
                evicted.append(group)
                del self._resident[group]
        return evicted

    def _exceeds(self) -> bool:
        """Whether the resident groups need more than the budget, or were too much before."""
        over_budget = self.budget is not None and self.taken > self.budget
        return over_budget or any(groups <= self._resident.keys() for groups in self._too_much)


def reserved(needs: Needs) -> int:
    """Return the memory for these needs: all that is held, and the most that one uses while it works."""
    held = sum(need.held for need in needs.values())
    return held + max((need.working for need in needs.values()), default=0)


def sizes_of(groups: Mapping[str, int], together: Collection[Collection[str]]) -> tuple[int, int]:
    """Return the bytes of all groups, and of those that one program needs: the most of any program."""
    at_once = (sum(groups[name] for name in each) for each in together)
    return sum(groups.values()), max([*at_once, *groups.values()], default=0)
