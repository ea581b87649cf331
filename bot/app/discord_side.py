"""What a front does at Discord: logs in, stays connected, or says in one sentence why it cannot."""

from __future__ import annotations

import asyncio

import aiohttp
import discord

from bot.discretion import discreet
from bot.errors import ConfigurationError, DiscordUnavailable


async def log_in(client: discord.Client, token: str, api_url: str) -> None:
    """Show Discord the token and register the commands, before anything heavy starts."""
    place = discreet(api_url)
    try:
        await client.login(token)
    except discord.LoginFailure:
        raise ConfigurationError(
            "Discord refuses the token: copy it again from the bot's page in the developer portal."
        ) from None
    except discord.HTTPException as error:
        words = str(error).partition("\n")[0].rstrip(".")
        raise DiscordUnavailable(f"Discord at {place} answers: {words}.") from error
    except discord.GatewayNotFound:
        raise DiscordUnavailable(f"Discord at {place} does not say how to connect to its gateway.") from None
    except (aiohttp.ClientError, OSError) as error:
        raise DiscordUnavailable(f"Discord cannot be reached at {place}: {discreet(str(error))}.") from error


async def connect(client: discord.Client) -> None:
    """Stay connected to the gateway; discord.py reconnects by itself where that can help.

    Cancelling it closes the client: discord.py's own loop can miss a cancellation while it connects.
    """
    connection = asyncio.create_task(client.connect(), name="gateway connection")
    try:
        await asyncio.wait({connection})
    finally:
        await client.close()
        connection.cancel()
        (ending,) = await asyncio.gather(connection, return_exceptions=True)
    reason = f": {ending}" if isinstance(ending, discord.ConnectionClosed) else ""
    raise DiscordUnavailable(f"Discord has ended the connection{reason}.")
