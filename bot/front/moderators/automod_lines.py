"""What a moderator reads about Discord's AutoMod rules: which apply to prompts, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from bot.front.services.request import Request, patiently
from bot.moderation.automod import AutomodRule, Ignored
from bot.texts.catalogue import Texts
from bot.texts.markup import shown

SHOWN_NAME = 100
SHOWN_PATTERNS = 600


class AutomodState(Enum):
    """Whether a server's AutoMod rules are applied to prompts."""

    APPLIED = auto()
    OFF = auto()
    NO_RIGHT = auto()
    UNREAD = auto()  # what was read before is applied


async def automod_lines(request: Request) -> list[str]:
    """Return a heading, whether the rules of the server hold, and a line for each rule."""
    standing, rules = await automod_standing(request)
    return list(lines_of(standing, rules, request.texts))


async def automod_standing(request: Request) -> tuple[AutomodState, tuple[AutomodRule, ...]]:
    """Return whether the rules of the server are applied, and the rules as far as they are known."""
    services, guild_id = request.services, request.guild_id or 0
    if not await patiently(services.store.automod.is_applied, guild_id):
        return AutomodState.OFF, ()
    if not request.may_read_automod:
        return AutomodState.NO_RIGHT, ()
    rules = await services.automod.rules_of(request.interaction.client, guild_id)
    return AutomodState.UNREAD if services.automod.has_failed(guild_id) else AutomodState.APPLIED, rules


def lines_of(state: AutomodState, rules: Sequence[AutomodRule], texts: Texts) -> Iterator[str]:
    """Yield the lines of `automod_lines`, from plain data."""
    title = texts.gettext("AutoMod of Discord")
    yield f"### {title}"
    yield _said(state, rules, texts)
    for rule in rules:
        yield texts.line(texts.joined(_facts(rule, texts)), mark="- ")
        if rule.unread:
            yield texts.ngettext(
                "{count} pattern does not apply, because the bot cannot read it as Discord does: {patterns}",
                "{count} patterns do not apply, because the bot cannot read them as Discord does: {patterns}",
                len(rule.unread),
                patterns=texts.isolated(shown(" ".join(rule.unread), SHOWN_PATTERNS)),
            )
        if rule.slow:
            yield texts.ngettext(
                "{count} pattern does not apply, because it takes too long to check: {patterns}",
                "{count} patterns do not apply, because they take too long to check: {patterns}",
                len(rule.slow),
                patterns=texts.isolated(shown(" ".join(rule.slow), SHOWN_PATTERNS)),
            )


def _said(state: AutomodState, rules: Sequence[AutomodRule], texts: Texts) -> str:
    if state is AutomodState.OFF:
        return texts.gettext("These rules do not apply to prompts: a moderator has switched them off.")
    if state is AutomodState.NO_RIGHT:
        return texts.gettext(
            "These rules do not apply to prompts: the bot needs the permission Manage Server to read them."
        )
    if state is AutomodState.UNREAD:
        return texts.gettext(
            "Discord did not give these rules. The rules read before still apply; the bot asks again soon."
        )
    if not rules:
        return texts.gettext("This server has no such rules.")
    return texts.gettext("What these rules mean for prompts:")


def _facts(rule: AutomodRule, texts: Texts) -> Iterator[str]:
    yield f"**{shown(rule.name, SHOWN_NAME)}**"
    if rule.ignored is Ignored.PRESET:
        yield texts.gettext("does not apply: Discord does not share its own lists of words")
    elif rule.ignored is Ignored.NOT_WORDS:
        yield texts.gettext("does not apply: it is not about the words of messages")
    elif rule.ignored is Ignored.NOT_BLOCKING:
        yield texts.gettext("does not apply: it blocks no messages")
    else:
        yield texts.ngettext("{count} word or phrase", "{count} words and phrases", len(rule.keywords))
        if rule.patterns:
            yield texts.ngettext("{count} pattern", "{count} patterns", len(rule.patterns))
