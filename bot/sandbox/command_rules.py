"""Discord's rules for application commands at registration; pure."""

from __future__ import annotations

import unicodedata
from typing import Any

from bot.sandbox.file_types import check_file_types
from bot.sandbox.rejections import FormErrors, Json, Path

CHAT_INPUT, USER_COMMAND, MESSAGE_COMMAND = 1, 2, 3
SUBCOMMAND, SUBCOMMAND_GROUP = 1, 2
STRING, INTEGER, BOOLEAN, USER, CHANNEL, ROLE, MENTIONABLE, NUMBER, ATTACHMENT = 3, 4, 5, 6, 7, 8, 9, 10, 11
MAX_COMMANDS = {CHAT_INPUT: 100, USER_COMMAND: 15, MESSAGE_COMMAND: 15}
MAX_OPTIONS = MAX_CHOICES = 25
MAX_CHARACTERS = 8000
MAX_STRING = 6000

LOCALES = frozenset(
    [
        "id",
        "en-US",
        "en-GB",
        "bg",
        "zh-CN",
        "zh-TW",
        "hr",
        "cs",
        "da",
        "nl",
        "fi",
        "fr",
        "de",
        "el",
        "hi",
        "hu",
        "it",
        "ja",
        "ko",
        "lt",
        "no",
        "pl",
        "pt-BR",
        "ro",
        "ru",
        "es-ES",
        "es-419",
        "sv-SE",
        "th",
        "tr",
        "uk",
        "vi",
    ]
)
COMMAND_FIELDS = frozenset(
    {
        "id", "type", "name", "name_localizations", "description", "description_localizations", "options",
        "default_member_permissions", "dm_permission", "contexts", "integration_types", "nsfw", "handler",
    }
)  # fmt: skip
OPTION_FIELDS = frozenset(
    {
        "type", "name", "name_localizations", "description", "description_localizations", "required",
        "choices", "options", "channel_types", "min_value", "max_value", "min_length", "max_length",
        "autocomplete", "file_types",
    }
)  # fmt: skip
CHOICE_FIELDS = frozenset({"name", "name_localizations", "value"})
_SCRIPTS_WITH_MARKS = ("DEVANAGARI", "THAI")


def is_command_name(name: str) -> bool:
    """Whether `name` fits ^[-_'\\p{L}\\p{N}\\p{sc=Deva}\\p{sc=Thai}]{1,32}$ and is in lower case."""
    return 1 <= len(name) <= 32 and name == name.lower() and all(map(_is_name_character, name))


def _is_name_character(character: str) -> bool:
    if character in "-_'" or unicodedata.category(character)[0] in "LN":
        return True
    return unicodedata.name(character, "").startswith(_SCRIPTS_WITH_MARKS)


def check_commands(commands: list[Json]) -> list[str]:
    """Check a set of commands; raise 50035 with all mistakes, return sentences about ignored fields."""
    errors = FormErrors()
    seen: set[tuple[int, str]] = set()
    odd: list[str] = []
    for index, command in enumerate(commands):
        odd += check_command(command, (index,), errors)
        key = (command.get("type") or CHAT_INPUT, str(command.get("name")))
        if key in seen:
            errors.add(
                (index, "name"),
                "APPLICATION_COMMANDS_DUPLICATE_NAME",
                "Application command names must be unique",
            )
        seen.add(key)
    for kind, limit in MAX_COMMANDS.items():
        if sum((command.get("type") or CHAT_INPUT) == kind for command in commands) > limit:
            errors.add((), "BASE_TYPE_MAX_LENGTH", f"Must be {limit} or fewer in length.")
    errors.check()
    return odd


def check_command(command: Json, path: Path, errors: FormErrors) -> list[str]:
    """Add every mistake of one command to `errors`; return a sentence for each field that Discord ignores."""
    kind = command.get("type") or CHAT_INPUT
    _check_name(command, path, errors, free=kind != CHAT_INPUT)
    _check_description(command, path, errors, empty=kind != CHAT_INPUT)
    options = command.get("options") or []
    if kind == CHAT_INPUT:
        _check_options(options, (*path, "options"), errors, depth=0)
    else:
        errors.length((*path, "options"), options, 0, 0)
    if _characters(command) > MAX_CHARACTERS:
        message = f"Command exceeds maximum size ({MAX_CHARACTERS})"
        errors.add(path, "APPLICATION_COMMAND_TOO_LARGE", message)
    permissions = command.get("default_member_permissions")
    if permissions is not None and not str(permissions).isdecimal():
        errors.add((*path, "default_member_permissions"), "NUMBER_TYPE_COERCE", "Not a set of permissions.")
    return _oddities(command, COMMAND_FIELDS, path)


def _oddities(thing: Json, known: frozenset[str], path: Path) -> list[str]:
    odd = [f"unknown field {'.'.join(map(str, (*path, name)))}" for name in thing if name not in known]
    for index, option in enumerate(thing.get("options") or []):
        odd += _oddities(option, OPTION_FIELDS, (*path, "options", index))
    for index, choice in enumerate(thing.get("choices") or []):
        odd += _oddities(choice, CHOICE_FIELDS, (*path, "choices", index))
    return odd


def _check_localizations(
    thing: Json, field: str, path: Path, errors: FormErrors, *, names: bool, limit: int
) -> None:
    for locale, text in (thing.get(f"{field}_localizations") or {}).items():
        here = (*path, f"{field}_localizations", locale)
        if locale not in LOCALES:
            errors.add(here, "BASE_TYPE_CHOICES", f"Value must be one of {sorted(LOCALES)}.")
        if names and not is_command_name(text):
            errors.add(here, "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
        errors.length(here, text, 1, limit)


def _check_name(thing: Json, path: Path, errors: FormErrors, *, free: bool = False) -> None:
    name = thing.get("name")
    if not name:
        errors.required((*path, "name"))
    elif free:
        errors.length((*path, "name"), name, 1, 32)
    elif not is_command_name(str(name)):
        errors.add((*path, "name"), "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    _check_localizations(thing, "name", path, errors, names=not free, limit=32)


def _check_description(thing: Json, path: Path, errors: FormErrors, *, empty: bool = False) -> None:
    description, localized = thing.get("description") or "", thing.get("description_localizations") or {}
    if empty:
        errors.length((*path, "description"), description, 0, 0)
        errors.length((*path, "description_localizations"), localized, 0, 0)
        return
    if not description:
        errors.required((*path, "description"))
    else:
        errors.length((*path, "description"), description, 1, 100)
    _check_localizations(thing, "description", path, errors, names=False, limit=100)


def _check_options(options: list[Json], path: Path, errors: FormErrors, *, depth: int) -> None:
    errors.length(path, options, 0, MAX_OPTIONS)
    names: set[str] = set()
    optional_seen = False
    for index, option in enumerate(options):
        here = (*path, index)
        _check_name(option, here, errors)
        _check_description(option, here, errors)
        _check_option(option, here, errors, depth=depth)
        if option.get("name") in names:
            message = "Option name already exists"
            errors.add((*here, "name"), "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS", message)
        names.add(str(option.get("name")))
        if option.get("required") and optional_seen:
            message = "Required options must be placed before non-required options"
            errors.add(here, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", message)
        optional_seen = optional_seen or not option.get("required")
    kinds = {option.get("type") in (SUBCOMMAND, SUBCOMMAND_GROUP) for option in options}
    if len(kinds) > 1:
        message = "Sub-command and sub-command group option types are mutually exclusive to all other types"
        errors.add(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", message)


def _check_option(option: Json, path: Path, errors: FormErrors, *, depth: int) -> None:
    kind = option.get("type")
    if kind not in range(SUBCOMMAND, ATTACHMENT + 1):
        errors.add((*path, "type"), "BASE_TYPE_CHOICES", "Value must be one of {1, 2, …, 11}.")
    if kind in (SUBCOMMAND, SUBCOMMAND_GROUP):
        deepest = 1 if kind == SUBCOMMAND else 0
        if depth > deepest:
            errors.add((*path, "type"), "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", "Too deep.")
        _check_options(option.get("options") or [], (*path, "options"), errors, depth=depth + 1)
    _check_choices(option, path, errors)
    check_file_types(option, path, errors)
    if option.get("file_types") and kind != ATTACHMENT:
        errors.add(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", "This type takes no file_types.")
    for least, most, kinds in (
        ("min_value", "max_value", (INTEGER, NUMBER)),
        ("min_length", "max_length", (STRING,)),
    ):
        given = [option[bound] for bound in (least, most) if option.get(bound) is not None]
        if given and kind not in kinds:
            errors.add(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", f"This type takes no {least}.")
        if len(given) == 2 and given[0] > given[1]:
            errors.add((*path, least), "NUMBER_TYPE_MAX", f"{least} must not be above {most}.")
        if kind == STRING and any(not 0 <= bound <= MAX_STRING for bound in given):
            errors.add((*path, most), "NUMBER_TYPE_MAX", f"Must be between 0 and {MAX_STRING}.")


def _check_choices(option: Json, path: Path, errors: FormErrors) -> None:
    choices = option.get("choices") or []
    errors.length((*path, "choices"), choices, 0, MAX_CHOICES)
    if option.get("autocomplete") and choices:
        message = "Autocomplete and choices are mutually exclusive"
        errors.add(path, "APPLICATION_COMMAND_OPTIONS_AUTOCOMPLETE_INVALID", message)
    if (choices or option.get("autocomplete")) and option.get("type") not in (STRING, INTEGER, NUMBER):
        errors.add(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", "This type takes no choices.")
    for index, choice in enumerate(choices):
        here = (*path, "choices", index)
        errors.length((*here, "name"), str(choice.get("name") or ""), 1, 100)
        _check_localizations(choice, "name", here, errors, names=False, limit=100)
        _check_choice_value(choice.get("value"), option.get("type"), (*here, "value"), errors)


def _check_choice_value(value: Any, kind: Any, path: Path, errors: FormErrors) -> None:
    if kind == STRING:
        if not isinstance(value, str):
            errors.add(path, "STRING_TYPE_CONVERT", "Could not interpret as string.")
        else:
            errors.length(path, value, 1, 100)
    elif kind == INTEGER and (not isinstance(value, int) or isinstance(value, bool)):
        errors.add(path, "NUMBER_TYPE_COERCE", f'Value "{value}" is not int.')


def _characters(thing: Json) -> int:
    """Return the length of names and descriptions, each in its longest language, and of values."""
    total = len(str(thing.get("value") or ""))
    for field in ("name", "description"):
        texts = [str(thing.get(field) or ""), *(thing.get(f"{field}_localizations") or {}).values()]
        total += max(map(len, texts))
    parts = [*(thing.get("options") or []), *(thing.get("choices") or [])]
    return total + sum(map(_characters, parts))
