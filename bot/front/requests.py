"""From a checked recipe to a job in the queue and an answer that shows it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from discord import app_commands

from bot.errors import UnknownJob
from bot.front.first_answers import acknowledge
from bot.front.options import echo, find_offer
from bot.front.parts import Interaction, Parts, parts_of, sender_of
from bot.front.rights import may_repeat
from bot.jobs import Job, Origin, Recipe, places_of
from bot.log import about
from bot.persistence import persistently

log = logging.getLogger(__name__)

TOKEN_SECONDS = 15 * 60.0  # how long Discord honours an interaction's token
PATIENCE_SECONDS = 1.0  # about; a restarting database is back by then, and nobody wonders what goes on

Enqueue = Callable[[Parts, Origin], Awaitable[Job]]


async def request(interaction: Interaction, recipe: Recipe, *, private: bool) -> Job:
    """Acknowledge, queue the recipe, show its place: in this order, so that Discord never waits for us.

    Raises UserMistake where the person, their server or everybody has asked for too much.
    """

    async def enqueue(parts: Parts, origin: Origin) -> Job:
        return await _enqueue(interaction, parts, recipe, origin)

    return await _accept(interaction, enqueue, private=private)


async def request_with_files(
    interaction: Interaction,
    start: Callable[[], AbstractAsyncContextManager[Recipe]],
    *,
    count: int,
    private: bool,
) -> Job:
    """As `request`, the recipe being what `start` makes of `count` files that were sent.

    `start` is entered once nothing else stands against the request, and left once it is queued or refused.
    """

    async def enqueue(parts: Parts, origin: Origin) -> Job:
        await persistently(
            lambda: parts.store.jobs.check_caps(origin, caps=parts.caps), seconds=PATIENCE_SECONDS
        )
        async with start() as recipe:
            return await _enqueue(interaction, parts, recipe, origin)

    return await _accept(interaction, enqueue, private=private, files=count)


async def request_from(
    interaction: Interaction, job_id: str, recipe_from: Callable[[Job, Parts], Recipe]
) -> Job:
    """Queue the recipe that `recipe_from` makes of an earlier job, shown as privately as what was pressed.

    The database is read only after the acknowledgement. Raises UnknownJob for a job that this person may
    not repeat.
    """

    async def enqueue(parts: Parts, origin: Origin) -> Job:
        job = await _repeatable(interaction, job_id)
        recipe = recipe_from(job, parts)
        find_offer(recipe.model, parts.offers).check(recipe.request(0))
        return await _enqueue(interaction, parts, recipe, origin)

    return await _accept(interaction, enqueue, private=_pressed_privately(interaction))


async def request_again(interaction: Interaction, job_id: str) -> Job:
    """As `request_from`, the recipe being that of the job with the seeds that come next."""

    async def enqueue(parts: Parts, origin: Origin) -> Job:
        recipe = (await _repeatable(interaction, job_id)).recipe
        offer = find_offer(recipe.model, parts.offers)
        offer.check(recipe.request(0))  # it may have changed since
        weight, places = parts.weight(interaction), places_of(recipe, offer)
        return await persistently(
            lambda: parts.store.jobs.enqueue_again(
                job_id, origin, weight=weight, caps=parts.caps, places=places
            ),
            seconds=PATIENCE_SECONDS,
        )

    return await _accept(interaction, enqueue, private=_pressed_privately(interaction))


async def _enqueue(interaction: Interaction, parts: Parts, recipe: Recipe, origin: Origin) -> Job:
    weight, places = parts.weight(interaction), places_of(recipe, find_offer(recipe.model, parts.offers))
    return await persistently(
        lambda: parts.store.jobs.enqueue(recipe, origin, weight=weight, caps=parts.caps, places=places),
        seconds=PATIENCE_SECONDS,
    )


async def _repeatable(interaction: Interaction, job_id: str) -> Job:
    """The job; one that the person may not repeat is unknown to them, as one that does not exist is."""
    job = await parts_of(interaction).store.jobs.get(job_id)
    if not may_repeat(interaction, job, privately=_pressed_privately(interaction)):
        raise UnknownJob(job=job_id)
    return job


def _pressed_privately(interaction: Interaction) -> bool:
    return interaction.message is not None and interaction.message.flags.ephemeral


async def _accept(interaction: Interaction, enqueue: Enqueue, *, private: bool, files: int = 0) -> Job:
    parts = parts_of(interaction)
    parts.pace.admit(sender_of(interaction), files=files)
    message_id = await acknowledge(interaction, private=private)
    job = await enqueue(parts, origin_of(interaction, private=private, message_id=message_id))
    if job.origin.front not in (parts.front, None):
        log.warning("request %s was taken by %s, which hears of the same shard", job.id, job.origin.front)
        return job
    parts.metrics.jobs_accepted.inc()
    with about(job.id):
        await parts.announce(job)
    return job


def origin_of(interaction: Interaction, *, private: bool, message_id: int | None = None) -> Origin:
    """Where the interaction came from, as ids that outlive the process."""
    if interaction.channel_id is None:
        raise app_commands.AppCommandError("an interaction without a channel")
    parts = parts_of(interaction)
    return Origin(
        interaction_id=interaction.id,
        interaction_token=interaction.token,
        token_expires_at=parts.clock() + TOKEN_SECONDS,
        application_id=interaction.application_id,
        user_id=interaction.user.id,
        guild_id=interaction.guild_id,
        channel_id=interaction.channel_id,
        locale=parts.locale(interaction),
        private=private,
        age_restricted=is_age_restricted(interaction),
        front=parts.front,
        message_id=message_id,
        user_name=echo(interaction.user.display_name),
    )


def is_age_restricted(interaction: Interaction) -> bool:
    """Whether Discord shows the interaction's channel, or that of its thread, to adults alone."""
    is_nsfw = getattr(interaction.channel, "is_nsfw", None)  # direct messages and unknown channels have none
    return is_nsfw is not None and bool(is_nsfw())
