"""Discord's rules for messages that its API documents do not state; pure, except for the lists it fills."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bot.sandbox.component_rules import check_components
from bot.sandbox.rejections import FormErrors, Json, Rejection
from bot.sandbox.state import Flag, number_of

ACKNOWLEDGE_SECONDS = 3.0
TOKEN_SECONDS = 15 * 60.0
NONCE_SECONDS = 5 * 60.0
MAX_FILE_BYTES = 20 * 1024 * 1024
MAX_REQUEST_BYTES = 25 * 1024 * 1024
MAX_ATTACHMENTS = 10
MAX_CONTENT = 2000
MAX_EMBED_TEXT = 6000

MESSAGE_FIELDS = frozenset(
    {"content", "embeds", "allowed_mentions", "components", "flags", "attachments", "poll", "tts"}
)
CHANNEL_MESSAGE_FIELDS = MESSAGE_FIELDS | {
    "nonce", "enforce_nonce", "message_reference", "sticker_ids", "shared_client_theme",
}  # fmt: skip
# discord.py writes `tts` into every edit, and Discord ignores it: no violation.
EDIT_FIELDS = MESSAGE_FIELDS | {"sticker_ids"}
WEBHOOK_FIELDS = MESSAGE_FIELDS | {"username", "avatar_url", "thread_name", "applied_tags"}

THREAD_FIELDS = frozenset(
    {"name", "auto_archive_duration", "type", "invitable", "rate_limit_per_user", "applied_tags", "message"}
)
ARCHIVE_MINUTES = (60, 1440, 4320, 10080)

SETTABLE_FLAGS = Flag.SUPPRESS_EMBEDS | Flag.SUPPRESS_NOTIFICATIONS | Flag.IS_COMPONENTS_V2
MENTION = re.compile(r"<@!?(\d+)>")
ROLE_MENTION = re.compile(r"<@&(\d+)>")
EVERYONE = re.compile(r"@(?:everyone|here)\b")


def unknown_fields(body: Any, known: Collection[str]) -> list[str]:
    """Return a sentence for each field that Discord ignores."""
    if not isinstance(body, dict):
        return []
    return [f"unknown field {name}" for name in body if name not in known]


def check_thread(body: Json, *, public: int | None) -> None:
    """Check the body of a new thread: of the type `public`, or for None of a post, which needs a message."""
    errors = FormErrors()
    if body.get("name") is None:
        errors.required(("name",))
    else:
        errors.length(("name",), str(body["name"]), 1, 100)
    if public is None and not isinstance(body.get("message"), dict):
        errors.required(("message",))
    if public is not None and body.get("type") != public:
        errors.add(("type",), "BASE_TYPE_CHOICES", f"Value must be one of {{{public}}}.")
    if body.get("auto_archive_duration") not in (None, *ARCHIVE_MINUTES):
        errors.add(
            ("auto_archive_duration",), "BASE_TYPE_CHOICES", f"Value must be one of {ARCHIVE_MINUTES}."
        )
    errors.check()


def check_query(query: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Check a query string against the operation's parameters ("bool", "id" or "int a b"), and return a
    sentence for each unknown parameter."""
    errors = FormErrors()
    for name, value in query.items():
        kind, *bounds = known.get(name, "any").split()
        if kind == "bool" and value.lower() not in {"true", "false", "1", "0"}:
            errors.add((name,), "BOOLEAN_TYPE_CONVERT", "Must be either true or false.")
        elif kind == "id" and number_of(value) < 0:
            errors.add((name,), "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.')
        elif kind == "int" and not int(bounds[0]) <= number_of(value) <= int(bounds[1]):
            errors.add((name,), "NUMBER_TYPE_COERCE", f"Value must be between {bounds[0]} and {bounds[1]}.")
    errors.check()
    return [f"unknown query parameter {name}" for name in query if name not in known]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits on the sizes of files and requests, in bytes.

    `file` is the limit for a file of the bot, and `stated` the limit that interactions state; as in Discord,
    `stated` can be larger than `file`. `member` is the limit for a file of a member.
    """

    file: int = MAX_FILE_BYTES
    request: int = MAX_REQUEST_BYTES
    stated: int = MAX_FILE_BYTES
    member: int = MAX_FILE_BYTES


def check_upload(sizes: Collection[int], limits: Limits) -> None:
    """Raise 40005 if a file, or all files together, exceed the limit.

    It is no violation if the stated limit allows the files.
    """
    if any(size > limits.file for size in sizes) or sum(sizes) > limits.request:
        told = any(size > limits.stated for size in sizes) or sum(sizes) > limits.request
        raise Rejection(413, 40005, "Request entity too large", violation=told)


def check_message(body: Json, *, v2: bool) -> list[str]:
    """Check the fields of a message body, each by itself; return sentences about ignored fields."""
    errors = FormErrors()
    _check_types(body, errors)
    errors.check()
    errors.length(("content",), body.get("content") or "", 0, MAX_CONTENT)
    errors.length(("nonce",), str(body.get("nonce") or ""), 0, 25)
    _check_embeds(body.get("embeds") or [], errors)
    _check_allowed_mentions(body.get("allowed_mentions") or {}, errors)
    errors.length(("attachments",), body.get("attachments") or [], 0, MAX_ATTACHMENTS)
    for index, attachment in enumerate(body.get("attachments") or []):
        errors.length(("attachments", index, "description"), attachment.get("description") or "", 0, 1024)
        if not isinstance(attachment.get("is_spoiler"), bool | None):
            message = "Must be either true or false."
            errors.add(("attachments", index, "is_spoiler"), "BOOLEAN_TYPE_CONVERT", message)
    odd = check_components(body.get("components") or [], v2=v2, errors=errors)
    errors.check()
    return odd


_TYPES: dict[str, tuple[type, str, str]] = {
    "content": (str, "STRING_TYPE_CONVERT", "Could not interpret as string."),
    "flags": (int, "NUMBER_TYPE_COERCE", "Not an int."),
    "tts": (bool, "BOOLEAN_TYPE_CONVERT", "Must be either true or false."),
    "embeds": (list, "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType"),
    "attachments": (list, "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType"),
    "components": (list, "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType"),
    "allowed_mentions": (dict, "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType"),
    "message_reference": (dict, "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType"),
}


def _check_types(body: Json, errors: FormErrors) -> None:
    for name, (kind, code, message) in _TYPES.items():
        value = body.get(name)
        if value is not None and not isinstance(value, kind):
            errors.add((name,), code, message)
        for index, each in enumerate(value if isinstance(value, list) else []):
            if not isinstance(each, dict):
                errors.add((name, index), *_TYPES["allowed_mentions"][1:])


def flags_of(body: Any) -> int:
    """Return the flags of a body, or 0 if they are missing or invalid."""
    flags = body.get("flags") if isinstance(body, dict) else None
    return flags if isinstance(flags, int) else 0


def _check_embeds(embeds: list[Json], errors: FormErrors) -> None:
    errors.length(("embeds",), embeds, 0, 10)
    total = 0
    for index, embed in enumerate(embeds):
        texts = {"title": 256, "description": 4096}
        for field, limit in texts.items():
            errors.length(("embeds", index, field), embed.get(field) or "", 0, limit)
            total += len(embed.get(field) or "")
        errors.length(("embeds", index, "fields"), embed.get("fields") or [], 0, 25)
        for number, field in enumerate(embed.get("fields") or []):
            errors.length(("embeds", index, "fields", number, "name"), field.get("name") or "", 1, 256)
            errors.length(("embeds", index, "fields", number, "value"), field.get("value") or "", 1, 1024)
            total += len(field.get("name") or "") + len(field.get("value") or "")
        total += len((embed.get("footer") or {}).get("text") or "")
        total += len((embed.get("author") or {}).get("name") or "")
    if total > MAX_EMBED_TEXT:
        errors.add(
            ("embeds",), "MAX_EMBED_SIZE_EXCEEDED", f"Embed size exceeds maximum size of {MAX_EMBED_TEXT}"
        )


def _check_allowed_mentions(allowed: Json, errors: FormErrors) -> None:
    parse = allowed.get("parse") or []
    for kind in parse:
        if kind not in ("users", "roles", "everyone"):
            message = "Value must be one of {'everyone', 'roles', 'users'}."
            errors.add(("allowed_mentions", "parse"), "BASE_TYPE_CHOICES", message)
    for kind in ("users", "roles"):
        errors.length(("allowed_mentions", kind), allowed.get(kind) or [], 0, 100)
        if kind in parse and allowed.get(kind):
            message = f'parse:["{kind}"] and {kind}: [ids...] are mutually exclusive.'
            errors.add(("allowed_mentions",), "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", message)


def check_v2_alone(fields: Json) -> None:
    """Raise if a message has content, embeds, a poll or stickers together with Components V2."""
    errors = FormErrors()
    for name in ("content", "embeds", "poll", "sticker_ids"):
        if fields.get(name):
            message = f"The '{name}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2"
            errors.add((name,), "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", message)
    errors.check()


def check_v2_kept(before: int, flags: int | None) -> None:
    """Raise if an edit removes the flag of Components V2."""
    if flags is not None and before & Flag.IS_COMPONENTS_V2 and not flags & Flag.IS_COMPONENTS_V2:
        errors = FormErrors()
        errors.add(
            ("flags",),
            "MESSAGE_CANNOT_REMOVE_COMPONENTS_V2_FLAG",
            "MessageFlags.IS_COMPONENTS_V2 cannot be removed from a message.",
        )
        errors.check()


def check_not_empty(
    *, content: str, embeds: list[Json], components: list[Json], files: int, flags: int
) -> None:
    """Raise 50006 for an empty message."""
    shown = bool(components) if flags & Flag.IS_COMPONENTS_V2 else bool(content.strip() or embeds or files)
    if not shown:
        raise Rejection(400, 50006, "Cannot send an empty message")


@dataclass(frozen=True, kw_only=True)
class Mentions:
    """The users and roles that a message notifies."""

    users: tuple[int, ...] = ()
    roles: tuple[int, ...] = ()
    everyone: bool = False


def mentions_in(text: str, allowed: Json | None) -> Mentions:
    """Return whom `text` notifies: everyone that it names, or only those that `allowed` permits."""
    users = tuple(dict.fromkeys(int(found) for found in MENTION.findall(text)))
    roles = tuple(dict.fromkeys(int(found) for found in ROLE_MENTION.findall(text)))
    everyone = bool(EVERYONE.search(text))
    if allowed is None:
        return Mentions(users=users, roles=roles, everyone=everyone)
    parse = allowed.get("parse") or []
    listed_users = {int(user) for user in allowed.get("users") or []}
    listed_roles = {int(role) for role in allowed.get("roles") or []}
    return Mentions(
        users=tuple(user for user in users if "users" in parse or user in listed_users),
        roles=tuple(role for role in roles if "roles" in parse or role in listed_roles),
        everyone=everyone and "everyone" in parse,
    )
