"""The features of the bot: each command with its menu, buttons and forms, and the tree of all commands.

All that a button knows is in its id, most often a job's id, so it survives restarts. The buttons of a kept
recipe or form are exceptions: their ids are keys of what this process keeps in memory
(`bot.front.services.kept_values`). After a restart the person is told what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import discord
from discord.app_commands import AppCommandContext, AppInstallationType
from discord.utils import MISSING

from bot.config import Config
from bot.front.answers import controls
from bot.front.answers.controls import Button, Form, Menu
from bot.front.commands import (
    cancel,
    help,  # noqa: A004 - the command's name
    history,
    imagine,
    limits,
    made_by_ai,
    paint_from,
    privacy,
    queue,
    settings,
    stats,
    style,
    use_recipe,
    wildcard,
)
from bot.front.gateway.command_tree import Command, Group, MessageMenu, Tree
from bot.front.moderators import audit, known, moderate, policy, report, review, rules, whose
from bot.front.requests import permutations
from bot.front.results import more, originals, remix, removal, repeats
from bot.front.sessions import opening, session
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
    Feature(command=history.show_command),
    Feature(command=stats.stats_command),
    Feature(command=cancel.cancel_command, controls=cancel.CONTROLS),
    Feature(command=settings.settings_command, controls=settings.CONTROLS),
    Feature(command=style.style_group, controls=style.CONTROLS),
    Feature(command=wildcard.wildcard_group, controls=wildcard.CONTROLS),
    Feature(command=rules.rules_group, controls=rules.CONTROLS),
    Feature(command=review.review_group, controls=review.CONTROLS),
    Feature(command=session.session_group, controls=(*session.CONTROLS, *opening.CONTROLS)),
    Feature(command=privacy.privacy_command, controls=privacy.CONTROLS),
    Feature(command=limits.limits_command),
    Feature(command=moderate.moderate_group, controls=moderate.CONTROLS),
    Feature(command=policy.policy_group, controls=policy.CONTROLS),
    Feature(command=audit.audit_command, controls=audit.CONTROLS),
    Feature(command=whose.whose_command),
    Feature(command=known.known_group, controls=known.CONTROLS),
    Feature(menu=use_recipe.use_recipe_menu, controls=use_recipe.CONTROLS),
    Feature(menu=paint_from.paint_from_menu, controls=paint_from.CONTROLS),
    Feature(menu=paint_from.composition_menu),
    Feature(menu=paint_from.like_menu),
    Feature(menu=paint_from.change_menu),
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
    Feature(controls=removal.CONTROLS),
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


def menus(offers: Sequence[Offer]) -> list[MessageMenu]:
    """Return the commands in the menu of every message that some model can do."""
    possible = {
        paint_from.composition_menu: bool(imagine.control_types_of(offers)),
        paint_from.like_menu: any(offer.image_prompts for offer in offers),
        paint_from.change_menu: any(offer.references for offer in offers),
    }
    absent = [menu for menu, is_possible in possible.items() if not is_possible]
    return [each.menu() for each in FEATURES if each.menu is not None and each.menu not in absent]


def new_tree(client: discord.Client, config: Config, offers: Sequence[Offer]) -> Tree:
    """Return the tree of the commands for these offers; people may install them if so configured."""
    # Discord accepts contexts and integration types only with global commands.
    user = config.discord.user_install
    everywhere = not config.discord.guild_ids
    contexts = AppCommandContext(guild=True, dm_channel=True, private_channel=user or None)
    tree = Tree(
        client,
        allowed_contexts=contexts if everywhere else MISSING,
        allowed_installs=AppInstallationType(guild=True, user=user or None) if everywhere else MISSING,
    )
    define(tree, config, offers)
    return tree


def define(tree: Tree, config: Config, offers: Sequence[Offer]) -> None:
    """Replace the commands in the tree by those of these offers."""
    guilds = [discord.Object(guild_id) for guild_id in config.discord.guild_ids]
    everywhere: list[discord.Object | None] = [None]
    for guild in guilds or everywhere:
        tree.clear_commands(guild=guild)
    keywords, hosts = bool(config.prompts.keywords_file), config.sessions.host_permission
    for command in (*commands(offers, keywords=keywords, hosts=hosts), *menus(offers)):
        if guilds:
            command.allowed_contexts = command.allowed_installs = None
        tree.add_command(command, guilds=guilds or MISSING)
