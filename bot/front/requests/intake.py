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
from dataclasses import replace
from functools import partial
from typing import Any

from discord import app_commands

from bot.delivery.review_message import appeal_answer
from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Descent, Job, Origin, Parent, Recipe
from bot.domain.quotas import Charge
from bot.front.answers.answers import acknowledge, add, name_of
from bot.front.answers.permissions import may_repeat, sees
from bot.front.recipes.options import echo, find_offer
from bot.front.requests.words import check_words
from bot.front.services.request import Answered, Request, patiently
from bot.moderation.limits import places_of
from bot.sessions.theming import themed
from bot.store.people.preferences import Owner, owners_at
from bot.store.queue.seed_sequences import NextOf
from bot.store.rows.sessions import GroupSession, Phase, round_over
from bot.telemetry.tracing import Attributes, about

log = logging.getLogger(__name__)

APPEALABLE = ("rule_refused", "rule_automod")
MAX_RULE = 255  # characters of a rule's name that are kept
TOKEN_SECONDS = 15 * 60.0  # how long Discord honours an interaction's token

_Storing = Callable[..., Awaitable[Job]]
"""Stores a job; takes the keyword arguments of `Jobs.enqueue` that the caller has not bound."""


async def accept(
    request: Request,
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
    pace, sender = request.services.pace, request.sender
    pace.admit(sender, files=files)
    asked, private = private, private or (paints and await request.wants_private())
    request.enter("acknowledge")
    message_id = await acknowledge(request, private=private)
    request.enter("check")
    # A server may force the answers of user-installed bots to be private.
    private = request.answered is Answered.PROMISED_PRIVATELY
    standing = await request.standing()
    standing.check_blocked()
    try:
        if paints:
            standing.check_paints()
        standing.check_privacy(asked=asked and paints, private=private)
        if files:
            standing.check_start_pictures()
    except UserMistake:
        pace.give_back(sender, files=files)
        raise
    return standing.placed(replace(origin_of(request, private=private, message_id=message_id), parent=parent))


def parent_of(request: Request, job_id: str, descent: Descent, index: int | None = None) -> Parent:
    """Return the job of the pressed button as a parent, with the message that everyone here can see."""
    parent = Parent(job_id=job_id, descent=descent, index=index)
    if request.message is None or request.is_pressed_privately:
        return parent
    return replace(parent, channel_id=request.channel_id, message_id=request.message.id)


def owners_of(request: Request) -> list[Owner]:
    """Return whose preferences hold for a request, the nearest first."""
    return owners_at(user_id=request.person.id, channel_id=request.channel_id, guild_id=request.guild_id)


async def preferences_of(request: Request) -> list[dict[str, Any]]:
    """Return the preferences that hold for a request, the nearest first; empty where there are none."""
    if not (await request.standing()).has_preferences:
        return []
    read = request.services.store.preferences.of
    return await patiently(read, *owners_of(request))


async def check_caps(request: Request, origin: Origin, recipe: Recipe) -> None:
    """Raise UserMistake where a cap is reached or a quota is used up already, before files are fetched."""
    services = request.services
    charge = (await request.standing()).charge(recipe, services.offers)
    await patiently(services.store.jobs.check_caps, origin, caps=services.caps, charge=charge)


async def enqueue(request: Request, recipe: Recipe, origin: Origin, *, held: Hold | None = None) -> Job:
    """Store the job. Its pictures are held for review with `held`, or if a rule or the policy holds them.

    In a group session's channel the job becomes part of it. Raises UserMistake where the session or a
    policy refuses the recipe, or a rule its words, where a quota is used up, or the person, their server or
    the bot has too much waiting.
    """
    return await _in_session(request, recipe, partial(_store, request, origin=origin, held=held))


async def enqueue_again(request: Request, job: Job, origin: Origin) -> Job:
    """Store a job of the same recipe with the seeds that come next; raises as `enqueue`, and UnknownJob."""
    return await _in_session(request, job.recipe, partial(_store_again, request, job, origin=origin))


async def _in_session(request: Request, recipe: Recipe, store: _Storing) -> Job:
    """Store the job, as part of the channel's session if it has one; again if one just opened or ended."""
    try:
        session_id, told = await _joined(request, recipe)
        return await store(recipe=told, session_id=session_id)
    except UserMistake as error:
        if error.message_id != "session_changed":
            raise
    session_id, told = await joined(request, recipe)
    return await store(recipe=told, session_id=session_id)


async def _store(
    request: Request,
    *,
    recipe: Recipe,
    origin: Origin,
    session_id: str | None,
    held: Hold | None = None,
    wish: Recipe | NextOf | None = None,
) -> Job:
    """Check the recipe against policies and rules, then store it, or the `wish` that it comes from."""
    services, standing = request.services, await request.standing()
    standing.check_recipe(recipe)
    places = places_of(recipe, find_offer(recipe.model, services.offers))
    charge = standing.charge(recipe, services.offers)
    hold = await _hold(request, recipe, origin, weight=standing.weight, places=places, charge=charge)
    return await patiently(
        services.store.jobs.enqueue,
        wish or recipe,
        _traced(request, origin),
        weight=standing.weight,
        caps=services.caps,
        places=places,
        hold=held or hold,
        charge=charge,
        session_id=session_id,
    )


async def _store_again(
    request: Request, job: Job, *, recipe: Recipe, origin: Origin, session_id: str | None
) -> Job:
    told: dict[str, Any] = {"origin": origin, "session_id": session_id}
    if recipe != job.recipe:  # the earlier recipe lacks the session's words
        return await _store(request, recipe=recipe.from_image(recipe.variants), **told)
    return await _store(request, recipe=recipe, wish=NextOf(job_id=job.id), **told)


async def _hold(
    request: Request, recipe: Recipe, origin: Origin, *, weight: float, places: int, charge: Charge
) -> Hold | None:
    """Return why the pictures of a request are held, or None.

    A rule's refusal can be appealed, unless the request has a given picture: its file is deleted with the
    refused request.
    """
    try:
        return await check_words(request, recipe) or await review_mode(request)
    except UserMistake as error:
        appealable = error.message_id in APPEALABLE and not recipe.given
        if appealable and not request.is_external:
            note, rule = request.services.store.appeals.note_refusal, str(error.details["rule"])[:MAX_RULE]
            with suppress(StoreUnavailable):  # the refusal stands, without an appeal
                hold = await review_mode(request)
                error.appeal = await note(
                    recipe, origin, rule=rule, weight=weight, places=places, hold=hold, charge=charge
                )
        raise


async def _joined(request: Request, recipe: Recipe) -> tuple[str | None, Recipe]:
    """Call `joined` if the channel may have a session; the store refuses the job if one was opened since."""
    standing = await request.standing()
    if standing.in_session or recipe.given:  # files take a while, in which a session may open
        return await joined(request, recipe)
    return None, recipe


async def copy(request: Request, job: Job, origin: Origin, *, index: int | None = None) -> Job:
    """Store a job that shows the picture at `index` of `job`, or all; raises UserMistake if it is missing.

    A publication is checked like a request for these pictures in this channel: it may be held, or refused
    with UserMistake.
    """
    published = origin.parent is not None and origin.parent.descent is Descent.PUBLICATION
    hold = await _publication_hold(request, job) if published else None
    verb, origin = request.services.store.jobs.copy, _traced(request, origin)
    copied = await patiently(verb, job.id, origin, index=index, hold=hold)
    with about(copied.id, traceparent=copied.origin.traceparent):
        _answered_with(request, copied)  # its delivery will show it
    return copied


async def _publication_hold(request: Request, job: Job) -> Hold | None:
    """Return why a result that is published here is held, by the rules of this place; None if it is not.

    Raises UserMistake `publish_policy`, `publish_rule`, or `rule_always`.
    """
    standing = await request.standing()
    try:
        standing.check_recipe(job.recipe)
    except UserMistake:
        raise UserMistake("publish_policy") from None
    try:
        return await check_words(request, job.recipe) or await review_mode(request)
    except UserMistake as error:
        if error.message_id in APPEALABLE:
            raise UserMistake("publish_rule", rule=error.details["rule"]) from None
        raise


async def announce(request: Request, job: Job) -> None:
    """Show a stored job in the answer, unless another front has stored it first."""
    services = request.services
    if job.origin.front not in (services.front, None):
        log.warning("request %s was taken by %s, which serves the same shard", job.id, job.origin.front)
        return
    services.metrics.jobs_accepted.inc()
    with about(job.id, traceparent=job.origin.traceparent):
        request.enter("announce")
        await services.announce(job)
        _answered_with(request, job)
    if (await request.standing()).has_answers:
        await _tell_answers(request)


async def _tell_answers(request: Request) -> None:
    """Tell the person privately of declined appeals that no direct message could deliver."""
    try:
        left = await request.services.store.appeals.answers_left(request.person.id)
    except StoreUnavailable as error:
        log.warning("whether an appeal was answered cannot be read: %s", error)
        return
    for review in left:
        await add(request, appeal_answer(review, request.texts))


async def repeatable(
    request: Request, job_id: str, *, privately: bool | None = None, deleted: bool = False
) -> Job:
    """Return the job to repeat; `privately` is by default whether the pressed button's message is private.

    Raises UnknownJob, also if the person may not see the job, and for a deleted job unless `deleted`;
    UserMistake `words_held` where a rule holds another person's words.
    """
    job = await request.services.store.jobs.get(job_id)
    privately = request.is_pressed_privately if privately is None else privately
    if job.hides_words and job.origin.user_id != request.person.id and sees(request, job):
        raise UserMistake("words_held")
    if (job.deleted_at is not None and not deleted) or not may_repeat(request, job, privately=privately):
        raise UnknownJob(job=job_id)
    return job


def check_offered(request: Request, recipe: Recipe) -> None:
    """Raise InvalidRequest where the offer of the recipe's model has changed and excludes it."""
    find_offer(recipe.model, request.services.offers).check(recipe.request(0))


def origin_of(request: Request, *, private: bool, message_id: int | None = None) -> Origin:
    """Return where a request came from, as ids that outlive the process."""
    if request.channel_id is None:
        raise app_commands.AppCommandError("an interaction without a channel")
    interaction, services = request.interaction, request.services
    return Origin(
        interaction_id=interaction.id,
        interaction_token=interaction.token,
        token_expires_at=services.clock() + TOKEN_SECONDS,
        application_id=interaction.application_id,
        user_id=request.person.id,
        guild_id=request.guild_id,
        channel_id=request.channel_id,
        locale=request.locale,
        private=private,
        channel_kind=request.channel_kind,
        front=services.front,
        message_id=message_id,
        user_name=echo(request.person.display_name),
        external=request.is_external,
        thread_parent_id=request.thread_parent_id,
    )


async def review_mode(request: Request) -> Hold | None:
    """Return a hold if a policy here wants a review of every result, else None."""
    if request.server_id is None:
        return None
    return Hold(cause=Cause.MODE) if (await request.standing()).policy.review else None


async def session_here(request: Request) -> GroupSession | None:
    """Return the open session of the request's channel; None without one."""
    if request.guild_id is None or request.channel_id is None:
        return None
    return await patiently(request.services.store.sessions.here, request.channel_id)


async def joined(request: Request, recipe: Recipe) -> tuple[str | None, Recipe]:
    """Return the id of the channel's session, and the recipe with the session's words.

    Raises UserMistake where the person may not take part, the round is over, or the recipe does not suit the
    session. The store checks the round again, with the person's quota, when it stores the job.
    """
    session = await session_here(request)
    if session is None:
        return None, recipe
    check_takes_part(request, session)
    if session.phase is not Phase.PAINTING:
        raise round_over(session.phase)
    judging = request.services.judging
    return session.id, await judging.run(request.sender, lambda _check: themed(recipe, session.plan))


def check_takes_part(request: Request, session: GroupSession) -> None:
    """Raise UserMistake `session_role` where the person lacks the role of the session."""
    role_id = session.plan.role_id
    if role_id is None or role_id in request.role_ids:
        return
    guild = request.interaction.guild
    role = guild.get_role(role_id) if guild else None
    raise UserMistake("session_role", role=role.name if role else role_id)


def _traced(request: Request, origin: Origin) -> Origin:
    """Return the origin of a job that is stored now, with a trace where traces are on."""
    stages = request.enter("enqueue")
    request.span = request.services.tracing.begin(name_of(request.interaction), stages)
    return replace(origin, traceparent=request.span.traceparent)


def _answered_with(request: Request, job: Job) -> None:
    """Log and record that the answer shows the job. The request's next job has stages of its own."""
    stages, request.stages = request.stages, None
    if stages is None or job.origin.traceparent != request.span.traceparent:
        return  # another front stored the job, or an earlier attempt of this one
    stages.end()
    durations, lane = stages.durations, str(job.recipe.lane)
    log.info("accepted, after %.2f s", durations["total"], extra={"lane": lane, "durations": durations})
    attributes: Attributes = {
        "job": job.id,
        "lane": lane,
        "model": job.recipe.model,
        "steps": job.recipe.steps,
        "images": len(job.images),
        "front": request.services.front,
    }
    request.span.end(stages, attributes)
