"""Discord: the token, the gateway with the bot's intents, permissions in channels, registered commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import aiohttp
import discord

from bot.app.discord_side import log_in
from bot.app.offers import with_offers
from bot.config import Config
from bot.delivery.discord_requests import RateGuard
from bot.doctor.findings import Finding, well, wrong
from bot.domain.errors import BotError, ConfigurationError, DiscordUnavailable, StoreUnavailable
from bot.front.client import intents
from bot.front.features import new_tree
from bot.front.gateway.address import use_address
from bot.front.gateway.command_tree import Tree
from bot.front.gateway.translator import CatalogueTranslator
from bot.process.proxies import ProxyConnector
from bot.store.database.database import Clock, Shared
from bot.store.database.opening import connect_database, has_tables
from bot.store.queue.offers import Offers
from sdjax_engine.request import Offer

HELLO, IDENTIFY, INVALID_SESSION = 10, 2, 9
PERMISSIONS = ("view_channel", "send_messages", "attach_files", "read_message_history")
IN_THREADS = "send_messages_in_threads"  # in place of send_messages
_REFUSALS = {
    4004: "the gateway refuses the token: copy it again from the bot's page in the developer portal.",
    4010: "the gateway refuses the shard: correct discord.shard_count and discord.shard_ids.",
    4011: "Discord wants more shards: set discord.shard_count to 0, or to the recommended number.",
    4013: "the gateway does not know the bot's intents: update the bot.",
    4014: "Discord refuses the bot's intents: allow them on the bot's page in the developer portal.",
}


class DiscordSide:
    """The checks of Discord, which share one login."""

    def __init__(self, config: Config) -> None:
        use_address(config.discord.api_url, config.discord.gateway_url)
        self._config = config
        self._token = ""
        trace = aiohttp.TraceConfig()
        RateGuard(clock=time.monotonic).watch(trace)
        self._client = discord.Client(
            connector=ProxyConnector(limit=0),
            intents=discord.Intents.none(),
            max_ratelimit_timeout=30.0,
            http_trace=trace,
        )
        self._login = asyncio.ensure_future(self._log_in())

    async def close(self) -> None:
        """End the login and its connections."""
        self._login.cancel()
        await asyncio.gather(self._login, return_exceptions=True)
        await self._client.close()

    async def _log_in(self) -> str:
        self._token = self._config.discord.read_token()
        await log_in(self._client, self._token, self._config.discord.api_url)
        return str(self._client.user)

    async def token(self) -> AsyncIterator[Finding]:
        """Say whom the token belongs to; raises ConfigurationError or DiscordUnavailable."""
        user = await asyncio.shield(self._login)
        yield well(f"Discord knows the token: it is that of {user}.")

    async def _logged_in(self) -> bool:
        with suppress(BotError):  # the check of the token reports it
            await asyncio.shield(self._login)
            return True
        return False

    async def gateway(self) -> AsyncIterator[Finding]:
        """Log in at the gateway with the bot's intents, as its first shard, and leave again."""
        if not await self._logged_in():
            yield wrong("the gateway was not tried, because the login failed.")
            return
        shards, _, starts = await _translated(self._client.http.get_bot_gateway())
        left = starts["remaining"]
        if left < 10:
            yield wrong(f"only {left} starts are left today: find out what starts the bot again and again.")
            return
        count = self._config.discord.shard_count or shards
        shard = (self._config.discord.shard_ids or (0,))[0]
        yield await self._identified(shard, count, left)

    async def _identified(self, shard: int, count: int, left: int) -> Finding:
        address = f"{self._config.discord.gateway_url.rstrip('/')}/?v=10&encoding=json"
        try:
            async with (
                aiohttp.ClientSession(connector=ProxyConnector()) as session,
                session.ws_connect(address, max_msg_size=0) as socket,
            ):
                while (message := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                    payload = message.json()
                    if payload["op"] == HELLO:
                        await socket.send_json({"op": IDENTIFY, "d": self._identity(shard, count)})
                    elif payload["op"] == INVALID_SESSION:
                        return wrong("the gateway is busy with another start of the bot: try again.")
                    elif payload.get("t") == "READY":
                        return well(f"the gateway lets the bot in with its intents; {left} starts are left.")
                code = socket.close_code
        except (aiohttp.ClientError, OSError) as error:
            return wrong(f"the gateway cannot be reached: {error}. Look at the network and the proxy.")
        return wrong(_REFUSALS.get(code or 0, f"the gateway has closed the connection with {code}."))

    def _identity(self, shard: int, count: int) -> dict[str, Any]:
        properties = {"os": "linux", "browser": "discord.py", "device": "discord.py"}
        return {
            "token": self._token,
            "intents": intents().value,
            "shard": [shard, count],
            "properties": properties,
        }

    async def channel(self, number: int) -> AsyncIterator[Finding]:
        """Say which permissions the bot lacks in the channel of this id."""
        if not await self._logged_in():
            yield wrong(f"channel {number} was not looked at, because the login failed.")
            return
        try:
            yield await self._permissions(number)
        except (discord.NotFound, discord.Forbidden):
            yield wrong(f"channel {number} is not there, or hidden from the bot: give it View Channel.")

    async def _permissions(self, number: int) -> Finding:
        found = await self._client.fetch_channel(number)
        if not isinstance(found, discord.abc.GuildChannel | discord.Thread):
            return wrong(f"channel {number} is in no server: name another.")
        guild = await self._client.fetch_guild(found.guild.id)
        assert self._client.user is not None
        member = await guild.fetch_member(self._client.user.id)
        above = found.parent_id if isinstance(found, discord.Thread) else number
        channel = await guild.fetch_channel(above)
        rights = channel.permissions_for(member)
        needed = list(PERMISSIONS)
        if isinstance(found, discord.Thread):
            needed[needed.index("send_messages")] = IN_THREADS
        lacking = [name for name in needed if not getattr(rights, name)]
        if lacking:
            words = ", ".join(name.replace("_", " ").title() for name in lacking)
            return wrong(f"in #{found.name} the bot lacks {words}: give them to its role there.")
        return well(f"in #{found.name} the bot has its permissions.")

    async def commands(self) -> AsyncIterator[Finding]:
        """Say whether Discord has the commands of this version and configuration."""
        if not await self._logged_in():
            yield wrong("the commands were not compared, because the login failed.")
            return
        tree = new_tree(self._client, self._config, await _offers(self._config))
        await tree.set_translator(CatalogueTranslator())
        guilds = [discord.Object(guild_id) for guild_id in self._config.discord.guild_ids]
        for guild in guilds:
            yield await _compared(tree, guild)
        if not guilds:
            yield await _compared(tree, None)


async def _compared(tree: Tree, guild: discord.Object | None) -> Finding:
    where = f"in server {guild.id}" if guild else "everywhere"
    try:
        known, same = await _translated(tree.compare(guild))
    except discord.Forbidden:
        return wrong(f"commands {where}: the bot is no member, or lacks the scope applications.commands.")
    if not known:
        return well(f"no commands are registered {where} yet: the first start registers them.")
    if not same:
        return wrong(f"other commands are registered {where}: start the front with shard 0 again.")
    return well(f"{known} commands are registered {where}, as this version has them.")


async def _translated(call: Any) -> Any:
    """Return what a call of discord.py returns; its errors become DiscordUnavailable, except Forbidden."""
    try:
        return await call
    except discord.Forbidden:
        raise
    except (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError) as error:
        words = str(error).partition("\n")[0]
        raise DiscordUnavailable(f"Discord does not answer as it should: {words}.") from error


async def _offers(config: Config) -> Sequence[Offer]:
    """Return the offers with what workers have published, where the database can be read."""
    known: dict[str, Offer] = {}
    with suppress(StoreUnavailable, ConfigurationError):  # the check of the database reports it
        database = connect_database(config.queue.database)
        try:
            if await has_tables(database):
                shared = Shared(database=database, clock=Clock())
                known = await Offers(shared).published([model.name for model in config.models])
        finally:
            await database.close()
    return [model.offer for model in with_offers(config, known).models]
