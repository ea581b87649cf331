"""Compares commands with the registered ones: Discord allows 200 creations a day. Words its refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    "file_types",
    "default_member_permissions",
    "contexts",
    "integration_types",
    "nsfw",
)
PERMISSIONS = "default_member_permissions"
UNORDERED = ("contexts", "integration_types")
LOCALIZATIONS = ("name_localizations", "description_localizations")
TOO_LARGE = "APPLICATION_COMMAND_TOO_LARGE"


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


def refusal(errors: Mapping[str, Any], commands: Sequence[Mapping[str, Any]]) -> str:
    """Return Discord's nested errors as one sentence with the names of these commands and their options."""
    mistakes = list(_mistakes(errors, commands, "commands"))
    if TOO_LARGE in str(errors.get("_errors")):  # and Discord names none
        mistakes.append(f"the largest is {max(commands, key=_counted)['name']!r}")
    return (
        f"Discord refuses the commands: {'; '.join(mistakes)}. "
        "Change the offer in this configuration or in the worker's, or update the bot."
    )


def _counted(part: Mapping[str, Any]) -> int:
    """Return how many characters Discord counts in a command, an option or a choice.

    Values count, and each name and description in its longest language. Source: Discord's documentation of
    application commands, limits of slash commands.
    """
    count = len(str(part.get("value", "")))
    for field in ("name", "description"):
        texts = [part.get(field, ""), *(part.get(f"{field}_localizations") or {}).values()]
        count += max(map(len, texts))
    return count + sum(map(_counted, [*part.get("options", ()), *part.get("choices", ())]))


def _mistakes(errors: Any, sent: Any, *place: str) -> Iterator[str]:
    """Yield each error with its place, such as the name of an option, in what was sent."""
    if not isinstance(errors, Mapping):  # undocumented: it is shown as it came
        yield f"{', '.join(place)}: {errors}"
        return
    for key, below in errors.items():
        if key == "_errors" and isinstance(below, list):
            for error in below:
                message = error.get("message", error) if isinstance(error, Mapping) else error
                yield f"{', '.join(place)}: {str(message).rstrip('.')}"
            continue
        try:
            part = sent[int(key)] if isinstance(sent, list) else sent[key]
        except (LookupError, TypeError, ValueError):
            part = None  # Discord names what was not sent
        if isinstance(sent, list) and isinstance(part, Mapping):
            yield from _mistakes(below, part, *place[:-1], f"{place[-1].removesuffix('s')} {part['name']!r}")
        else:
            yield from _mistakes(below, part, *place, key)
