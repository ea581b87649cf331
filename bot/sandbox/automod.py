"""AutoMod rules of the server as Discord's JSON objects, and the events about their changes."""

from __future__ import annotations

from collections.abc import Sequence

from bot.sandbox.permissions import Permission
from bot.sandbox.rejections import Json
from bot.sandbox.state import Event, World

CREATE, UPDATE, DELETE = (f"AUTO_MODERATION_RULE_{what}" for what in ("CREATE", "UPDATE", "DELETE"))
AUTOMOD_EVENTS = frozenset({CREATE, UPDATE, DELETE})
KEYWORD, PRESET = 1, 4
MESSAGE_SENT = 1
BLOCK = 1
_READERS = Permission.ADMINISTRATOR | Permission.MANAGE_GUILD


def keyword_rule(
    world: World,
    name: str,
    *,
    rule_id: int,
    keywords: Sequence[str] = (),
    patterns: Sequence[str] = (),
    allowed: Sequence[str] = (),
    exempt_roles: Sequence[int] = (),
    exempt_channels: Sequence[int] = (),
) -> Json:
    """Return a rule that blocks messages with these words, as Discord describes it."""
    facts = {"keyword_filter": [*keywords], "regex_patterns": [*patterns], "allow_list": [*allowed]}
    return _rule(world, name, rule_id, KEYWORD, facts) | {
        "exempt_roles": [*map(str, exempt_roles)],
        "exempt_channels": [*map(str, exempt_channels)],
    }


def preset_rule(world: World, name: str, *, rule_id: int) -> Json:
    """Return a rule that blocks messages with words of Discord's own lists."""
    return _rule(world, name, rule_id, PRESET, {"presets": [1, 2, 3], "allow_list": []})


def _rule(world: World, name: str, rule_id: int, trigger: int, facts: Json) -> Json:
    return {
        "id": str(rule_id),
        "guild_id": str(world.guild_id),
        "creator_id": str(world.owner_id),
        "name": name,
        "event_type": MESSAGE_SENT,
        "actions": [{"type": BLOCK, "metadata": {}}],
        "trigger_type": trigger,
        "enabled": True,
        "exempt_roles": [],
        "exempt_channels": [],
        "trigger_metadata": facts,
    }


def put_rule(world: World, rule: Json) -> None:
    """Add a rule, or replace the one with its id, and emit the event."""
    event = UPDATE if int(rule["id"]) in world.automod_rules else CREATE
    world.automod_rules[int(rule["id"])] = rule
    world.emit(Event(type=event, data=rule))


def remove_rule(world: World, rule_id: int) -> None:
    """Remove a rule, and emit the event."""
    world.emit(Event(type=DELETE, data=world.automod_rules.pop(rule_id)))


def may_read_rules(world: World) -> bool:
    """Return whether the bot may manage the server, and so read its rules."""
    roles = (world.roles[role] for role in (world.guild_id, *world.members[world.bot_id].roles))
    return any(role.permissions & _READERS for role in roles)
