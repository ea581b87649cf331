"""Removing messages that show deleted pictures."""

from __future__ import annotations

import logging

import aiohttp
import discord

from bot.delivery.lineage import message_address
from bot.domain.errors import UnknownJob
from bot.domain.jobs import Job
from bot.front.services.request import Request

log = logging.getLogger(__name__)

UNREACHABLE = (discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError)


async def remove_message(client: discord.Client, job: Job) -> str | None:
    """Delete the message that shows a job; return its address where Discord refuses."""
    address = message_address(job)
    if job.message_id is None or address is None:
        return None
    place = job.message_channel_id or job.origin.channel_id
    guild_id = None if job.message_channel_id else job.origin.guild_id  # another channel is a direct message
    channel = client.get_partial_messageable(place, guild_id=guild_id)
    try:
        await channel.get_partial_message(job.message_id).delete()
    except discord.NotFound:
        return None
    except UNREACHABLE as error:
        log.info("the message of the job %s stays: %s", job.id, error)
        return address
    return None


async def remove_copies(request: Request, job: Job) -> None:
    """Delete the copies of a job and the copies of these copies, of any person, with their messages.

    A message is deleted before its row, so that a repeat can still find it.
    """
    services = request.services
    found = [job]
    for each in found:  # it grows meanwhile
        found += await services.store.jobs.copies(each.id)
    for copy in reversed(found[1:]):  # a copy of a copy before the copy itself, by which it is found
        await remove_message(request.interaction.client, copy)
        try:
            names = await services.store.deliveries.delete_result(copy.id, user_id=None)
        except UnknownJob:  # the person has just erased it
            continue
        await services.files.drop(names)
