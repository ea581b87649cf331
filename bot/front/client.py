"""The bot as a Discord client: minimal intents, commands, and buttons that work after restarts."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import discord

from bot.config import Config
from bot.delivery.discord_requests import LONGEST_WAIT, NotDiscords, RateGuard
from bot.delivery.refusals import NO_ACCESS
from bot.delivery.uploads import UploadLimits
from bot.domain.errors import CommandsRefused, ConfigurationError, DiscordUnavailable, StoreUnavailable
from bot.domain.jobs import Job
from bot.files import Artifacts, Files
from bot.front.answers.answers import Counting
from bot.front.answers.controls import pressed, submitted
from bot.front.features import BUTTONS, FORMS, define, new_tree
from bot.front.gateway.connections import GatewayConnections, SessionStarts
from bot.front.gateway.spoiler_channels import SpoilerChannels
from bot.front.gateway.translator import CatalogueTranslator
from bot.front.recipes.keywords import Keywords, keywords_of
from bot.front.results.favourites import react
from bot.front.services.from_configuration import attachments_of, configured_services, rates_of
from bot.front.services.request import Interaction, Request, Services
from bot.front.uploads.attachments import WaitingRoom
from bot.front.uploads.resolver import Resolver
from bot.moderation import BothOf
from bot.moderation.limits import Pace
from bot.process.proxies import ProxyConnector
from bot.provenance.signing import Signing
from bot.store import Store
from bot.telemetry.metrics import WELL, FrontMetrics, Metrics
from bot.telemetry.tracing import NO_TRACING, Tracing
from sdjax_engine.request import Offer

log = logging.getLogger(__name__)

JOIN_WAIT = 5.0  # seconds at least before another attempt to register in a server that the bot has joined
REFUSED_WAIT = 600.0  # seconds; Discord answers 400, without Retry-After, to new commands after 200 in a day


def intents() -> discord.Intents:
    """Return the intents of the bot; none of them is privileged."""
    return discord.Intents(guilds=True, reactions=True, auto_moderation_configuration=True)


def _not_a_member(guilds: str) -> str:
    return (
        f"discord.guild_ids: the bot is not a member of server {guilds}, "
        "or was invited without the scope applications.commands."
    )


def _wait(error: Exception) -> float:
    """Return the seconds before another attempt to register the commands."""
    if isinstance(error, discord.RateLimited):
        return error.retry_after
    if isinstance(error, NotDiscords):
        return error.seconds
    refused = isinstance(error, discord.HTTPException) and not isinstance(error, discord.DiscordServerError)
    return REFUSED_WAIT if refused else 0.0


@contextmanager
def _registering() -> Iterator[None]:
    """Raise DiscordUnavailable for errors after which another attempt to register may succeed."""
    try:
        yield
    except (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError) as error:
        words = f"Discord did not take the commands: {error}".partition("\n")[0]
        raise DiscordUnavailable(words, retry_after=_wait(error)) from error


class Bot(discord.AutoShardedClient):
    """Serves commands and buttons as the process `name`.

    It asks for names of servers, their upload limits, changes of their AutoMod rules, and reactions, which
    mark favourites. It does not receive message contents, members or presences. Each of several fronts
    receives the events of its own shards.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        artifacts: Artifacts,
        *,
        name: str,
        announce: Callable[[Job], Awaitable[None]],
        hard_rule: BothOf,
        clock: Callable[[], float] = time.time,
        metrics: FrontMetrics | None = None,
        signing: Signing | None = None,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        metrics = metrics or Metrics().front
        self._counting, self._gateway = Counting(metrics), GatewayConnections(metrics)
        self.rate_guard, self.limits_on_files = RateGuard(clock=clock), UploadLimits(clock=clock)
        trace = self._counting.trace()
        self.rate_guard.watch(trace)
        self._resolver = Resolver()
        self._room = WaitingRoom(places=config.pictures.waiting_files)
        pace = Pace(rates_of(config), clock=time.monotonic)
        super().__init__(
            connector=ProxyConnector(limit=0, resolver=self._resolver),
            intents=intents(),
            allowed_mentions=discord.AllowedMentions.none(),
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_messages=None,
            max_ratelimit_timeout=LONGEST_WAIT,
            shard_count=config.discord.shard_count or None,
            http_trace=trace,
        )
        SpoilerChannels().listen(self._connection.parsers)
        self.shard_ids = list(config.discord.shard_ids) or None
        self._counts_shards = not config.discord.shard_count
        self._starts = SessionStarts(self.http)
        self._leaving = False
        self.services = Services(
            front=name,
            store=store,
            artifacts=artifacts,
            files=Files(store.files, artifacts),
            attachments=attachments_of(config, pace, self._resolver, self._room),
            pace=pace,
            announce=announce,
            hard_rule=hard_rule,
            offers=tuple(model.offer for model in config.models),
            **configured_services(config, keywords_of(config.prompts.keywords_file)),
            clock=clock,
            metrics=metrics,
            was_unclear=self._counting.was_unclear,
            rate_guard=self.rate_guard,
            limits_on_files=self.limits_on_files,
            signing=signing or Signing(),
            tracing=tracing,
        )
        self.guilds_served = [discord.Object(guild_id) for guild_id in config.discord.guild_ids]
        self._config = config
        self.tree = new_tree(self, config, self.services.offers)

    def change(self, config: Config, keywords: Keywords | None) -> None:
        """Take another configuration; `keywords` are those of its file. The offers are changed next."""
        self._config = config
        pace = self.services.pace
        pace.change(rates_of(config))
        self._room.places = config.pictures.waiting_files
        attachments = attachments_of(config, pace, self._resolver, self._room)
        values = configured_services(config, keywords)
        self.services = dataclasses.replace(self.services, attachments=attachments, **values)

    async def change_offers(self, offers: tuple[Offer, ...]) -> None:
        """Change the offers, and register their commands; raises like `register`."""
        self.services = dataclasses.replace(self.services, offers=offers)
        define(self.tree, self._config, offers)
        await self.register()

    async def register(self) -> None:
        """Register the commands. They are the same for all shards: the front with shard 0 registers them.

        Raises DiscordUnavailable where another attempt may succeed, else ConfigurationError.
        """
        if 0 not in (self.shard_ids or [0]):
            return
        with _registering():
            await self._register_everywhere()

    async def setup_hook(self) -> None:
        """Determine the shards, after the login and before the gateway connects."""
        if self._counts_shards:
            self.shard_count, _, _ = await self.http.get_bot_gateway()
        await self.tree.set_translator(CatalogueTranslator())

    async def connect(self, *, reconnect: bool = True) -> None:
        """Connect to the gateway, once Discord allows as many session starts as there are shards."""
        await self._starts.wait(len(self.shard_ids or range(self.shard_count or 1)))
        await super().connect(reconnect=reconnect)

    async def before_identify_hook(self, shard_id: int | None, **_options: bool) -> None:
        """Wait until the shard may identify; raises GatewayNotFound, which discord.py retries."""
        await self._starts.take(shard_id or 0)

    async def _register_everywhere(self) -> None:
        """Register everywhere, or in the configured servers; a server that refuses stops no other."""
        refusals = [str(guild.id) for guild in self.guilds_served if not await self._register_in(guild)]
        if refusals and len(refusals) == len(self.guilds_served):
            raise ConfigurationError(_not_a_member(", ".join(refusals)))
        await self.tree.register()  # with configured servers, this removes the global commands

    async def _register_in(self, guild: discord.Object) -> bool:
        """Register in one configured server; False where the server refuses."""
        try:
            await self.tree.register(guild)
        except discord.Forbidden as error:
            if error.code not in NO_ACCESS:
                raise
            log.error("%s", _not_a_member(str(guild.id)))
            return False
        return True

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Record that the server has the bot, which keeps its jobs; register commands if it is configured."""
        await self._noted(self.services.store.erasure.note_presence([guild.id]))
        for served in self.guilds_served:
            if served.id == guild.id:
                await self._register_joined(served)

    async def _register_joined(self, guild: discord.Object) -> None:
        """Register in a configured server that the bot has joined, again after each passing error.

        The front of the server's shard does it: `register` of a front without shard 0 does nothing.
        """
        while not (self._leaving or self.is_closed()) and self.get_guild(guild.id):
            try:
                with _registering():
                    await self._register_in(guild)
                return
            except CommandsRefused as error:
                log.error("%s", error)
                return
            except DiscordUnavailable as error:
                log.warning("registering the commands in server %d is retried: %s", guild.id, error)
                await asyncio.sleep(max(error.retry_after, JOIN_WAIT))

    async def on_ready(self) -> None:
        """Log the bot's user and its servers, and record the servers that joined or left meanwhile."""
        shards = ", ".join(str(number) for number in sorted(self.shards))
        log.info(
            "connected to Discord as %s, in %s, with shard %s of %s",
            self.user,
            "1 server" if len(self.guilds) == 1 else f"{len(self.guilds)} servers",
            shards,
            self.shard_count,
        )

        await self._note_servers()

    async def on_automod_rule_create(self, rule: discord.AutoModRule) -> None:
        """Let the AutoMod rules of the server be read again."""
        self.services.automod.expire(rule.guild.id)

    on_automod_rule_update = on_automod_rule_delete = on_automod_rule_create

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        """Add a favourite."""
        await self._note_reaction(event, added=True)

    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        """Remove a favourite."""
        await self._note_reaction(event, added=False)

    async def _note_reaction(self, event: discord.RawReactionActionEvent, *, added: bool) -> None:
        if self.user is not None:
            await react(self.services, event, self.user.id, added=added)

    async def on_guild_remove(self, guild: discord.Guild) -> None:
        """Record that a server removed the bot; its jobs are deleted after some time."""
        log.info("server %d has removed the bot", guild.id)
        await self._noted(self.services.store.erasure.note_departure([guild.id]))

    async def _note_servers(self) -> None:
        """Record the servers of these shards that joined or left while the front was not connected."""
        await self._noted(self.services.store.erasure.note_presence({guild.id for guild in self.guilds}))
        try:
            known = await self.services.store.erasure.servers()
        except StoreUnavailable as error:
            log.error("the servers that removed the bot while it was away cannot be determined: %s", error)
            return
        count = self.shard_count or 1
        missing = known - {guild.id for guild in self.guilds}
        gone = {one for one in missing if (one >> 22) % count in self.shards}
        await self._noted(self.services.store.erasure.note_departure(gone))
        back = gone & {guild.id for guild in self.guilds}  # they joined while this was written
        await self._noted(self.services.store.erasure.note_presence(back))

    async def _noted(self, verb: Awaitable[None]) -> None:
        try:
            await verb
        except StoreUnavailable:  # it is logged already: a line that names it would be dropped
            log.error("the list of the bot's servers could not be stored before the next connection")

    async def hear_no_more(self) -> None:
        """Leave the gateway, and finish the interactions that arrived before.

        Cancelling this cancels them too: each person reads that the bot restarts.
        """
        self._leaving = True
        self.services.open_interactions.ending.set()
        for shard in self.shards.values():
            await shard.disconnect()
        try:
            await self.services.open_interactions.finished()
        finally:
            await self.services.open_interactions.cancel()

    async def on_shard_connect(self, shard_id: int) -> None:
        """Count a new connection."""
        self._gateway.note("identified", shard_id)

    async def on_shard_resumed(self, shard_id: int) -> None:
        """Count a resumed connection."""
        self._gateway.note("resumed", shard_id)
        log.info("shard %d is connected to Discord again", shard_id)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        """Count a lost connection; discord.py reconnects by itself."""
        self._gateway.note("disconnected", shard_id)
        if not self._leaving:
            log.warning("shard %d has lost the connection to Discord, or could not make it", shard_id)

    async def health(self) -> str:
        """Return "well", or why the gateway is not connected."""
        starts = self._starts.health()
        return self._gateway.health() if starts == WELL else starts

    async def on_interaction(self, interaction: Interaction) -> None:
        """Count an interaction; the tree answers commands, and buttons and forms are answered here."""
        self._counting.arrived(interaction)
        if interaction.type is discord.InteractionType.modal_submit:
            await submitted(Request.of(interaction), FORMS)
        elif interaction.type is discord.InteractionType.component:
            await pressed(Request.of(interaction), BUTTONS)

    async def on_error(self, event_method: str, /, *_args: Any, **_kwargs: Any) -> None:
        """Log an error that no command or button caught; other events go on."""
        log.exception("the event %s could not be handled", event_method)
