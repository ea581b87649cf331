"""Logs in to Discord and keeps the connection; each error is one sentence."""

from __future__ import annotations

import asyncio
import logging
import math

import aiohttp
import discord
from yarl import URL

from bot.domain.errors import ConfigurationError, DiscordUnavailable
from bot.process.proxies import proxy_of
from bot.telemetry.redaction import redact

log = logging.getLogger(__name__)


async def log_in(client: discord.Client, token: str, api_url: str) -> None:
    """Log in with the token; raises ConfigurationError for a refused token, or DiscordUnavailable."""
    address = redact(api_url)
    try:
        if proxy := proxy_of(URL(api_url)):
            log.info("Discord is reached through the proxy %s", proxy.origin())
        await client.login(token)
    except discord.LoginFailure:
        raise ConfigurationError(
            "Discord refuses the token: copy it again from the bot's page in the developer portal."
        ) from None
    except discord.HTTPException as error:
        words = str(error).partition("\n")[0].rstrip(".")
        raise DiscordUnavailable(f"Discord at {address} answers: {words}.") from error
    except discord.RateLimited as error:
        seconds = math.ceil(error.retry_after)
        raise DiscordUnavailable(
            f"Discord at {address} asks to wait {seconds} s: try again after that time."
        ) from error
    except discord.GatewayNotFound:
        raise DiscordUnavailable(
            f"Discord at {address} does not say how to connect to its gateway."
        ) from None
    except (aiohttp.ClientError, OSError) as error:
        raise DiscordUnavailable(f"Discord cannot be reached at {address}: {redact(str(error))}.") from error


async def connect(client: discord.Client) -> None:
    """Stay connected until cancelled; raises DiscordUnavailable once Discord has closed the connection.

    discord.py reconnects by itself after other errors.
    """
    # discord.py's loop can miss a cancellation while it connects, so cancelling this closes the client.
    connection = asyncio.create_task(client.connect(), name="gateway connection")
    try:
        await asyncio.wait({connection})
    finally:
        await client.close()
        connection.cancel()
        (ending,) = await asyncio.gather(connection, return_exceptions=True)
    reason = f": {ending}" if isinstance(ending, discord.ConnectionClosed) else ""
    raise DiscordUnavailable(f"Discord has ended the connection{reason}.")
