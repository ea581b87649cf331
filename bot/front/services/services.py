"""The services that every command and button calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import discord

from bot.config import LimitsConfig, RetentionConfig
from bot.delivery.discord_requests import RateGuard
from bot.delivery.uploads import UploadLimits
from bot.domain.jobs import Job
from bot.domain.quotas import Caps
from bot.files import Artifacts, Files
from bot.front.recipes.keywords import Keywords
from bot.front.services.judges import Judging
from bot.front.services.kept_values import Offered
from bot.front.services.server_cache import AutomodCache, ServerCache
from bot.front.uploads.attachments import Attachments
from bot.front.uploads.message_pictures import PicturesOffered
from bot.front.uploads.message_recipes import RecipeOffered
from bot.moderation import BothOf
from bot.moderation.limits import Pace, Sender
from bot.moderation.policy import Policy
from bot.process.threads import Threads
from bot.provenance.signing import Signing
from bot.store import Store
from bot.store.library.styles import Style
from bot.telemetry.metrics import FrontMetrics
from bot.telemetry.tracing import NO_TRACING, Tracing
from bot.texts.catalogue import Texts
from sdjax_engine.request import Offer

Interaction = discord.Interaction[Any]
"""An interaction with any client."""


FormPayload = Mapping[str, Any]
"""A form as Discord is sent it: title, id and components."""
MOST_FORMS = 2000  # each has the texts of its inputs: 20 kB at most
SENTENCE_SECONDS = 3.0  # for telling people that a stop ends their commands


class OpenInteractions:
    """The commands and presses that are being answered, so that a shutdown can wait for them.

    `ending` is set from the shutdown on: long work then ends at its next safe point.
    """

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        self._tasks: list[asyncio.Task[Any] | None] = []
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count the interaction of the current task until the context ends."""
        task = asyncio.current_task()
        self._tasks.append(task)
        self._none.clear()
        try:
            yield
        finally:
            self._tasks.remove(task)
            if not self._tasks:
                self._none.set()

    async def finished(self) -> None:
        """Wait until no interaction is open."""
        await self._none.wait()

    async def cancel(self) -> None:
        """Cancel what is still open, and wait a moment for the sentences about that."""
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=SENTENCE_SECONDS)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The services of one front.

    `front` is this process's name. `announce` shows a new job in the answer to its interaction. `weights` are
    the weights of roles by their ids: a person has the largest weight of their roles, or 1. `policy` is the
    operator's policy, and `bounds` limits the policies of servers. `was_unclear` says whether an attempt at
    the first answer to an interaction, given its id, had an unknown outcome. `rate_guard` says when Discord
    wants no more requests from this address, `limits_on_files` how large a file each place takes.
    `languages` are the languages
    set for persons and servers by their ids, `language` is the one of all others; if it is empty, each person
    is answered in the language of their Discord. `hard_rule` is the rule that no server can switch off.
    `styles` are available in every server. `signing` signs the files that are sent. `label` says whether
    results are labelled as AI-generated. `host_permission` is Discord's name of the permission that hosts of
    group sessions need. `fitting` runs one task on pictures at a time, because a grid of nine takes hundreds
    of megabytes. `hashing` hashes one picture at a time, `judging` judges and expands people's texts.
    `servers` caches the settings of servers. `tracing` records the spans of requests.
    `pictures_offered` and `recipes_offered` keep what forms and buttons of this process refer to. `forms`
    keeps the forms that people opened, by their `custom_id`, and refused ones for the button Try again.
    """

    front: str
    store: Store
    artifacts: Artifacts
    files: Files
    attachments: Attachments
    pace: Pace
    announce: Callable[[Job], Awaitable[None]]
    offers: tuple[Offer, ...]
    caps: Caps
    clock: Callable[[], float]
    metrics: FrontMetrics
    was_unclear: Callable[[int], bool]
    rate_guard: RateGuard
    limits_on_files: UploadLimits
    hard_rule: BothOf
    language: str = ""
    languages: Mapping[int, str] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    bounds: Policy = field(default_factory=Policy)
    styles: tuple[Style, ...] = ()
    keywords: Keywords | None = None
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    max_permutations: int = 12
    role_permutations: Mapping[int, int] = field(default_factory=dict)
    host_permission: str = "manage_events"
    open_interactions: OpenInteractions = field(default_factory=OpenInteractions)
    signing: Signing = field(default_factory=Signing)
    label: bool = True
    tracing: Tracing = NO_TRACING
    fitting: Threads = field(default_factory=lambda: Threads("pictures", most=1))
    hashing: Threads = field(default_factory=lambda: Threads("hashes", most=1))
    judging: Judging = field(default_factory=Judging)
    pictures_offered: Offered[PicturesOffered] = field(default_factory=lambda: Offered(clock=time.monotonic))
    recipes_offered: Offered[RecipeOffered] = field(default_factory=lambda: Offered(clock=time.monotonic))
    forms: Offered[FormPayload] = field(
        default_factory=lambda: Offered(clock=time.monotonic, most=MOST_FORMS, forgotten="words_forgotten")
    )
    exporting: asyncio.Lock = field(default_factory=asyncio.Lock)  # one archive is made at a time
    being_exported: set[int] = field(default_factory=set)  # persons whose export is being made here
    being_deleted: set[int] = field(default_factory=set)  # persons whose data is being deleted here
    servers: ServerCache = field(default_factory=ServerCache)
    automod: AutomodCache = field(default_factory=lambda: AutomodCache(time.monotonic))

    def weight_of(self, person: discord.User | discord.Member) -> float:
        """Return the weight that the operator gives a person in the fair order; 1 without such a role."""
        return max((self.weights[role] for role in role_ids(person) if role in self.weights), default=1.0)

    def most_permutations(self, interaction: Interaction) -> int:
        """Return how many prompts one request of the person may have: the largest limit of their roles."""
        roles, most = role_ids(interaction.user), self.role_permutations
        found = (most[role] for role in roles if role in most)
        return max(found, default=self.max_permutations)

    def locale(self, interaction: Interaction) -> str:
        """Return the locale in which the person is answered."""
        for known in (interaction.user.id, interaction.guild_id):
            if known is not None and known in self.languages:
                return self.languages[known]
        return self.language or str(interaction.locale)

    def texts(self, interaction: Interaction) -> Texts:
        """Return the sentences in the language of the person."""
        return Texts.for_locale(self.locale(interaction))


def sender_of(interaction: Interaction) -> Sender:
    """Return the person and the server of an interaction."""
    return Sender(user_id=interaction.user.id, guild_id=interaction.guild_id)


def role_ids(person: discord.User | discord.Member) -> tuple[int, ...]:
    """Return the ids of a person's roles, @everyone's too; none in a direct message.

    `Member.roles` has only the roles of servers that the gateway has sent: after a start some are missing.
    """
    if not isinstance(person, discord.Member):
        return ()
    return (person.guild.id, *person._roles)


class _Serving(Protocol):
    services: Services


def services_of(interaction: Interaction) -> Services:
    """Return the services of the client that received `interaction`."""
    return cast("_Serving", interaction.client).services
