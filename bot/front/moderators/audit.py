"""`/audit`: the log of what moderators did in a server, newest first, a page at a time, or all as a file."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import discord
from discord.app_commands import locale_str

from bot.delivery.content import ButtonContent, MessageContent, Tone
from bot.delivery.discord_requests import layout
from bot.domain.errors import UserMistake
from bot.domain.holds import MOST_REASON
from bot.front.answers.answers import MAX_PAGE, acknowledge, acknowledge_press, page_lines
from bot.front.answers.controls import Button
from bot.front.answers.pages import NEWER, OLDER, turned
from bot.front.answers.permissions import moderated_server
from bot.front.gateway.command_tree import Command, Option, for_moderators, make_command
from bot.front.moderators.moderate import who
from bot.front.moderators.policy import whose
from bot.front.moderators.policy_values import key_name, value_text
from bot.front.services.request import Request
from bot.moderation.policy import KEYS, policy_from
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import Act, Entry
from bot.store.rows.restrictions import Moderation
from bot.store.rows.reviews import Kind
from bot.texts.catalogue import Moment, Texts
from bot.texts.markup import shown
from bot.texts.mistakes import MISTAKES

MOST_EXPORTED = 20_000
EXPORT = "export"
ACTS = MappingProxyType(
    {
        Act.BLOCK: locale_str("Blocks", words=True),
        Act.UNBLOCK: locale_str("Blocks removed", words=True),
        Act.PAUSE: locale_str("Pauses", words=True),
        Act.RESUME: locale_str("Pauses ended", words=True),
        Act.CLEAR: locale_str("Deletions of many requests", words=True),
        Act.DELETE: locale_str("Deletions of one request", words=True),
        Act.CANCEL: locale_str("Cancellations", words=True),
        Act.ADVANCE: locale_str("Moves to the front", words=True),
        Act.RETRY: locale_str("Second tries", words=True),
        Act.DRAIN: locale_str("Workers stopped", words=True),
        Act.UNDRAIN: locale_str("Workers let go on", words=True),
        Act.RULE: locale_str("Rules on prompts", words=True),
        Act.STYLE: locale_str("Styles", words=True),
        Act.LIST: locale_str("Lists for prompts", words=True),
        Act.KNOWN: locale_str("Blocked pictures", words=True),
        Act.SESSION: locale_str("Group sessions", words=True),
        Act.APPROVE: locale_str("Pictures approved", words=True),
        Act.COVER: locale_str("Pictures approved as spoilers", words=True),
        Act.REJECT: locale_str("Pictures rejected", words=True),
        Act.EXPIRE: locale_str("Reviews that ran out of time", words=True),
        Act.HIDE: locale_str("Pictures hidden for review", words=True),
        Act.DECLINE: locale_str("Appeals declined", words=True),
        Act.REVIEW: locale_str("Settings of reviews", words=True),
        Act.POLICY: locale_str("Policies", words=True),
    }
)
CHANGES = frozenset({Act.POLICY, Act.REVIEW, Act.RULE, Act.STYLE, Act.LIST})
MOST_FIELDS = 3  # the export has all of them
SHOWN_VALUE = 24  # characters
NOTHING = "—"
TITLES = frozenset({"scope", "id", "name"})  # the sentence of the entry names them
FILE = "audit.jsonl"
LIMIT = 8 * 1024 * 1024  # bytes; Discord takes 10 MiB in every server


@dataclass(frozen=True, kw_only=True)
class Look:
    """The filter of entries: of one person, as actor or subject, and of one act."""

    guild_id: int
    person_id: int | None = None
    act: Act | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some entries, newest first, and whether there are others on either side of them."""

    entries: tuple[Entry, ...]
    older: bool
    newer: bool
    look: Look


def audit_command() -> Command:
    """The command."""
    member = Option(
        name="member",
        description=locale_str("Only what this member did, or what was done about them."),
        kind=discord.User,
    )
    act = Option(
        name="act",
        description=locale_str("Only acts of this kind."),
        kind=str,
        choices=[(name, each.value) for each, name in ACTS.items()],
    )
    return for_moderators(
        make_command(
            name="audit",
            description=locale_str("For moderators: who did what to whom, when and why."),
            run=show_audit,
            options=[member, act],
        )
    )


async def show_audit(request: Request, *, member: discord.User | None = None, act: str | None = None) -> None:
    """Show the newest page to the moderator alone."""
    guild_id = moderated_server(request)
    await acknowledge(request, private=True)
    look = Look(
        guild_id=guild_id,
        person_id=None if member is None else member.id,
        act=None if act is None else Act(act),
    )
    await _show(request, await page_of(request.services.store.moderation, look))


async def act_on(request: Request, way: str, key: int, person: int, kind: str) -> None:
    """Turn the page, `way` being older or newer than the entry `key`, or send the whole log as a file."""
    look = Look(guild_id=moderated_server(request), person_id=person or None, act=Act(kind) if kind else None)
    if way == EXPORT:
        await _export(request, look)
        return
    await acknowledge_press(request)
    await _show(request, await page_of(request.services.store.moderation, look, way, key))


async def page_of(log: Moderation, look: Look, way: str = "", key: int = 0) -> Page:
    """Return the page of the newest entries, or the page beside the entry `key`."""
    read = functools.partial(log.entries, look.guild_id, person_id=look.person_id, act=look.act)
    found = await turned(read, way, key)
    return Page(entries=found.rows, older=found.older, newer=found.newer, look=look)


async def _show(request: Request, page: Page) -> None:
    texts = request.texts
    row = tuple(_buttons(page, texts))
    heading = texts.gettext("What moderators did here")
    lines = [f"### {heading}", *entry_lines(page.entries, texts)]
    if len("\n".join(lines)) > MAX_PAGE:  # no entry may be left out: the next page begins after them
        lines = [f"### {heading}", *entry_lines(page.entries, texts, changes=False)]
    text = page_lines(lines, texts)
    content = MessageContent(heading=text, rows=(row,) if row else (), tone=Tone.WAITING)
    await request.edit(view=layout(content))


def entry_lines(entries: Sequence[Entry], texts: Texts, *, changes: bool = True) -> list[str]:
    """Return a line for each entry: time, act, end, reason, and with `changes` the old and new values."""
    if not entries:
        return [texts.gettext(MISTAKES["audit_empty"])]
    return [texts.line(texts.joined(_parts(entry, texts, changes=changes)), mark="- ") for entry in entries]


def _parts(entry: Entry, texts: Texts, *, changes: bool) -> Iterator[str]:
    yield str(Moment(entry.at))
    yield _said(entry, texts)
    if entry.act is Act.BLOCK and entry.after and entry.after.get("until"):
        yield texts.gettext("ends {until}", until=Moment(entry.after["until"]))
    if changes:
        yield from changes_of(entry, texts)
    if entry.reason:
        yield shown(entry.reason, MOST_REASON)


def _said(entry: Entry, texts: Texts) -> str:
    facts = entry.after or entry.before or {}
    place = f"<#{facts['channel_id']}>" if facts.get("channel_id") else texts.gettext("this server")
    subject = who(entry.subject_id, texts) if entry.subject_id else texts.gettext("this server")
    fields = {"actor": who(entry.actor_id, texts), "subject": subject}
    if entry.act is Act.BLOCK:
        return texts.gettext("{actor} blocked {subject}", **fields)
    if entry.act is Act.UNBLOCK:
        return texts.gettext("{actor} unblocked {subject}", **fields)
    if "job" in facts and (said := _said_of_request(entry, texts, **fields)) is not None:
        return said
    if entry.act is Act.PAUSE:
        return texts.gettext("{actor} paused painting in {place}", actor=fields["actor"], place=place)
    if entry.act is Act.RESUME:
        return texts.gettext("{actor} resumed painting in {place}", actor=fields["actor"], place=place)
    if entry.act is Act.SESSION:
        return said_of_session(facts, fields["actor"], place, texts)
    if entry.act in _SAID:
        return _SAID[entry.act](entry, fields["actor"], texts)
    if (said := _said_of_review(entry, texts, **fields)) is not None:
        return said
    if entry.act is Act.POLICY:
        policy = whose(PolicyScope(facts["scope"]), facts["id"], texts)
        return texts.gettext("{actor} changed a policy: {policy}", actor=fields["actor"], policy=policy)
    return texts.ngettext(
        "{actor} deleted {count} request of {subject}",
        "{actor} deleted {count} requests of {subject}",
        facts.get("requests", 1),
        **fields,
    )


def _said_of_picture(entry: Entry, actor: str, texts: Texts) -> str:
    picture = shown(str((entry.after or entry.before or {}).get("picture", "")), MOST_REASON)
    if entry.after is None:
        return texts.gettext("{actor} unblocked the picture {picture}", actor=actor, picture=picture)
    return texts.gettext("{actor} blocked the picture {picture}", actor=actor, picture=picture)


def _said_of_request(entry: Entry, texts: Texts, *, actor: str, subject: str) -> str | None:
    """Return what was done to one request that waits or has failed; None for any other act."""
    fields = {"actor": actor, "subject": subject}
    if entry.act is Act.CANCEL:
        return texts.gettext("{actor} cancelled a request of {subject}", **fields)
    if entry.act is Act.PAUSE:
        return texts.gettext("{actor} paused a request of {subject}", **fields)
    if entry.act is Act.RESUME:
        return texts.gettext("{actor} resumed a request of {subject}", **fields)
    if entry.act is Act.ADVANCE:
        return texts.gettext("{actor} moved a request of {subject} to the front", **fields)
    if entry.act is Act.RETRY:
        return texts.gettext("{actor} had a request of {subject} painted again", **fields)
    return None


def _said_of_review(entry: Entry, texts: Texts, **fields: str) -> str | None:
    if entry.act is Act.APPROVE and (entry.after or {}).get("kind") == Kind.APPEAL.value:
        return texts.gettext("{actor} accepted an appeal of {subject}", **fields)
    if entry.act is Act.APPROVE:
        return texts.gettext("{actor} approved pictures by {subject}", **fields)
    if entry.act is Act.COVER:
        return texts.gettext("{actor} approved pictures by {subject} as spoilers", **fields)
    if entry.act is Act.REJECT:
        return texts.gettext("{actor} rejected pictures by {subject}", **fields)
    if entry.act is Act.DECLINE:
        return texts.gettext("{actor} declined an appeal of {subject}", **fields)
    if entry.act is Act.REVIEW:
        return texts.gettext("{actor} changed how reviews are done", actor=fields["actor"])
    if entry.act is Act.HIDE and (count := (entry.after or {}).get("reports")):
        return texts.ngettext(
            "{count} report hid pictures by {subject}",
            "{count} reports hid pictures by {subject}",
            count,
            subject=fields["subject"],
        )
    if entry.act is Act.HIDE:
        return texts.gettext("{actor} hid pictures by {subject} for review", **fields)
    if entry.act is Act.EXPIRE:
        return texts.gettext("nobody reviewed pictures by {subject} in time", subject=fields["subject"])
    return None


def _said_of_rule(entry: Entry, actor: str, texts: Texts) -> str:
    rule = shown(str((entry.after or entry.before or {}).get("name", "")), MOST_REASON)
    if entry.before is None:
        return texts.gettext("{actor} added the rule {rule}", actor=actor, rule=rule)
    if entry.after is None:
        return texts.gettext("{actor} removed the rule {rule}", actor=actor, rule=rule)
    return texts.gettext("{actor} changed the rule {rule}", actor=actor, rule=rule)


def _said_of_style(entry: Entry, actor: str, texts: Texts) -> str:
    style = shown(str((entry.after or entry.before or {}).get("name", "")), MOST_REASON)
    if entry.after is None:
        return texts.gettext("{actor} removed the style {style}", actor=actor, style=style)
    return texts.gettext("{actor} saved the style {style}", actor=actor, style=style)


def _said_of_worker(entry: Entry, actor: str, texts: Texts) -> str:
    worker = shown(str((entry.after or {}).get("worker", "")), MOST_REASON)
    if entry.act is Act.DRAIN:
        return texts.gettext("{actor} stopped the worker {worker}", actor=actor, worker=worker)
    return texts.gettext("{actor} let the worker {worker} go on", actor=actor, worker=worker)


def _said_of_list(entry: Entry, actor: str, texts: Texts) -> str:
    name = shown(str((entry.after or entry.before or {}).get("name", "")), MOST_REASON)
    if entry.after is None:
        return texts.gettext("{actor} removed the list {name}", actor=actor, name=name)
    return texts.gettext("{actor} saved the list {name}", actor=actor, name=name)


def _buttons(page: Page, texts: Texts) -> Iterator[ButtonContent]:
    which = f"{page.look.person_id or 0}:{page.look.act or ''}"
    if not page.entries:
        return
    first, last = page.entries[0].id, page.entries[-1].id
    if page.newer:
        yield ButtonContent(label=texts.gettext("Newer"), custom_id=f"audit:{NEWER}:{first}:{which}")
    if page.older:
        yield ButtonContent(label=texts.gettext("Older"), custom_id=f"audit:{OLDER}:{last}:{which}")
    yield ButtonContent(label=texts.gettext("Export"), custom_id=f"audit:{EXPORT}:0:{which}")


async def _export(request: Request, look: Look) -> None:
    """Send the entries as JSON lines to the moderator alone: as many of the newest as fit into a file."""
    await acknowledge(request, private=True)
    log, limit = request.services.store.moderation, MOST_EXPORTED
    entries = await log.entries(look.guild_id, person_id=look.person_id, act=look.act, limit=limit)
    if not entries:
        raise UserMistake("audit_empty")
    data, count = lines_of(entries)
    said = request.texts.ngettext(
        "{count} act as JSON, one a line, the newest first.",
        "{count} acts as JSON, one a line, the newest first.",
        count,
    )
    file = discord.File(io.BytesIO(data), filename=FILE)
    await request.edit(content=said, attachments=[file])


_SAID = {
    Act.KNOWN: _said_of_picture,
    Act.RULE: _said_of_rule,
    Act.STYLE: _said_of_style,
    Act.LIST: _said_of_list,
    Act.DRAIN: _said_of_worker,
    Act.UNDRAIN: _said_of_worker,
}


CONTROLS = (
    Button(
        template=rf"audit:(?P<way>{OLDER}|{NEWER}|{EXPORT}):(?P<key>[0-9]{{1,19}})"
        rf":(?P<person>[0-9]{{1,19}}):(?P<kind>|{'|'.join(Act)})",
        act=act_on,
    ),
)


def changes_of(entry: Entry, texts: Texts) -> Iterator[str]:
    """Yield the fields that an entry has changed, with their old and new values, and how many others."""
    if entry.act not in CHANGES or entry.before is None or entry.after is None:
        return
    before, after = entry.before, entry.after
    changed = [key for key in {**before, **after} if key not in TITLES and before.get(key) != after.get(key)]
    for key in changed[:MOST_FIELDS]:
        yield texts.gettext(
            "{field}: {before} → {after}",
            field=_name(key, texts),
            before=texts.isolated(_text(key, before, texts)),
            after=texts.isolated(_text(key, after, texts)),
        )
    if rest := len(changed[MOST_FIELDS:]):
        yield texts.ngettext("and {count} more", "and {count} more", rest)


def _name(key: str, texts: Texts) -> str:
    names = {
        "terms": texts.gettext("Words"),
        "also": texts.gettext("Only together with"),
        "prompt": texts.gettext("Prompt"),
        "negative_prompt": texts.gettext("Not in the picture"),
        "options": texts.gettext("Settings"),
        "example": texts.gettext("Example"),
        "entries": texts.gettext("Entries"),
        "applied": texts.gettext("applied"),
        "channel_id": texts.pgettext("name", "channel"),
    }
    named = key_name(key, texts) if key in KEYS else texts.pgettext("name", key)
    return names.get(key) or named


def _text(key: str, facts: Mapping[str, Any], texts: Texts) -> str:
    """Return a value for people; values of a newer version as they are stored."""
    value = facts.get(key)
    if value is None or value in ("", [], {}):
        return NOTHING
    if key in KEYS:
        try:
            return value_text(key, getattr(policy_from({key: value}), key), texts)
        except (ValueError, TypeError):
            pass
    if isinstance(value, bool):
        return texts.gettext("yes") if value else texts.gettext("no")
    if key == "channel_id":
        return f"<#{value}>"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    elif isinstance(value, dict):
        value = ", ".join(f"{name} {each}" for name, each in value.items())
    return shown(str(value), SHOWN_VALUE)


def lines_of(entries: Sequence[Entry], *, limit: int = LIMIT) -> tuple[bytes, int]:
    """Return one line of JSON for each entry, as many as fit into `limit` bytes, and how many these are."""
    lines: list[bytes] = []
    room = limit
    for entry in entries:
        line = json.dumps(described(entry), ensure_ascii=False).encode() + b"\n"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return b"".join(lines), len(lines)


def described(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON values; ids are text, because many programs round such large numbers."""
    return {
        "id": entry.id,
        "at": datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds"),
        "server": str(entry.guild_id),
        "actor": str(entry.actor_id),
        "act": entry.act.value,
        "subject": str(entry.subject_id) if entry.subject_id else None,
        "reason": entry.reason,
        "before": _facts(entry.before),
        "after": _facts(entry.after),
    }


def _facts(facts: dict[str, Any] | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {name: str(value) if name.endswith("_id") else value for name, value in facts.items()}


def said_of_session(facts: Mapping[str, Any], actor: str, place: str, texts: Texts) -> str:
    """Return the sentence of an act, by the `change` in its facts."""
    fields = {"actor": actor, "place": place}
    said = {
        "open": texts.gettext("{actor} opened a group session in {place}", **fields),
        "next": texts.gettext("{actor} moved the group session in {place} to its next phase", **fields),
        "pause": texts.gettext("{actor} paused the group session in {place}", **fields),
        "resume": texts.gettext("{actor} resumed the group session in {place}", **fields),
        "extend": texts.gettext("{actor} gave the group session in {place} more time", **fields),
        "host": texts.gettext("{actor} became the host of the group session in {place}", **fields),
    }
    closed = texts.gettext("{actor} closed the group session in {place}", **fields)
    return said.get(str(facts.get("change")), closed)
