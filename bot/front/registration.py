"""Commands are registered only if they changed: Discord allows 200 creations a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COMPARED = (
    "type",
    "name",
    "name_localizations",
    "description",
    "description_localizations",
    "required",
    "choices",
    "value",
    "options",
    "min_value",
    "max_value",
    "min_length",
    "max_length",
    "autocomplete",
    "default_member_permissions",
    "contexts",
    "integration_types",
    "nsfw",
)
PERMISSIONS = "default_member_permissions"
UNORDERED = ("contexts", "integration_types")
LOCALIZATIONS = ("name_localizations", "description_localizations")


def unchanged(defined: Sequence[Mapping[str, Any]], registered: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether Discord already has exactly the commands that are defined, in any order."""
    return _by_name(defined) == _by_name(registered)


def _by_name(commands: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], Any]:
    return {(command.get("type", 1), command["name"]): _essence(command) for command in commands}


def _essence(value: Any) -> Any:
    """Return `value` without Discord's additions, and without keys that have their default."""
    if isinstance(value, list | tuple):
        return [_essence(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {
        key: dict(value[key] or {}) if key in LOCALIZATIONS else _essence(value[key])
        for key in COMPARED
        if key in value
    }
    kept |= {key: sorted(kept[key]) for key in UNORDERED if kept.get(key)}
    if kept.get(PERMISSIONS) is not None:
        kept[PERMISSIONS] = str(kept[PERMISSIONS])  # discord.py sends a number, Discord returns text
    return {key: kept[key] for key in kept if kept[key] not in (None, False, "", [], {})}
