"""The limits of requests: how often, what a policy allows, what a request costs, and which quotas count it.

A token bucket for each person and each server says how often. It holds a minute's tokens and fills evenly, so
a minute's requests may come at once. Buckets belong to this process. One front gets all commands of a server,
so a server has one bucket. A person has one bucket at each front that serves one of the person's servers.

The other functions are pure. There is no I/O here, and no Discord.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from bot.domain.channels import ChannelKind, flagged_in
from bot.domain.errors import UserMistake
from bot.domain.jobs import Recipe
from bot.domain.quotas import Measure, Quota
from bot.domain.time_units import DAY_SECONDS, HOUR_SECONDS
from bot.moderation.generosity import ANY, NO_LIMIT
from bot.moderation.policy import Effective, Names, Policy, Rule
from bot.store.moderation.policies import PolicyScope
from sdjax_engine.request import Offer

SPANS = MappingProxyType(
    {
        "pictures_per_hour": (Measure.PICTURES, HOUR_SECONDS),
        "pictures_per_day": (Measure.PICTURES, DAY_SECONDS),
        "cost_per_hour": (Measure.COST, HOUR_SECONDS),
        "cost_per_day": (Measure.COST, DAY_SECONDS),
    }
)
"""What the quotas of a policy count, and over how many seconds."""
COOL_DOWN = "cool_down"
MOST_NAMED = 10
MINUTE = 60.0
SUGGESTIONS = 240  # a minute, of one person: each keystroke asks for some
LEAST_ACTS = 60  # a minute, of one person
ACTS_A_REQUEST = 2  # a button that opens a form, and the form
DECODING_SECONDS = 0.5  # of the decoder, for one token; most files take a third of it
MOST_BUCKETS = 10_000  # beyond this number full buckets are dropped


@dataclass(frozen=True, kw_only=True)
class Sender:
    """The person and the server of a command; no server in direct messages."""

    user_id: int
    guild_id: int | None


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Tokens a minute: requests and files, of a person and of a server. 0 means no limit."""

    requests: int = 0
    server_requests: int = 0
    files: int = 0
    server_files: int = 0


class Buckets:
    """A bucket of `per_minute` tokens for each key; a missing bucket is full."""

    def __init__(self, per_minute: int) -> None:
        self._size = float(per_minute)
        self._levels: dict[Hashable, tuple[float, float]] = {}  # tokens, and when they were counted

    def resize(self, per_minute: int) -> None:
        """Change the size of the buckets; tokens that were taken stay taken."""
        grown = per_minute - self._size
        self._levels = {
            key: (max(-per_minute, level + grown), at) for key, (level, at) in self._levels.items()
        }
        self._size = float(per_minute)

    def wait(self, key: Hashable, count: float, *, now: float) -> float:
        """Return the seconds until `count` tokens can be taken; 0 for now."""
        if not self._size:
            return 0.0
        missing = min(count, self._size) - self._level(key, now)
        return max(0.0, missing) * MINUTE / self._size

    def take(self, key: Hashable, count: float, *, now: float) -> None:
        """Take tokens; a bucket may fall below zero, by at most a minute's tokens."""
        if not self._size:
            return
        if len(self._levels) >= MOST_BUCKETS:
            self._levels = {
                other: counted
                for other, counted in self._levels.items()
                if self._level(other, now) < self._size
            }
        self._levels[key] = max(-self._size, self._level(key, now) - count), now

    def _level(self, key: Hashable, now: float) -> float:
        level, counted_at = self._levels.get(key, (self._size, now))
        return min(self._size, level + max(0.0, now - counted_at) * self._size / MINUTE)


class Pace:
    """The buckets of all people and servers; `clock` is in seconds and monotonic."""

    def __init__(self, rates: Rates, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._acts = Buckets(_acts(rates))
        self._suggestions = Buckets(SUGGESTIONS)
        self._requests = Buckets(rates.requests)
        self._server_requests = Buckets(rates.server_requests)
        self._files = Buckets(rates.files)
        self._server_files = Buckets(rates.server_files)

    def change(self, rates: Rates) -> None:
        """Use other rates from now on; tokens that were taken stay taken."""
        self._acts.resize(_acts(rates))
        self._requests.resize(rates.requests)
        self._server_requests.resize(rates.server_requests)
        self._files.resize(rates.files)
        self._server_files.resize(rates.server_files)

    def act(self, sender: Sender) -> None:
        """Take the token of any command, press or form, which is never given back; raises as `admit`."""
        now = self._clock()
        if seconds := self._acts.wait(sender.user_id, 1, now=now):
            raise UserMistake("too_quick", seconds=math.ceil(seconds))
        self._acts.take(sender.user_id, 1, now=now)

    def may_suggest(self, sender: Sender) -> bool:
        """Take the token of one keystroke with suggestions; return whether there was one."""
        now = self._clock()
        if self._suggestions.wait(sender.user_id, 1, now=now):
            return False
        self._suggestions.take(sender.user_id, 1, now=now)
        return True

    def admit(self, sender: Sender, *, files: int = 0) -> None:
        """Take the tokens of a request with so many files, all or none.

        Raises UserMistake `too_quick`, `server_too_quick`, `files_too_quick` or `server_files_too_quick`
        with the `seconds` to wait.
        """
        now = self._clock()
        taken = [(self._requests, sender.user_id, 1, "too_quick")]
        if sender.guild_id is not None:
            taken.append((self._server_requests, sender.guild_id, 1, "server_too_quick"))
        if files:
            taken.append((self._files, sender.user_id, files, "files_too_quick"))
        if files and sender.guild_id is not None:
            taken.append((self._server_files, sender.guild_id, files, "server_files_too_quick"))
        for buckets, key, count, problem in taken:
            if seconds := buckets.wait(key, count, now=now):
                raise UserMistake(problem, seconds=math.ceil(seconds))
        for buckets, key, count, _ in taken:
            buckets.take(key, count, now=now)

    def give_back(self, sender: Sender, *, files: int = 0) -> None:
        """Give back the tokens of a request that was admitted and is refused for another reason."""
        now = self._clock()
        self._requests.take(sender.user_id, -1, now=now)
        self._files.take(sender.user_id, -files, now=now)
        if sender.guild_id is not None:
            self._server_requests.take(sender.guild_id, -1, now=now)
            self._server_files.take(sender.guild_id, -files, now=now)

    def used_decoder(self, sender: Sender, seconds: float, *, before: float = 0.0) -> None:
        """Take the tokens of a request whose files have used so many seconds of the decoder.

        The request has paid one token already, and the further ones of the seconds `before`.
        """
        now = self._clock()
        tokens = max(1.0, (before + seconds) / DECODING_SECONDS) - max(1.0, before / DECODING_SECONDS)
        self._files.take(sender.user_id, tokens, now=now)
        if sender.guild_id is not None:
            self._server_files.take(sender.guild_id, tokens, now=now)


def _acts(rates: Rates) -> int:
    return max(LEAST_ACTS, ACTS_A_REQUEST * rates.requests) if rates.requests else 0


def allows(names: Names | None, name: str) -> bool:
    """Return whether a policy's names allow this one; None allows every name."""
    return names is None or ANY in names or name in names


def refusal(policy: Policy, recipe: Recipe) -> UserMistake | None:
    """Return why a policy refuses a request for the pictures of a recipe; None where it does not."""
    return next(_refusals(policy, recipe), None)


def _refusals(policy: Policy, recipe: Recipe) -> Iterator[UserMistake]:
    if policy.paint is False:
        yield UserMistake("policy_paint")
    if not allows(policy.models, recipe.model):
        yield UserMistake("policy_model", value=recipe.model, choices=_named(policy.models))
    width, height = recipe.picture_size
    if width * height > _limit(policy.pixels):
        side = math.isqrt(int(_limit(policy.pixels)))
        yield UserMistake("policy_size", value=f"{width}x{height}", limit=f"{side}x{side}")
    if _steps(recipe) > _limit(policy.steps):
        yield UserMistake("policy_steps", limit=f"{policy.steps:g}")
    if recipe.variants > _limit(policy.variants):
        yield UserMistake("policy_variants", limit=f"{policy.variants:g}")
    for lora in recipe.loras:
        if not allows(policy.loras, lora.name):
            yield UserMistake("policy_lora", value=lora.name, choices=_named(policy.loras))
    if policy.start_pictures is False and recipe.given:
        yield UserMistake("policy_start_pictures")


def quotas_of(found: Effective, bounds: Policy, *, guild_id: int | None) -> tuple[Quota, ...]:
    """Return the quotas of a person.

    A channel's quota counts requests in the channel, a server's or a role's those in the server, and the
    operator's those everywhere. The operator's bounds are further quotas, which count everywhere.
    """
    here = [_quota(found.rules[key][0], getattr(found.policy, key), guild_id or 0) for key in found.rules]
    everywhere = [
        _quota(Rule(scope=PolicyScope.BOUND, id=0, key=key, value=limit), limit, 0)
        for key in (*SPANS, COOL_DOWN)
        if (limit := getattr(bounds, key)) is not None
    ]
    return tuple(dict.fromkeys(quota for quota in (*here, *everywhere) if quota is not None))


def _quota(rule: Rule, limit: Any, guild_id: int) -> Quota | None:
    by_operator = rule.scope in (PolicyScope.OPERATOR, PolicyScope.BOUND)
    where = {
        "guild_id": 0 if by_operator else guild_id,
        "channel_id": rule.id if rule.scope is PolicyScope.CHANNEL else 0,
    }
    if rule.key == COOL_DOWN:
        return (
            Quota(key=COOL_DOWN, measure=Measure.REQUESTS, limit=1, seconds=limit, **where) if limit else None
        )
    if rule.key not in SPANS or limit == NO_LIMIT:
        return None
    measure, seconds = SPANS[rule.key]
    return Quota(key=rule.key, measure=measure, limit=limit, seconds=seconds, **where)


def cost_of(recipe: Recipe, offer: Offer) -> float:
    """Return the cost of one picture, in pictures of its model's default size and steps."""
    return recipe.cost / (offer.num_inference_steps * math.prod(offer.sizes[0]) / 1e6)


def places_of(recipe: Recipe, offer: Offer) -> int:
    """Return the cost of a request in pictures of its model's default size and steps; at least 1."""
    return max(1, math.ceil(round(cost_of(recipe, offer) * recipe.variants, 6)))


def offers_within(offers: Sequence[Offer], policy: Policy) -> tuple[Offer, ...]:
    """Return the part of the offers that a policy allows, so that the defaults of options are allowed.

    If it allows none of them, all are returned: the request is then refused with a sentence.
    """
    kept = [_within(offer, policy) for offer in offers if allows(policy.models, offer.model)]
    return tuple(kept) or tuple(offers)


def _within(offer: Offer, policy: Policy) -> Offer:
    sizes = tuple(size for size in offer.sizes if size[0] * size[1] <= _limit(policy.pixels))
    most = int(min(offer.max_steps, _limit(policy.steps)))
    return replace(
        offer,
        sizes=sizes or offer.sizes,
        max_steps=most,
        num_inference_steps=min(offer.num_inference_steps, most),
        loras=tuple(name for name in offer.loras if allows(policy.loras, name)),
    )


def kept_for_later(policy: Policy, kind: ChannelKind) -> dict[str, Any]:
    """Return the values of a policy that a job in a channel of a kind keeps, for its message and pictures."""
    flagged = flagged_in(kind, policy)
    kept: dict[str, Any] = {"flagged": flagged and list(map(str, flagged))}
    kept["previews"] = None if policy.previews is not False else False
    return {key: value for key, value in kept.items() if value is not None}


def _steps(recipe: Recipe) -> int:
    second = recipe.second_pass
    return max(recipe.num_inference_steps, second.num_inference_steps if second else 0)


def _limit(value: float | None) -> float:
    return NO_LIMIT if value is None else value


def _named(names: Names | None) -> str:
    return ", ".join((names or ())[:MOST_NAMED]) or "-"
