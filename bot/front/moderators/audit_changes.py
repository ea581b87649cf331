"""What an entry of the audit log has changed, in words for a line: each field, its old and its new value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.front.moderators.policy_values import key_name, value_text
from bot.moderation.policy import KEYS, policy_from
from bot.store.rows.audit import Act, Entry
from bot.texts.catalogue import Texts
from bot.texts.markup import shown

CHANGES = frozenset({Act.POLICY, Act.REVIEW, Act.RULE, Act.STYLE, Act.LIST})
MOST_FIELDS = 3  # the export has all of them
SHOWN_VALUE = 24  # characters
NOTHING = "—"
TITLES = frozenset({"scope", "id", "name"})  # the sentence of the entry names them


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
