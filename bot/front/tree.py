"""The tree of all commands, as a configuration defines it."""

from __future__ import annotations

from collections.abc import Sequence

import discord
from discord.app_commands import AppCommandContext, AppInstallationType
from discord.utils import MISSING

from bot.config import Config
from bot.front.features import commands, menus
from bot.front.gateway.command_tree import Tree
from sdjax_engine.request import Offer


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
    for command in (*commands(offers, keywords=keywords, hosts=hosts), *menus()):
        if guilds:
            command.allowed_contexts = command.allowed_installs = None
        tree.add_command(command, guilds=guilds or MISSING)
