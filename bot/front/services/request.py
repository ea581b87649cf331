"""A request, and the services that answer it.

A request is a command, a press or a form. It is made once, where the interaction arrives, and handed to all
that answers it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import discord

from bot.config import LimitsConfig, RetentionConfig
from bot.delivery.discord_requests import RateGuard
from bot.delivery.uploads import UploadLimits
from bot.domain.channels import ChannelKind
from bot.domain.errors import StoreUnavailable
from bot.domain.jobs import Job
from bot.domain.quotas import Caps
from bot.files import Artifacts, Files
from bot.front.recipes.keywords import Keywords
from bot.front.services.judges import AutomodCache, Judging
from bot.front.services.kept_values import KeptValues
from bot.front.services.standing import Operator, ServerCache, Standing
from bot.front.uploads.attachments import Attachments
from bot.front.uploads.messages import MessagePictures, MessageRecipe
from bot.moderation import BothOf
from bot.moderation.limits import Pace, Sender, offers_within
from bot.process.retries import while_unavailable
from bot.process.threads import Threads
from bot.provenance.signing import Signing
from bot.store import Store
from bot.store.library.styles import Style
from bot.store.moderation.standing import Requester
from bot.telemetry.metrics import FrontMetrics
from bot.telemetry.tracing import NO_TRACING, Span, Stages, Tracing
from bot.texts.catalogue import Texts
from sdjax_engine.request import Offer

Interaction = discord.Interaction[Any]
"""An interaction with any client."""
Person = discord.User | discord.Member
FormPayload = Mapping[str, Any]
"""A form as Discord is sent it: title, id and components."""
MOST_FORMS = 2000  # each has the texts of its inputs: 20 kB at most
SENTENCE_SECONDS = 3.0  # for telling people that a stop ends their commands
EARLY_SECONDS = 0.5  # of the 3 s that Discord allows for an acknowledgement
IN_SPOILER_CHANNEL = "in_spoiler_channel"
"""A key that `bot.front.gateway.spoiler_channels` adds to the `data` of interactions."""
PATIENCE_SECONDS = 2.0  # a restarting database is back by then, and the person still waits

P = ParamSpec("P")
T = TypeVar("T")


async def patiently(verb: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a verb of the store returns; raises StoreUnavailable only after two seconds of retries."""
    return await while_unavailable(PATIENCE_SECONDS, verb, *args, **kwargs)


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

    `front` is this process's name. `announce` shows a new job in the answer to its interaction. `operator` is
    what applies in all servers. `was_unclear` says whether an attempt at
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
    `kept_pictures` and `kept_recipes` have what forms and buttons of this process refer to, `kept_forms` the
    forms that people opened, by their `custom_id`, and refused ones for the button Try again.
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
    operator: Operator = field(default_factory=Operator)
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
    kept_pictures: KeptValues[MessagePictures] = field(
        default_factory=lambda: KeptValues(clock=time.monotonic)
    )
    kept_recipes: KeptValues[MessageRecipe] = field(default_factory=lambda: KeptValues(clock=time.monotonic))
    kept_forms: KeptValues[FormPayload] = field(
        default_factory=lambda: KeptValues(clock=time.monotonic, most=MOST_FORMS, forgotten="words_forgotten")
    )
    exporting: asyncio.Lock = field(default_factory=asyncio.Lock)  # one archive is made at a time
    being_exported: set[int] = field(default_factory=set)  # persons whose export is being made here
    being_deleted: set[int] = field(default_factory=set)  # persons whose data is being deleted here
    servers: ServerCache = field(default_factory=ServerCache)
    automod: AutomodCache = field(default_factory=lambda: AutomodCache(time.monotonic))


def role_ids(person: Person) -> tuple[int, ...]:
    """Return the ids of a person's roles, @everyone's too; none in a direct message.

    `Member.roles` has only the roles of servers that the gateway has sent: after a start some are missing.
    """
    if not isinstance(person, discord.Member):
        return ()
    return (person.guild.id, *person._roles)


class Answered(Enum):
    """The kind of first answer that a request has."""

    PROMISED_PRIVATELY = auto()
    PROMISED_PUBLICLY = auto()
    PRESSED = auto()  # the message with the button stays as it is
    SAID = auto()  # a message
    ASKED = auto()  # a form


class _Serving(Protocol):
    services: Services


@dataclass(kw_only=True, eq=False)
class Request:
    """A command, a press or a form: who asks, where, in which language, and what applies there.

    `answered` is the kind of its first answer, None before it. `stages` and `span` are those of the job that
    it asks for now.
    """

    interaction: Interaction
    services: Services
    answered: Answered | None = None
    stages: Stages | None = None
    span: Span = field(default_factory=Span)
    _standing: Standing | None = field(default=None, init=False)

    @classmethod
    def of(cls, interaction: Interaction) -> Request:
        """Return the request of an interaction, with the services of the client that received it."""
        return cls(interaction=interaction, services=cast("_Serving", interaction.client).services)

    @property
    def person(self) -> Person:
        """The person who asks."""
        return self.interaction.user

    @property
    def role_ids(self) -> tuple[int, ...]:
        """The ids of the person's roles, see `role_ids`."""
        return role_ids(self.person)

    @property
    def guild_id(self) -> int | None:
        """The server; None in a direct message."""
        return self.interaction.guild_id

    @property
    def server_id(self) -> int | None:
        """The server if it has the bot; None elsewhere."""
        return self.guild_id if self.interaction.is_guild_integration() else None

    @property
    def channel_id(self) -> int | None:
        """The channel, or the thread."""
        return self.interaction.channel_id

    @property
    def channel(self) -> Any:
        """The channel as far as the gateway has sent it."""
        return self.interaction.channel

    @property
    def thread_parent_id(self) -> int | None:
        """The channel of the thread; None elsewhere."""
        return getattr(self.channel, "parent_id", None) or None

    @property
    def is_external(self) -> bool:
        """Whether the channel is outside the bot's servers: the person installed the bot."""
        if self.guild_id is not None:
            return self.server_id is None
        return bool(self.interaction.context.private_channel)

    @property
    def channel_kind(self) -> ChannelKind:
        """The kind of the channel, or of that of the thread."""
        is_nsfw = getattr(self.channel, "is_nsfw", None)  # direct messages and unknown channels have none
        if is_nsfw is not None and is_nsfw():
            return ChannelKind.AGE_RESTRICTED
        data: Any = self.interaction.data
        return ChannelKind.SPOILER if data and data.get(IN_SPOILER_CHANNEL) else ChannelKind.PLAIN

    @property
    def may_read_automod(self) -> bool:
        """Whether the bot is in the server with the right to manage it; else Discord is not asked."""
        return self.server_id is not None and self.interaction.app_permissions.manage_guild

    @property
    def message(self) -> discord.Message | None:
        """The message of the pressed button; None for a command."""
        return self.interaction.message

    @property
    def is_pressed_privately(self) -> bool:
        """Whether the pressed button is in a message for one person alone."""
        return self.message is not None and self.message.flags.ephemeral

    @property
    def bot_id(self) -> int:
        """The bot's own id."""
        user = self.interaction.client.user
        return user.id if user else 0

    @property
    def sender(self) -> Sender:
        """The person and the server, as rates count them."""
        return Sender(user_id=self.person.id, guild_id=self.guild_id)

    @cached_property
    def locale(self) -> str:
        """The locale in which the person is answered."""
        services = self.services
        for known in (self.person.id, self.guild_id):
            if known is not None and known in services.languages:
                return services.languages[known]
        return services.language or str(self.interaction.locale)

    @cached_property
    def texts(self) -> Texts:
        """The sentences in the language of the person."""
        return Texts.for_locale(self.locale)

    @cached_property
    def names(self) -> Texts:
        """The names of commands and options as the person's Discord shows them."""
        return Texts.for_locale(str(self.interaction.locale))

    async def standing(self) -> Standing:
        """Return what applies to the person here, which is read once; raises StoreUnavailable."""
        if self._standing is None:
            self._standing = await self.standing_of(self.person)
        return self._standing

    async def standing_of(self, person: Person) -> Standing:
        """Return what applies to any person here; raises StoreUnavailable."""
        services = self.services
        channels = (self.channel_id, self.thread_parent_id)
        requester = Requester(
            user_id=person.id,
            guild_id=self.guild_id,
            channel_ids=tuple(channel_id for channel_id in channels if channel_id is not None),
            role_ids=role_ids(person),
        )
        return await patiently(services.servers.standing, services.store, requester, services.operator)

    async def wants_private(self) -> bool:
        """Return whether a policy wants every answer for the person alone, if that is known in time."""
        if self.guild_id is None:
            return False
        try:
            async with asyncio.timeout(EARLY_SECONDS):
                return (await self.standing()).is_private
        except (StoreUnavailable, TimeoutError):
            return False

    async def locale_for_all(self) -> str:
        """Return the language that a policy gives to messages for everyone here, or else the person's."""
        return (await self.standing()).policy.language or self.locale

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offers that the policy allows, or all of them before the policy has been read."""
        offers, standing = self.services.offers, self._standing
        return offers if standing is None else offers_within(offers, standing.policy)

    def enter(self, stage: str) -> Stages:
        """Let the job that is asked for enter this stage, and return its stages."""
        self.stages = self.stages or Stages()
        self.stages.enter(stage)
        return self.stages

    async def edit(self, **message: Any) -> None:
        """Change the answer: the arguments of discord.py's `edit_original_response`."""
        await self.interaction.edit_original_response(**message)
