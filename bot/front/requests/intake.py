"""From a checked recipe to a job in the queue and an answer that shows it.

    accept     check the rates, acknowledge within the time that Discord allows, and check for blocks
    enqueue    store the job, within the caps
    announce   show its place in the answer

Every command and button that asks for pictures takes these steps, with its own work between them. The log and
the trace of a request say how long each stage took.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from discord import app_commands

from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.domain.holds import Hold
from bot.domain.jobs import Descent, Job, Origin, Parent, Recipe
from bot.front.answers.first_answers import Answered, acknowledge, answered, name_of
from bot.front.answers.permissions import may_repeat, sees
from bot.front.recipes.options import echo, find_offer
from bot.front.requests.appeal_answers import tell_answers
from bot.front.requests.session_here import joined
from bot.front.requests.standing import (
    charge_of,
    check_blocked,
    check_blocks,
    check_privacy,
    check_recipe,
    check_start_pictures,
    check_words,
    held_of,
    parent_channel_of,
    review_mode,
    under_policy,
    wants_private,
)
from bot.front.services.channel_kinds import channel_kind_of
from bot.front.services.patience import patiently
from bot.front.services.services import Interaction, sender_of, services_of
from bot.moderation.limits import places_of
from bot.moderation.limits import refusal as refusal_of
from bot.store.people.preferences import Owner, owners_at
from bot.store.queue.seed_sequences import NextOf
from bot.telemetry.tracing import Span, Stages, about

log = logging.getLogger(__name__)

APPEALABLE = ("rule_refused", "rule_automod")
MAX_RULE = 255  # characters of a rule's name that are kept
TOKEN_SECONDS = 15 * 60.0  # how long Discord honours an interaction's token
MEASURED = "measured"  # the key in an interaction's extras

_Storing = Callable[..., Awaitable[Job]]
"""Stores a job; takes the keyword arguments of `Jobs.enqueue` that the caller has not bound."""


@dataclass(kw_only=True)
class _Measured:
    """The stages of a request, and its span once its job is stored."""

    stages: Stages = field(default_factory=Stages)
    span: Span = field(default_factory=Span)


async def accept(
    interaction: Interaction,
    *,
    private: bool,
    files: int = 0,
    parent: Parent | None = None,
    paints: bool = True,
) -> Origin:
    """Acknowledge a request with so many files, and return where it came from.

    Without `paints` the request only shows existing pictures. Raises UserMistake before the acknowledgement
    where the person or their server asks too often; after it where one of them is blocked or a policy refuses
    the request. What a policy refuses does not count in their rates.
    """
    pace, sender = services_of(interaction).pace, sender_of(interaction)
    pace.admit(sender, files=files)
    asked, private = private, private or (paints and await wants_private(interaction))
    _enter(interaction, "acknowledge")
    message_id = await acknowledge(interaction, private=private)
    _enter(interaction, "check")
    # A server may force the answers of user-installed bots to be private.
    private = answered(interaction) is Answered.PROMISED_PRIVATELY
    await check_blocked(interaction)
    try:
        if paints:
            await check_blocks(interaction)
        await check_privacy(interaction, asked=asked and paints, private=private)
        if files:
            await check_start_pictures(interaction)
    except UserMistake:
        pace.give_back(sender, files=files)
        raise
    origin = replace(origin_of(interaction, private=private, message_id=message_id), parent=parent)
    return under_policy(origin, (await held_of(interaction)).policy)


def parent_of(interaction: Interaction, job_id: str, descent: Descent, index: int | None = None) -> Parent:
    """Return the job of the pressed button as a parent, with the message that everyone here can see."""
    parent = Parent(job_id=job_id, descent=descent, index=index)
    if interaction.message is None or pressed_privately(interaction):
        return parent
    return replace(parent, channel_id=interaction.channel_id, message_id=interaction.message.id)


def owners_of(interaction: Interaction) -> list[Owner]:
    """Return whose preferences hold for the interaction, the nearest first."""
    return owners_at(
        user_id=interaction.user.id, channel_id=interaction.channel_id, guild_id=interaction.guild_id
    )


async def preferences_of(interaction: Interaction) -> list[dict[str, Any]]:
    """Return the preferences that hold for the interaction, the nearest first; empty where there are none."""
    if not (await held_of(interaction)).standing.has_preferences:
        return []
    read = services_of(interaction).store.preferences.of
    return await patiently(read, *owners_of(interaction))


async def check_caps(interaction: Interaction, origin: Origin, recipe: Recipe) -> None:
    """Raise UserMistake where a cap is reached or a quota is used up already, before files are fetched."""
    services = services_of(interaction)
    charge = await charge_of(interaction, recipe)
    await patiently(services.store.jobs.check_caps, origin, caps=services.caps, charge=charge)


async def enqueue(
    interaction: Interaction, recipe: Recipe, origin: Origin, *, held: Hold | None = None
) -> Job:
    """Store the job. Its pictures are held for review with `held`, or if a rule or the policy holds them.

    In a group session's channel the job becomes part of it. Raises UserMistake where the session or a
    policy refuses the recipe, or a rule its words, where a quota is used up, or the person, their server or
    the bot has too much waiting.
    """
    return await _in_session(interaction, recipe, partial(_store, interaction, origin=origin, held=held))


async def enqueue_again(interaction: Interaction, job: Job, origin: Origin) -> Job:
    """Store a job of the same recipe with the seeds that come next; raises as `enqueue`, and UnknownJob."""
    return await _in_session(interaction, job.recipe, partial(_store_again, interaction, job, origin=origin))


async def _in_session(interaction: Interaction, recipe: Recipe, store: _Storing) -> Job:
    """Store the job, as part of the channel's session if it has one; again if one just opened or ended."""
    try:
        session_id, told = await _joined(interaction, recipe)
        return await store(recipe=told, session_id=session_id)
    except UserMistake as error:
        if error.message_id != "session_changed":
            raise
    session_id, told = await joined(interaction, recipe)
    return await store(recipe=told, session_id=session_id)


async def _store(
    interaction: Interaction,
    *,
    recipe: Recipe,
    origin: Origin,
    session_id: str | None,
    held: Hold | None = None,
    wish: Recipe | NextOf | None = None,
) -> Job:
    """Check the recipe against policies and rules, then store it, or the `wish` that it comes from."""
    await check_recipe(interaction, recipe)
    services = services_of(interaction)
    places = places_of(recipe, find_offer(recipe.model, services.offers))
    weight = (await held_of(interaction)).weight
    hold = await _hold(interaction, recipe, origin, weight=weight, places=places)
    return await patiently(
        services.store.jobs.enqueue,
        wish or recipe,
        _traced(interaction, origin),
        weight=weight,
        caps=services.caps,
        places=places,
        hold=held or hold,
        charge=await charge_of(interaction, recipe),
        session_id=session_id,
    )


async def _store_again(
    interaction: Interaction, job: Job, *, recipe: Recipe, origin: Origin, session_id: str | None
) -> Job:
    told: dict[str, Any] = {"origin": origin, "session_id": session_id}
    if recipe != job.recipe:  # the earlier recipe lacks the session's words
        return await _store(interaction, recipe=recipe.from_image(recipe.variants), **told)
    return await _store(interaction, recipe=recipe, wish=NextOf(job_id=job.id), **told)


async def _hold(
    interaction: Interaction, recipe: Recipe, origin: Origin, *, weight: float, places: int
) -> Hold | None:
    """Return why the pictures of a request are held, or None.

    A rule's refusal can be appealed, unless the request has a start picture: its file is deleted with the
    refused request.
    """
    try:
        return await check_words(interaction, recipe) or await review_mode(interaction)
    except UserMistake as error:
        appealable = error.message_id in APPEALABLE and not recipe.start_pictures
        if appealable and not is_external(interaction):
            note, rule = (
                services_of(interaction).store.appeals.note_refusal,
                str(error.details["rule"])[:MAX_RULE],
            )
            with suppress(StoreUnavailable):  # the refusal stands, without an appeal
                hold = await review_mode(interaction)
                charge = await charge_of(interaction, recipe)
                error.appeal = await note(
                    recipe, origin, rule=rule, weight=weight, places=places, hold=hold, charge=charge
                )
        raise


async def _joined(interaction: Interaction, recipe: Recipe) -> tuple[str | None, Recipe]:
    """Call `joined` if the channel may have a session; the store refuses the job if one was opened since."""
    here = (await held_of(interaction)).standing
    if here.in_session or recipe.start_pictures:  # files take a while, in which a session may open
        return await joined(interaction, recipe)
    return None, recipe


async def copy(interaction: Interaction, job: Job, origin: Origin, *, index: int | None = None) -> Job:
    """Store a job that shows the picture at `index` of `job`, or all; raises UserMistake if it is missing.

    A publication is checked like a request for these pictures in this channel: it may be held, or refused
    with UserMistake.
    """
    published = origin.parent is not None and origin.parent.descent is Descent.PUBLICATION
    hold = await _publication_hold(interaction, job) if published else None
    verb, origin = services_of(interaction).store.jobs.copy, _traced(interaction, origin)
    copied = await patiently(verb, job.id, origin, index=index, hold=hold)
    with about(copied.id, traceparent=copied.origin.traceparent):
        _answered_with(interaction, copied)  # its delivery will show it
    return copied


async def _publication_hold(interaction: Interaction, job: Job) -> Hold | None:
    """Return why a result that is published here is held, by the rules of this place; None if it is not.

    Raises UserMistake `publish_policy`, `publish_rule`, or `rule_always`.
    """
    if refusal_of((await held_of(interaction)).policy, job.recipe) is not None:
        raise UserMistake("publish_policy")
    try:
        return await check_words(interaction, job.recipe) or await review_mode(interaction)
    except UserMistake as error:
        if error.message_id in APPEALABLE:
            raise UserMistake("publish_rule", rule=error.details["rule"]) from None
        raise


async def announce(interaction: Interaction, job: Job) -> None:
    """Show a stored job in the answer, unless another front has stored it first."""
    services = services_of(interaction)
    if job.origin.front not in (services.front, None):
        log.warning("request %s was taken by %s, which serves the same shard", job.id, job.origin.front)
        return
    services.metrics.jobs_accepted.inc()
    with about(job.id, traceparent=job.origin.traceparent):
        _enter(interaction, "announce")
        await services.announce(job)
        _answered_with(interaction, job)
    if (await held_of(interaction)).standing.has_answers:
        await tell_answers(interaction)


async def repeatable(
    interaction: Interaction, job_id: str, *, privately: bool | None = None, deleted: bool = False
) -> Job:
    """Return the job to repeat; `privately` is by default whether the pressed button's message is private.

    Raises UnknownJob, also if the person may not see the job, and for a deleted job unless `deleted`;
    UserMistake `words_held` where a rule holds another person's words.
    """
    job = await services_of(interaction).store.jobs.get(job_id)
    privately = pressed_privately(interaction) if privately is None else privately
    if job.hides_words and job.origin.user_id != interaction.user.id and sees(interaction, job):
        raise UserMistake("words_held")
    if (job.deleted_at is not None and not deleted) or not may_repeat(interaction, job, privately=privately):
        raise UnknownJob(job=job_id)
    return job


def check_offered(interaction: Interaction, recipe: Recipe) -> None:
    """Raise InvalidRequest where the offer of the recipe's model has changed and excludes it."""
    find_offer(recipe.model, services_of(interaction).offers).check(recipe.request(0))


def pressed_privately(interaction: Interaction) -> bool:
    """Return whether the pressed button is in a message for one person alone."""
    return interaction.message is not None and interaction.message.flags.ephemeral


def origin_of(interaction: Interaction, *, private: bool, message_id: int | None = None) -> Origin:
    """Return where the interaction came from, as ids that outlive the process."""
    if interaction.channel_id is None:
        raise app_commands.AppCommandError("an interaction without a channel")
    services = services_of(interaction)
    return Origin(
        interaction_id=interaction.id,
        interaction_token=interaction.token,
        token_expires_at=services.clock() + TOKEN_SECONDS,
        application_id=interaction.application_id,
        user_id=interaction.user.id,
        guild_id=interaction.guild_id,
        channel_id=interaction.channel_id,
        locale=services.locale(interaction),
        private=private,
        channel_kind=channel_kind_of(interaction),
        front=services.front,
        message_id=message_id,
        user_name=echo(interaction.user.display_name),
        external=is_external(interaction),
        thread_parent_id=parent_channel_of(interaction),
    )


def is_external(interaction: Interaction) -> bool:
    """Return whether the interaction's channel is outside the bot's servers: the person installed the bot."""
    if interaction.guild_id is not None:
        return not interaction.is_guild_integration()
    return bool(interaction.context.private_channel)


def _enter(interaction: Interaction, stage: str) -> None:
    """Let the request of the interaction enter this stage."""
    _measured(interaction).stages.enter(stage)


def _traced(interaction: Interaction, origin: Origin) -> Origin:
    """Return the origin of a job that is stored now, with a trace where traces are on."""
    measured = _measured(interaction)
    measured.stages.enter("enqueue")
    measured.span = services_of(interaction).tracing.begin(name_of(interaction), measured.stages)
    return replace(origin, traceparent=measured.span.traceparent)


def _answered_with(interaction: Interaction, job: Job) -> None:
    """Log and record that the answer shows the job. The interaction's next job has stages of its own."""
    measured = _measured(interaction)
    del interaction.extras[MEASURED]
    if job.origin.traceparent != measured.span.traceparent:
        return  # another front stored the job, or an earlier attempt of this one
    measured.stages.end()
    durations, lane = measured.stages.durations, str(job.recipe.lane)
    log.info(
        "accepted, after %.2f s",
        durations["total"],
        extra={"lane": lane, "durations": durations},
    )
    measured.span.end(
        measured.stages,
        {
            "job": job.id,
            "lane": lane,
            "model": job.recipe.model,
            "steps": job.recipe.steps,
            "images": len(job.images),
            "front": services_of(interaction).front,
        },
    )


def _measured(interaction: Interaction) -> _Measured:
    found: _Measured = interaction.extras.setdefault(MEASURED, _Measured())
    return found
