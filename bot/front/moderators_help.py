"""The part of /help for moderators."""

from __future__ import annotations

from collections.abc import Iterator

from discord import app_commands

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
from bot.texts import Texts


def moderators_help(texts: Texts, names: Texts) -> str:
    """Return the page in Markdown; `names` are the texts with the command names that the person sees."""
    heading = texts.gettext("For moderators")
    return "\n".join(
        [
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
