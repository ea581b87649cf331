"""The commands, one to a module: a thin skin over functions that need no Discord."""

from __future__ import annotations

from collections.abc import Sequence

from bot.front.commands.audit import audit_command
from bot.front.commands.cancel import cancel_command
from bot.front.commands.help import help_command
from bot.front.commands.history import history_command
from bot.front.commands.imagine import imagine_command
from bot.front.commands.known import known_group
from bot.front.commands.limits import limits_command
from bot.front.commands.made_by_ai import made_by_ai_menu
from bot.front.commands.moderate import moderate_group
from bot.front.commands.paint_from import paint_from_menu
from bot.front.commands.policy import policy_group
from bot.front.commands.privacy import privacy_command
from bot.front.commands.queue import queue_command
from bot.front.commands.report import report_menu
from bot.front.commands.review import review_group
from bot.front.commands.rules import rules_group
from bot.front.commands.session import session_group
from bot.front.commands.settings import settings_command
from bot.front.commands.show import show_command
from bot.front.commands.stats import stats_command
from bot.front.commands.style import style_group
from bot.front.commands.use_recipe import use_recipe_menu
from bot.front.commands.whose import whose_command, whose_menu
from bot.front.commands.wildcard import wildcard_group
from bot.front.gateway.command_tree import Command, Group, MessageMenu
from sdjax_engine.request import Offer


def commands(
    offers: Sequence[Offer], *, keywords: bool = False, hosts: str = "manage_events"
) -> list[Command | Group]:
    """Return all slash commands, with the options of `offers`; with `keywords`, prompts have suggestions.

    Discord shows the commands of hosts to members who have the permission `hosts`.
    """
    others = other_commands(hosts)
    return [imagine_command(offers, keywords=keywords), *others, help_command(others)]


def other_commands(hosts: str = "manage_events") -> list[Command | Group]:
    """Return the slash commands besides /imagine and /help, in the order in which /help lists them."""
    return [
        queue_command(),
        history_command(),
        show_command(),
        stats_command(),
        cancel_command(),
        settings_command(),
        style_group(),
        wildcard_group(),
        rules_group(),
        review_group(),
        session_group(hosts),
        privacy_command(),
        limits_command(),
        moderate_group(),
        policy_group(),
        audit_command(),
        whose_command(),
        known_group(),
    ]


def menus() -> list[MessageMenu]:
    """Return the commands in the menu of every message."""
    return [use_recipe_menu(), paint_from_menu(), made_by_ai_menu(), report_menu(), whose_menu()]
