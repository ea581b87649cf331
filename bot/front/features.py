"""The features of the bot in Discord: each command with its menu, buttons and forms.

All that a button knows is in its id, most often a job's id, so it survives restarts. The buttons of a kept
recipe or form are exceptions: their ids are keys of what this process keeps in memory
(`bot.front.services.kept_values`). After a restart the person is told what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.front.answers import controls
from bot.front.answers.controls import Button, Form, Menu
from bot.front.commands import (
    audit,
    cancel,
    help,  # noqa: A004 - the command's name
    history,
    imagine,
    known,
    limits,
    made_by_ai,
    moderate,
    paint_from,
    policy,
    privacy,
    queue,
    report,
    review,
    rules,
    session,
    settings,
    show,
    stats,
    style,
    use_recipe,
    whose,
    wildcard,
)
from bot.front.gateway.command_tree import Command, Group, MessageMenu
from bot.front.moderators import clearance, decisions
from bot.front.requests import permutations
from bot.front.results import delete, more, originals, publish, remix, repeats
from bot.front.sessions import opening
from sdjax_engine.request import Offer


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One thing that people can do: by a slash command, in the menu of a message, by buttons and forms."""

    command: Callable[[], Command | Group] | None = None
    menu: Callable[[], MessageMenu] | None = None
    controls: Sequence[Button | Menu | Form] = ()


FEATURES = (
    Feature(command=queue.queue_command),
    Feature(command=history.history_command, controls=history.CONTROLS),
    Feature(command=show.show_command),
    Feature(command=stats.stats_command),
    Feature(command=cancel.cancel_command, controls=cancel.CONTROLS),
    Feature(command=settings.settings_command, controls=settings.CONTROLS),
    Feature(command=style.style_group, controls=style.CONTROLS),
    Feature(command=wildcard.wildcard_group, controls=wildcard.CONTROLS),
    Feature(command=rules.rules_group, controls=rules.CONTROLS),
    Feature(command=review.review_group, controls=(*review.CONTROLS, *decisions.CONTROLS)),
    Feature(command=session.session_group, controls=(*session.CONTROLS, *opening.CONTROLS)),
    Feature(command=privacy.privacy_command, controls=privacy.CONTROLS),
    Feature(command=limits.limits_command),
    Feature(command=moderate.moderate_group, controls=clearance.CONTROLS),
    Feature(command=policy.policy_group, controls=policy.CONTROLS),
    Feature(command=audit.audit_command, controls=audit.CONTROLS),
    Feature(command=whose.whose_command),
    Feature(command=known.known_group, controls=known.CONTROLS),
    Feature(menu=use_recipe.use_recipe_menu, controls=use_recipe.CONTROLS),
    Feature(menu=paint_from.paint_from_menu, controls=paint_from.CONTROLS),
    Feature(menu=made_by_ai.made_by_ai_menu),
    Feature(menu=report.report_menu, controls=report.CONTROLS),
    Feature(menu=whose.whose_menu),
    Feature(controls=help.CONTROLS),
    Feature(controls=permutations.CONTROLS),
    Feature(controls=controls.CONTROLS),
    Feature(controls=repeats.CONTROLS),
    Feature(controls=remix.CONTROLS),
    Feature(controls=more.CONTROLS),
    Feature(controls=originals.CONTROLS),
    Feature(controls=publish.CONTROLS),
    Feature(controls=delete.CONTROLS),
)
"""/imagine and /help have parameters: `commands` adds them. The commands are in the order of /help."""

BUTTONS = tuple(
    control for feature in FEATURES for control in feature.controls if not isinstance(control, Form)
)
FORMS = tuple(control for feature in FEATURES for control in feature.controls if isinstance(control, Form))


def commands(
    offers: Sequence[Offer], *, keywords: bool = False, hosts: str = "manage_events"
) -> list[Command | Group]:
    """Return all slash commands, with the options of `offers`; with `keywords`, prompts have suggestions.

    Discord shows the commands of hosts to members who have the permission `hosts`.
    """
    others = other_commands(hosts)
    return [imagine.imagine_command(offers, keywords=keywords), *others, help.help_command(others)]


def other_commands(hosts: str = "manage_events") -> list[Command | Group]:
    """Return the slash commands besides /imagine and /help, in the order in which /help lists them."""
    found = [each.command for each in FEATURES if each.command is not None]
    return [session.session_group(hosts) if each is session.session_group else each() for each in found]


def menus() -> list[MessageMenu]:
    """Return the commands in the menu of every message."""
    return [feature.menu() for feature in FEATURES if feature.menu is not None]
