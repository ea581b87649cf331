"""The part of /help for moderators: the first steps, and what each command does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from discord import app_commands

from bot.delivery.review_outbox import everybody_sees
from bot.domain.errors import StoreUnavailable
from bot.front.answers.answers import FORM_READ_SECONDS, page, say
from bot.front.answers.permissions import server_rights
from bot.front.commands.audit import audit_command
from bot.front.commands.known import known_group
from bot.front.commands.moderate import moderate_group
from bot.front.commands.policy import policy_group
from bot.front.commands.review import review_group
from bot.front.commands.rules import rules_group
from bot.front.commands.session import session_group
from bot.front.commands.style import style_group
from bot.front.commands.whose import NAME, whose_command
from bot.front.commands.wildcard import wildcard_group
from bot.front.services.request import Request
from bot.texts.catalogue import Texts

DONE, OPEN = "✅", "▫️"


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Which of a moderator's first steps are done in a server: the private channel, its use, and a rule."""

    private: bool = False
    channel: bool = False
    rules: bool = False


def is_moderator(request: Request) -> bool:
    """Return whether the person moderates the server of an interaction."""
    return request.interaction.is_guild_integration() and server_rights(request.person).manage_messages


async def show_moderators_help(request: Request) -> None:
    """Show the page to the person alone; to moderators with the steps that are done in the server."""
    steps, names = Steps(), request.names
    with suppress(StoreUnavailable, TimeoutError):  # the page is of use without what is done
        async with asyncio.timeout(FORM_READ_SECONDS):
            if is_moderator(request):
                steps = await _steps(request)
    await say(request, view=page(moderators_help(request.texts, names, steps)))


async def _steps(request: Request) -> Steps:
    guild, store = request.interaction.guild, request.services.store
    if guild is None:
        return Steps()
    chosen = (await store.reviews.settings(guild.id)).channel_id
    channel = guild.get_channel_or_thread(chosen) if chosen is not None else None
    return Steps(
        private=channel is not None and not everybody_sees(channel),
        channel=chosen is not None,
        rules=bool(await store.prompt_rules.of(guild.id)),
    )


def moderators_help(texts: Texts, names: Texts, steps: Steps) -> str:
    """Return the page in Markdown; `names` are the texts with the command names that the person sees."""
    heading, first = texts.gettext("For moderators"), texts.gettext("First steps")
    return "\n".join(
        [
            f"### {first}",
            *_first_steps(texts, names, steps),
            f"### {heading}",
            texts.gettext("These commands need Discord's permission **Manage Messages** in the server."),
            *_commands(texts, names),
            # Discord offers it to members with the permission of hosts: see `session_group`.
            texts.gettext(
                "If Discord does not offer you **{session}**, an administrator gives it to your role in the "
                "server's settings, under Integrations.",
                session="/" + names.pgettext("name", "session"),
            ),
            texts.gettext(
                "In the menu of a message, **{menu}** shows which member asked for its pictures.",
                menu=names.pgettext("name", NAME),
            ),
            texts.gettext(
                "You can use **{cancel}** and **{delete}** on every request in the server. All of this is "
                "logged with your name.",
                cancel=texts.gettext("Cancel"),
                delete=texts.gettext("Delete"),
            ),
            texts.gettext(
                "Blocked members see the end and the reason of the block, and are charged nothing. During "
                "a pause, requests are accepted and wait; people who wait see your text in their messages."
            ),
            texts.gettext(
                "What is held for review, reported or appealed appears with buttons in the channel you "
                "choose. The first decision counts, and the person who made the request sees the outcome."
            ),
        ]
    )


def _first_steps(texts: Texts, names: Texts, steps: Steps) -> Iterator[str]:
    review, add = (
        "/" + " ".join(names.pgettext("name", part) for part in path)
        for path in (("review", "channel"), ("rules", "add"))
    )
    said = (
        (steps.private, texts.gettext("Make a private channel, which only moderators and this bot see.")),
        (
            steps.channel,
            texts.gettext(
                "Type **{command}** in it: reports, appeals and what waits appear there.",
                command=review,
            ),
        ),
        (
            steps.rules,
            texts.gettext("Type **{command}**, and enter words that no prompt may have.", command=add),
        ),
    )
    for number, (done, sentence) in enumerate(said, start=1):
        yield texts.line(f"{DONE if done else OPEN} {sentence}", mark=f"{number}. ")


def _commands(texts: Texts, names: Texts) -> Iterator[str]:
    groups = (
        moderate_group(),
        policy_group(),
        rules_group(),
        review_group(),
        known_group(),
        style_group(),
        wildcard_group(),
        session_group(),
    )
    for group in groups:
        for command in group.commands:
            if isinstance(command, app_commands.Command):
                yield _line((group.name, command.name), command.description, texts, names)
    for alone in (whose_command(), audit_command()):
        yield _line((alone.name,), alone.description, texts, names)


def _line(path: tuple[str, ...], description: str, texts: Texts, names: Texts) -> str:
    name = " ".join(names.pgettext("name", part) for part in path)
    return texts.line(f"{texts.isolated(f'**/{name}**')} {texts.gettext(description)}", mark="- ")
