"""`/review`: the channel for reviews, how long a review may wait, and the reviews that wait now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from discord.app_commands import Range, locale_str

from bot.delivery.content import Choice, MenuContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.delivery.lineage import MESSAGE_ADDRESS
from bot.delivery.refusals import Refusal
from bot.delivery.review_message import person
from bot.delivery.review_outbox import NO_CHANNEL, everybody_sees
from bot.domain.errors import UserMistake
from bot.front.answers.answers import acknowledge, page_lines
from bot.front.answers.controls import Menu
from bot.front.answers.permissions import acting, moderated_server
from bot.front.gateway.command_tree import Group, Option, for_moderators, make_command, make_group
from bot.front.gateway.translator import command_name
from bot.front.moderators.decisions import show_review
from bot.front.recipes.options import MAX_CHOICES
from bot.front.services.request import Request, patiently
from bot.store.rows.reviews import Kind, Review, ReviewSettings
from bot.texts.catalogue import Moment, Texts

MOST_HOURS, MOST_REPORTS = 720, 20
SHOWN = 50
HERE, NOWHERE = "here", "nowhere"
CASES = "reviewcase"


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
    services = request.services
    change = services.store.reviews.set_channel
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
    services = request.services
    if hours is None and reports is None:
        raise UserMistake("review_nothing_set")
    settings = await patiently(
        services.store.reviews.set_settings,
        acting(request),
        hours=hours,
        reports=reports,
    )
    texts = request.texts
    await request.edit(content="\n".join(settings_lines(settings, texts)))


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
    services = request.services
    key = int(values[0]) if re.fullmatch("[0-9]{1,18}", values[0]) else 0
    await show_review(request, await services.store.review_messages.case(key, guild_id))


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


CONTROLS = (Menu(template=CASES, act=show_case),)
