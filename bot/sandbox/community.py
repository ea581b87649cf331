"""The small server that every sandbox starts with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bot.sandbox.automod import keyword_rule, preset_rule
from bot.sandbox.permissions import OF_EVERYONE, Permission
from bot.sandbox.state import GROUP_DM, Channel, Member, Role, User, World

# Ids are fixed, so that links, tests and screenshots are the same in every run.
GUILD_ID = 1_300_000_000_000_000_000
BOT_ID = 1_300_000_000_000_000_001
BOT_TOKEN = "a-token"  # noqa: S105 - of a sandbox that is given no other
MODERATORS_ID = 1_300_000_000_000_000_010
BOT_ROLE_ID = 1_300_000_000_000_000_011
REGULARS_ID = 1_300_000_000_000_000_012
NEWCOMERS_ID = 1_300_000_000_000_000_013
FOUNDED_AT = 1_730_000_000.0

PEOPLE = (
    User(id=1_300_000_000_000_000_101, username="mina", global_name="Mina", locale="en-US"),
    User(id=1_300_000_000_000_000_102, username="ravi", global_name="Ravi", locale="en-GB"),
    User(id=1_300_000_000_000_000_103, username="yuna", global_name="Yuna", locale="ko"),
    User(id=1_300_000_000_000_000_104, username="omar", global_name="Omar", locale="en-US"),
    User(id=1_300_000_000_000_000_105, username="wei", global_name="Wei", locale="zh-CN"),
)
CHANNELS = (
    Channel(id=1_300_000_000_000_000_201, name="general", topic="Say hello", position=0),
    Channel(id=1_300_000_000_000_000_202, name="art", topic="Type /imagine and see", position=1),
    Channel(id=1_300_000_000_000_000_203, name="nsfw-art", topic="Adults only", nsfw=True, position=2),
    Channel(
        id=1_300_000_000_000_000_204,
        name="mods",
        topic="Moderators only",
        position=3,
        overwrites={
            GUILD_ID: (0, int(Permission.VIEW_CHANNEL)),
            MODERATORS_ID: (int(Permission.VIEW_CHANNEL), 0),
            BOT_ROLE_ID: (int(Permission.VIEW_CHANNEL), 0),
        },
    ),
)
ROLES_OF = {
    "mina": MODERATORS_ID,
    "ravi": REGULARS_ID,
    "yuna": REGULARS_ID,
    "omar": NEWCOMERS_ID,
    "wei": NEWCOMERS_ID,
}
GROUP = Channel(
    id=1_300_000_000_000_000_301,
    name="weekend",
    type=GROUP_DM,
    members=(PEOPLE[0].id, PEOPLE[1].id, PEOPLE[3].id),
)
BOT_PERMISSIONS = OF_EVERYONE | Permission.MANAGE_MESSAGES | Permission.MANAGE_GUILD
SCAMS = ("free nitro", "*casino*")
SCAMS_ID, PRESET_ID = 1_300_000_000_000_000_401, 1_300_000_000_000_000_402


def found(clock: Callable[[], float]) -> World:
    """Return a new world with the small server: each member has one role, and the bot its own."""
    bot = User(id=BOT_ID, username="sdjax", global_name="sdjax", bot=True)
    world = World(
        clock=clock,
        guild_id=GUILD_ID,
        guild_name="The Studio",
        owner_id=PEOPLE[0].id,
        bot_id=BOT_ID,
        created_at=FOUNDED_AT,
    )
    roles = (
        Role(id=GUILD_ID, name="@everyone", permissions=int(OF_EVERYONE), position=0),
        Role(id=NEWCOMERS_ID, name="Newcomers", permissions=int(OF_EVERYONE), position=1, color=0x7F8C8D),
        Role(id=REGULARS_ID, name="Regulars", permissions=int(OF_EVERYONE), position=2, color=0x1F8B4C),
        Role(
            id=MODERATORS_ID,
            name="Moderators",
            permissions=int(OF_EVERYONE | Permission.ADMINISTRATOR),
            position=3,
            color=0xC27C0E,
        ),
        Role(id=BOT_ROLE_ID, name="sdjax", permissions=int(BOT_PERMISSIONS), position=4, bot_id=BOT_ID),
    )
    world.roles = {role.id: role for role in roles}
    world.members = {user.id: Member(user=user, roles=(ROLES_OF[user.username],)) for user in PEOPLE}
    world.members[BOT_ID] = Member(user=bot, roles=(BOT_ROLE_ID,))
    for channel in CHANNELS:
        world.channels[channel.id] = replace(channel, overwrites=dict(channel.overwrites))
    world.channels[GROUP.id] = replace(GROUP)
    world.automod_rules = {
        SCAMS_ID: keyword_rule(world, "Scams", rule_id=SCAMS_ID, keywords=SCAMS),
        PRESET_ID: preset_rule(world, "Discord's lists", rule_id=PRESET_ID),
    }
    return world
