"""Discord's permission bits that the sandbox needs, and their combination in a channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntFlag


class Permission(IntFlag):
    """Permission bits by Discord's names."""

    ADMINISTRATOR = 1 << 3
    MANAGE_GUILD = 1 << 5
    ADD_REACTIONS = 1 << 6
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    USE_APPLICATION_COMMANDS = 1 << 31
    MANAGE_EVENTS = 1 << 33
    CREATE_PUBLIC_THREADS = 1 << 35
    SEND_MESSAGES_IN_THREADS = 1 << 38
    MODERATE_MEMBERS = 1 << 40


ALL = (1 << 53) - 1

OF_EVERYONE = (
    Permission.ADD_REACTIONS
    | Permission.VIEW_CHANNEL
    | Permission.SEND_MESSAGES
    | Permission.EMBED_LINKS
    | Permission.ATTACH_FILES
    | Permission.READ_MESSAGE_HISTORY
    | Permission.USE_APPLICATION_COMMANDS
    | Permission.CREATE_PUBLIC_THREADS
    | Permission.SEND_MESSAGES_IN_THREADS
)
IN_DIRECT_MESSAGES = OF_EVERYONE


def permissions_in(
    member_id: int,
    guild_id: int,
    roles: Mapping[int, int],
    overwrites: Mapping[int, tuple[int, int]],
) -> int:
    """Return a member's permission bits in a channel.

    `roles` maps the member's roles, including @everyone, to their bits; `overwrites` maps a
    role's or a member's id to (allow, deny). The order is Discord's: everyone, roles, member.
    """
    base = 0
    for bits in roles.values():
        base |= bits
    if base & Permission.ADMINISTRATOR:
        return ALL
    base = _apply(base, [overwrites[guild_id]] if guild_id in overwrites else [])
    base = _apply(base, [overwrites[role] for role in roles if role in overwrites and role != guild_id])
    base = _apply(base, [overwrites[member_id]] if member_id in overwrites else [])
    return base if base & Permission.VIEW_CHANNEL else 0


def _apply(base: int, overwrites: Iterable[tuple[int, int]]) -> int:
    allow = deny = 0
    for allowed, denied in overwrites:
        allow |= allowed
        deny |= denied
    return (base & ~deny) | allow
