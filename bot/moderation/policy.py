"""Policies of the operator, servers, roles and channels, and which of their rules decide.

The nearest policy that says something about a key decides it: the channel (a thread before its channel), then
the person's roles, then the server, then the operator. Among several roles the most generous value wins
(`bot.moderation.generosity` has the order of each key). The operator's bounds come last: no value
is more generous than its bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from types import MappingProxyType
from typing import Any

from bot.domain.channels import FLAGGED_KEYS, flagged_in
from bot.moderation.generosity import LEVELS, NO_LIMIT, ORDERS, Privacy, Treatment
from bot.store.moderation.policies import PolicyRow, PolicyScope

Names = tuple[str, ...]
Levels = tuple[Treatment, Treatment, Treatment]
_UNLIMITED = "none"  # JSON has no infinity


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The values of one policy; None for a key without a value.

    A limit is a number or `NO_LIMIT`. `pixels` are those of a finished picture. `models` and `loras` are the
    allowed names, all with `ANY` among them. Costs are in pictures of the model's default size and steps, as
    `cost_of` in `limits` counts, with fractions. `cool_down` is in seconds between two requests. `weight` is
    the person's in the fair order. With `review` results go to moderators first. `flagged` is how pictures of
    the levels 1, 2 and 3 are treated, `flagged_spoiler` the same in spoiler channels (None: as `flagged`),
    and `flagged_age_restricted` in channels for adults alone. `language` is that of messages that the whole
    channel sees.
    """

    paint: bool | None = None
    models: Names | None = None
    pixels: float | None = None
    steps: float | None = None
    variants: float | None = None
    loras: Names | None = None
    start_pictures: bool | None = None
    private: Privacy | None = None
    previews: bool | None = None
    review: bool | None = None
    flagged: Levels | None = None
    flagged_spoiler: Levels | None = None
    flagged_age_restricted: Levels | None = None
    pictures_per_hour: float | None = None
    pictures_per_day: float | None = None
    cost_per_hour: float | None = None
    cost_per_day: float | None = None
    cool_down: float | None = None
    weight: float | None = None
    language: str | None = None


KEYS = tuple(field.name for field in fields(Policy))


@dataclass(frozen=True, kw_only=True)
class Said:
    """A policy and its owner; the `id` of the operator is 0."""

    scope: PolicyScope
    id: int = 0
    policy: Policy


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One key of one policy with its value, to explain a decision."""

    scope: PolicyScope
    id: int
    key: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class Effective:
    """The policy that holds for a person in a channel, and by key the rules that made its values.

    A key has several rules where roles allow different names or levels, or where a bound cuts a value.
    """

    policy: Policy
    rules: Mapping[str, tuple[Rule, ...]]


def effective(said: Iterable[Said]) -> Effective:
    """Return the policy that several policies result in, key by key.

    The order of `said` counts only among channels: a thread comes before its channel.
    """
    groups = _groups(said)
    values: dict[str, Any] = {}
    rules: dict[str, tuple[Rule, ...]] = {}
    for key in KEYS:
        decided = _nearest(key, groups)
        if bounds := _rules(key, groups.get((PolicyScope.BOUND, 0), ())):
            decided = _bounded(key, decided, bounds[0])
        if decided is not None:
            values[key], rules[key] = decided
    return Effective(policy=Policy(**values), rules=MappingProxyType(rules))


_Decided = tuple[Any, tuple[Rule, ...]]
_Groups = dict[tuple[PolicyScope, int], list[Said]]


def _groups(said: Iterable[Said]) -> _Groups:
    """Return the policies in groups, the nearest first; the roles of a person are one group."""
    nearness = list(PolicyScope)
    ordered = sorted(
        said,
        key=lambda each: (nearness.index(each.scope), each.id if each.scope is PolicyScope.ROLE else 0),
    )
    return {
        key: list(group)
        for key, group in groupby(
            ordered, key=lambda each: (each.scope, each.id if each.scope is PolicyScope.CHANNEL else 0)
        )
    }


def _nearest(key: str, groups: _Groups) -> _Decided | None:
    for (scope, _), group in groups.items():
        if scope is not PolicyScope.BOUND and (found := _rules(key, group)):
            value = ORDERS[key].generous([rule.value for rule in found])
            made = [rule for rule in found if rule.value == value]
            return value, tuple(made[:1] or found)
    return None


def _bounded(key: str, decided: _Decided | None, bound: Rule) -> _Decided | None:
    if decided is None:  # each model has its own treatment of flagged pictures, within the bound
        return None if ORDERS[key] is LEVELS else (bound.value, (bound,))
    value, rules = decided
    left = ORDERS[key].severe(value, bound.value)
    return decided if left == value else (left, (*rules, bound))


def _rules(key: str, group: Sequence[Said]) -> list[Rule]:
    found = ((each, value_of(each.policy, key)) for each in group)
    return [
        Rule(scope=each.scope, id=each.id, key=key, value=value) for each, value in found if value is not None
    ]


def value_of(policy: Policy, key: str) -> Any:
    """Return what a policy says about a key: about spoiler channels, by default what it says about others."""
    kind = next((kind for kind, name in FLAGGED_KEYS.items() if name == key), None)
    return getattr(policy, key) if kind is None else flagged_in(kind, policy)


def said_by(row: PolicyRow) -> Said:
    """Return a stored policy as data for `effective`."""
    return Said(scope=row.scope, id=row.id, policy=policy_from(row.values))


def values_of(policy: Policy) -> dict[str, Any]:
    """Return a policy as JSON, without the keys that have no value."""
    said = ((key, getattr(policy, key)) for key in KEYS)
    return {key: _written(value) for key, value in said if value is not None}


def policy_from(values: Mapping[str, Any]) -> Policy:
    """Return a policy from JSON; keys of a later version are ignored."""
    return Policy(**{key: _read(key, values[key]) for key in KEYS if values.get(key) is not None})


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(str, value))
    return _UNLIMITED if value == NO_LIMIT else value


def _read(key: str, value: Any) -> Any:
    if key in FLAGGED_KEYS.values():
        return tuple(map(Treatment, value))
    if key in ("models", "loras"):
        return tuple(value)
    if key == "private":
        return Privacy(value)
    return NO_LIMIT if value == _UNLIMITED else value
