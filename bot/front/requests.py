"""From a checked recipe to a job in the queue and an answer that shows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from discord import app_commands

from bot.front.answers import acknowledge
from bot.front.parts import Interaction, Parts, parts_of
from bot.jobs import Job, Origin, Recipe
from bot.log import about
from bot.persistence import persistently

TOKEN_SECONDS = 15 * 60.0  # how long Discord honours an interaction's token
PATIENCE_SECONDS = 1.0  # about; a restarting database is back by then, and nobody wonders what goes on


async def request(
    interaction: Interaction,
    recipe: Recipe,
    *,
    private: bool,
    complete: Callable[[Recipe], Awaitable[Recipe]] | None = None,
) -> Job:
    """Acknowledge, queue the recipe, show its place: in this order, so that Discord never waits for us.

    `complete` does what the recipe still needs and takes long, such as fetching the picture to start from.
    """

    async def enqueue(parts: Parts, origin: Origin) -> Job:
        wanted = recipe if complete is None else await complete(recipe)
        weight = parts.weight(interaction)
        return await persistently(
            lambda: parts.store.enqueue(wanted, origin, weight=weight, caps=parts.caps),
            seconds=PATIENCE_SECONDS,
        )

    return await _accept(interaction, enqueue, private=private)


async def request_again(interaction: Interaction, job_id: str, *, private: bool) -> Job:
    """As `request`, the recipe being that of the job with the seeds that come next."""

    async def enqueue(parts: Parts, origin: Origin) -> Job:
        weight = parts.weight(interaction)
        return await persistently(
            lambda: parts.store.enqueue_again(job_id, origin, weight=weight, caps=parts.caps),
            seconds=PATIENCE_SECONDS,
        )

    return await _accept(interaction, enqueue, private=private)


async def _accept(
    interaction: Interaction, enqueue: Callable[[Parts, Origin], Awaitable[Job]], *, private: bool
) -> Job:
    message_id = await acknowledge(interaction, private=private)
    parts = parts_of(interaction)
    job = await enqueue(parts, origin_of(interaction, private=private, message_id=message_id))
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
        front=parts.front,
        message_id=message_id,
    )
