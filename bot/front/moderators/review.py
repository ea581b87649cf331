"""`/review`: settings of reviews, what waits for one, and the buttons that decide, report and appeal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import discord
from discord.app_commands import Range, locale_str

from bot.delivery.content import Choice, MenuContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.delivery.lineage import MESSAGE_ADDRESS
from bot.delivery.refusals import Refusal
from bot.delivery.review_message import (
    ACCEPT,
    APPROVE,
    BLOCK,
    DECLINE,
    MOST_WORDS,
    REJECT,
    SPOILER,
    person,
    review_content,
)
from bot.delivery.review_outbox import NO_CHANNEL, everybody_sees
from bot.domain.errors import NotYours, StoreUnavailable, UserMistake
from bot.domain.holds import Outcome
from bot.front.answers.answers import (
    FORM_READ_SECONDS,
    acknowledge,
    acknowledge_press,
    add,
    open_form,
    page_lines,
)
from bot.front.answers.controls import Button, Form, Menu
from bot.front.answers.modals import modal, reason_field
from bot.front.answers.permissions import acting, check_blockable, moderated_server, owns_server
from bot.front.gateway.command_tree import Group, Option, for_moderators, make_command, make_group
from bot.front.gateway.translator import command_name
from bot.front.recipes.options import MAX_CHOICES
from bot.front.requests.intake import TOKEN_SECONDS
from bot.front.results.shown_again import show_content
from bot.front.services.request import Request, patiently
from bot.store.moderation.appeals import Pressed
from bot.store.moderation.review_messages import Case
from bot.store.rows.restrictions import Scope
from bot.store.rows.reviews import Kind, Review, ReviewSettings
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import tidy

MOST_HOURS, MOST_REPORTS = 720, 20
SHOWN = 50
HERE, NOWHERE = "here", "nowhere"
CASES = "reviewcase"
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


def review_group() -> Group:
    """The command and its subcommands; Discord shows it to moderators alone."""
    use = Option(
        name="use",
        description=locale_str("Where reviews appear. Default: this channel."),
        kind=str,
        choices=[
            (locale_str("This channel", words=True), HERE),
            (locale_str("No channel", words=True), NOWHERE),
        ],
    )
    hours = Option(
        name="hours",
        description=locale_str("How many hours a review waits for a decision before it ends."),
        kind=Range[int, 1, MOST_HOURS],
    )
    reports = Option(
        name="reports",
        description=locale_str("How many members must report a picture before it is hidden."),
        kind=Range[int, 1, MOST_REPORTS],
    )
    commands = [
        make_command(
            name="channel",
            description=locale_str("Show reviews for moderators in this channel, or in none."),
            run=choose_channel,
            options=[use],
        ),
        make_command(
            name="limits",
            description=locale_str("How long things wait, and how many reports hide a picture."),
            run=change_limits,
            options=[hours, reports],
        ),
        make_command(
            name="show",
            description=locale_str("Show the reviews that are waiting, and the settings."),
            run=show_waiting,
        ),
    ]
    described = locale_str("For moderators: pictures that wait, reports and appeals.")
    return for_moderators(make_group(name="review", description=described, commands=commands))


async def choose_channel(request: Request, *, use: str = HERE) -> None:
    """Show reviews in the interaction's channel, or in none."""
    moderated_server(request)
    await acknowledge(request, private=True)
    channel_id = request.channel_id if use == HERE else None
    change = request.services.store.reviews.set_channel
    await patiently(change, channel_id, acting(request))
    texts = request.texts
    if channel_id is None:
        said = texts.gettext(
            "No channel shows reviews now: use **{show}** to see what is waiting.",
            show=command_name(request.interaction.locale, "review", "show"),
        )
    else:
        said = texts.gettext("Moderators see reviews in this channel from now on.")
        if everybody_sees(request.channel):
            said += " " + texts.gettext("Every member can see this channel: make it private.")
    await request.edit(content=said)


async def change_limits(request: Request, *, hours: int | None = None, reports: int | None = None) -> None:
    """Change how long a review may wait, and how many reports hide a picture; show the settings."""
    moderated_server(request)
    await acknowledge(request, private=True)
    if hours is None and reports is None:
        raise UserMistake("review_nothing_set")
    settings = await patiently(
        request.services.store.reviews.set_settings,
        acting(request),
        hours=hours,
        reports=reports,
    )
    await request.edit(content="\n".join(settings_lines(settings, request.texts)))


async def show_waiting(request: Request) -> None:
    """Show the reviews that wait in this server with links, the oldest first, and the settings."""
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    services = request.services
    settings = await services.store.reviews.settings(guild_id)
    found = await services.store.reviews.waiting(guild_id, limit=SHOWN)
    texts = request.texts
    heading = texts.gettext("Waiting for moderators")
    lines = [f"### {heading}", *waiting_lines(found, texts), *settings_lines(settings, texts)]
    menu = cases_menu(found, texts, now=services.clock())
    content = MessageContent(
        heading=page_lines(lines, texts), menus=(menu,) if menu else (), tone=Tone.WAITING
    )
    await request.edit(view=layout(content))


def cases_menu(reviews: Sequence[Review], texts: Texts, *, now: float) -> MenuContent | None:
    """Return a menu of the reviews, each of which can be decided where no channel shows it."""
    choices = tuple(
        Choice(
            label=f"{number}. {kind_name(review.kind, texts)}",
            value=str(review.id),
            description=texts.age(now - review.opened_at),
        )
        for number, review in enumerate(reviews[:MAX_CHOICES], start=1)
    )
    placeholder = texts.gettext("Look at one, and decide it")
    return MenuContent(custom_id=CASES, placeholder=placeholder, choices=choices) if choices else None


async def show_case(request: Request, values: Sequence[str]) -> None:
    """Show a review with its pictures and buttons to the moderator alone."""
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    key = int(values[0]) if re.fullmatch("[0-9]{1,18}", values[0]) else 0
    await show_review(request, await request.services.store.review_messages.case(key, guild_id))


def waiting_lines(reviews: Sequence[Review], texts: Texts) -> list[str]:
    """Return a line for each review: its kind, whose it is, its end, and its message or why there is none."""
    if not reviews:
        return [texts.gettext("No reviews are waiting.")]
    return [
        texts.line(texts.joined(_parts(review, texts)), mark=f"{number}\\. ")
        for number, review in enumerate(reviews, start=1)
    ]


def kind_name(kind: Kind, texts: Texts) -> str:
    """Return what a review is about in a few words."""
    kinds = {
        Kind.HOLD: texts.gettext("held picture"),
        Kind.REPORT: texts.gettext("reported picture"),
        Kind.APPEAL: texts.gettext("appeal"),
    }
    return kinds[kind]


def _parts(review: Review, texts: Texts) -> Iterator[str]:
    yield kind_name(review.kind, texts)
    yield person(review.user_id, texts)
    yield texts.gettext("the review ends {until}", until=Moment(review.due_at))
    if review.message_id is not None:
        address = MESSAGE_ADDRESS.format(
            place=review.guild_id, channel=review.channel_id, message=review.message_id
        )
        word = texts.gettext("message")
        yield f"[{word}]({address})"
    elif review.trouble:
        yield _trouble(review.trouble, texts)


def _trouble(trouble: str, texts: Texts) -> str:
    """Return why no channel shows a review; `trouble` is NO_CHANNEL or a Refusal."""
    if trouble == NO_CHANNEL:
        return texts.gettext("no channel shows it: none is chosen")
    if trouble in (Refusal.NO_ACCESS, Refusal.NO_PERMISSION, Refusal.THREAD_ARCHIVED):
        return texts.gettext("no channel shows it: the bot may not write in the chosen one")
    if trouble in (Refusal.CHANNEL_DELETED, Refusal.SERVER_DELETED):
        return texts.gettext("no channel shows it: the chosen one is gone")
    return texts.gettext("no channel shows it: Discord does not take the message")


def settings_lines(settings: ReviewSettings, texts: Texts) -> Iterator[str]:
    """Yield a line for each setting of reviews."""
    if settings.channel_id is None:
        yield texts.gettext("No channel is chosen for reviews.")
    else:
        yield texts.gettext("Reviews are shown in {channel}.", channel=f"<#{settings.channel_id}>")
    yield texts.ngettext(
        "A review ends after {count} hour; pictures still held are then withheld.",
        "A review ends after {count} hours; pictures still held are then withheld.",
        settings.hours,
    )
    yield texts.ngettext(
        "{count} report hides a picture until moderators decide.",
        "{count} reports hide a picture until moderators decide.",
        settings.reports,
    )


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
    await open_form(request, _form(act, key, request.texts))


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
    content = review_content(case, request.texts)
    await show_content(request, content, without=lambda: review_content(case, request.texts, pictures=False))


async def _block(request: Request, key: int, reason: str) -> None:
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    review = await request.services.store.reviews.get(key, guild_id)
    if review.user_id <= 0:
        raise UserMistake("review_gone")
    with suppress(discord.NotFound):  # a person outside the server may be blocked
        guild = request.interaction.guild or await request.interaction.client.fetch_guild(guild_id)
        check_blockable(request, await guild.fetch_member(review.user_id))
    scope = Scope(guild_id=guild_id, user_id=review.user_id)
    await patiently(request.services.store.moderation.block, scope, acting(request, reason))
    said = request.texts.gettext(
        "{member} can no longer ask for pictures in this server.", member=f"<@{review.user_id}>"
    )
    await request.edit(content=said)


async def ask_appeal(request: Request, what: str, number: str) -> None:
    """Ask for the person's words; raises NotYours, and UserMistake `appeal_over` for a job with an appeal."""
    if what == OF_JOB:
        with suppress(StoreUnavailable, TimeoutError):  # the form's submission checks it again
            async with asyncio.timeout(FORM_READ_SECONDS):
                job = await request.services.store.jobs.get(number)
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
    request.services.pace.admit(request.sender)
    await acknowledge_press(request)
    appeals, who = request.services.store.appeals, request.person.id
    said_by = {"words": tidy(words)[:MOST_WORDS]}
    if what == OF_JOB:
        button = _pressed(request)
        await patiently(appeals.appeal_pictures, number, who, button, **said_by)
    elif number.isdecimal():
        await patiently(appeals.appeal_refusal, int(number), who, **said_by)
    said = request.texts.gettext(
        "Moderators of this server will look at it again. You will be told what they decide."
    )
    if not await shows_reviews(request):
        said += " " + request.texts.gettext(
            "They have chosen no channel for reviews yet, so this may take a while."
        )
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
    Menu(template=CASES, act=show_case),
    Button(
        template=r"review:(?P<act>approve|spoiler|reject|accept|decline|block):(?P<key>[0-9]{1,18})",
        act=press,
    ),
    Button(template=_APPEAL, act=ask_appeal),
    Form(template=_APPEAL, act=appeal, again=False),
    Form(template=r"review:(?P<act>reject|decline|block):(?P<review>[0-9]{1,18})", act=submit, again=False),
)
