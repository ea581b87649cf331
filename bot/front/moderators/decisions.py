"""The buttons and forms by which moderators decide reviews, and members appeal.

A button carries only the id of the review, or of what an appeal is about. Each press checks the person's
right and whether the review is still open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

import discord

from bot.delivery.review_message import (
    ACCEPT,
    APPROVE,
    BLOCK,
    DECLINE,
    MOST_WORDS,
    REJECT,
    SPOILER,
    review_content,
)
from bot.domain.errors import NotYours, StoreUnavailable, UserMistake
from bot.domain.holds import Outcome
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, acknowledge_press, add, open_form
from bot.front.answers.controls import Button, Form
from bot.front.answers.modals import modal, reason_field
from bot.front.answers.permissions import acting, check_blockable, moderated_server, owns_server
from bot.front.requests.intake import TOKEN_SECONDS
from bot.front.results.shown_again import show_content
from bot.front.services.request import Request, patiently
from bot.store.moderation.appeals import Pressed
from bot.store.moderation.review_messages import Case
from bot.store.rows.restrictions import Scope
from bot.texts.catalogue import Texts
from bot.texts.markup import tidy

OF_JOB = "job"  # an appeal about a job's pictures
OUTCOMES: Mapping[str, Outcome] = MappingProxyType(
    {
        APPROVE: Outcome.SHOWN,
        SPOILER: Outcome.SPOILER,
        REJECT: Outcome.REJECTED,
        ACCEPT: Outcome.SHOWN,
        DECLINE: Outcome.DECLINED,
    }
)
WITH_REASON = (REJECT, DECLINE, BLOCK)


async def press(request: Request, act: str, key: int) -> None:
    """Decide, or ask for the reason first; raises UserMistake `review_over` after another decision."""
    guild_id = moderated_server(request)
    if act not in WITH_REASON:
        await acknowledge_press(request)
        await _decide(request, act, key, "")
        return
    with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
        async with asyncio.timeout(FORM_READ_SECONDS):
            review = await request.services.store.reviews.get(key, guild_id)
            if act != BLOCK and review.outcome is not None:
                raise UserMistake("review_over")
    texts = request.texts
    await open_form(request, _form(act, key, texts))


def _form(act: str, key: int, texts: Texts) -> discord.ui.Modal:
    titles = {
        REJECT: texts.gettext("Reject this?"),
        DECLINE: texts.gettext("Decline this appeal?"),
        BLOCK: texts.gettext("Block this member?"),
    }
    about = {
        REJECT: texts.gettext("Everyone who sees the member's message sees this."),
        DECLINE: texts.gettext(
            "The member sees this; if it is about pictures, so does everyone who sees their message."
        ),
        BLOCK: texts.gettext("The member sees this. The block lasts until a moderator removes it."),
    }[act]
    why = reason_field(texts, about)
    return modal(titles[act], f"review:{act}:{key}", why)


async def submit(request: Request, act: str, review: str, *, reason: str = "") -> None:
    """Decide or block as the form says; the right is checked again."""
    key, reason = int(review), " ".join(reason.split())
    if act == BLOCK:
        await _block(request, key, reason)
        return
    moderated_server(request)
    await acknowledge_press(request)
    await _decide(request, act, key, reason)


async def _decide(request: Request, act: str, key: int, reason: str) -> None:
    store, by = request.services.store, acting(request, reason)
    decide = store.reviews.decide
    await patiently(decide, key, OUTCOMES[act], by, own=owns_server(request))
    if request.is_pressed_privately:  # of the list of reviews: no outbox edits this message
        await show_review(request, await store.review_messages.case(key, by.guild_id))


async def show_review(request: Request, case: Case) -> None:
    """Show a review as the answer, in the language of the moderator."""
    texts = request.texts
    content = review_content(case, texts)
    await show_content(request, content, without=lambda: review_content(case, texts, pictures=False))


async def _block(request: Request, key: int, reason: str) -> None:
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    services = request.services
    review = await services.store.reviews.get(key, guild_id)
    if review.user_id <= 0:
        raise UserMistake("review_gone")
    with suppress(discord.NotFound):  # a person outside the server may be blocked
        guild = request.interaction.guild or await request.interaction.client.fetch_guild(guild_id)
        check_blockable(request, await guild.fetch_member(review.user_id))
    scope = Scope(guild_id=guild_id, user_id=review.user_id)
    await patiently(services.store.moderation.block, scope, acting(request, reason))
    said = request.texts.gettext(
        "{member} can no longer ask for pictures in this server.", member=f"<@{review.user_id}>"
    )
    await request.edit(content=said)


async def ask_appeal(request: Request, what: str, number: str) -> None:
    """Ask for the person's words; raises NotYours, and UserMistake `appeal_over` for a job with an appeal."""
    services = request.services
    if what == OF_JOB:
        with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
            async with asyncio.timeout(FORM_READ_SECONDS):
                job = await services.store.jobs.get(number)
                if job.origin.user_id != request.person.id:
                    raise NotYours(job=number)
                if job.appeal is not None:
                    raise UserMistake("appeal_over")
    texts = request.texts
    words = reason_field(
        texts,
        texts.gettext("Moderators read it, with your name. You may leave it empty."),
        label=texts.gettext("Why should moderators decide otherwise?"),
        custom_id="words",
        most=MOST_WORDS,
    )
    await open_form(request, modal(texts.gettext("Appeal?"), f"appeal:{what}:{number}", words))


async def appeal(request: Request, what: str, number: str, *, words: str = "") -> None:
    """Appeal against a refused prompt, or against the withholding of a job's pictures."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge_press(request)
    appeals, who = services.store.appeals, request.person.id
    said_by = {"words": tidy(words)[:MOST_WORDS]}
    if what == OF_JOB:
        button = _pressed(request)
        await patiently(appeals.appeal_pictures, number, who, button, **said_by)
    elif number.isdecimal():
        await patiently(appeals.appeal_refusal, int(number), who, **said_by)
    texts = request.texts
    said = texts.gettext(
        "Moderators of this server will look at it again. You will be told what they decide."
    )
    if not await shows_reviews(request):
        said += " " + texts.gettext("They have chosen no channel for reviews yet, so this may take a while.")
    await add(request, said)


async def shows_reviews(request: Request) -> bool:
    """Return whether the server has chosen a channel in which moderators see reviews."""
    if request.guild_id is None:
        return True
    settings = request.services.store.reviews.settings
    found = await patiently(settings, request.guild_id)
    return found.channel_id is not None


def _pressed(request: Request) -> Pressed | None:
    if request.message is None:
        return None
    until = request.services.clock() + TOKEN_SECONDS
    return Pressed(message_id=request.message.id, token=request.interaction.token, expires_at=until)


_APPEAL = r"appeal:(?P<what>job|refused):(?P<number>[0-9a-z]{1,18})"
CONTROLS = (
    Button(
        template=r"review:(?P<act>approve|spoiler|reject|accept|decline|block):(?P<key>[0-9]{1,18})",
        act=press,
    ),
    Button(template=_APPEAL, act=ask_appeal),
    Form(template=_APPEAL, act=appeal, again=False),
    Form(template=r"review:(?P<act>reject|decline|block):(?P<review>[0-9]{1,18})", act=submit, again=False),
)
