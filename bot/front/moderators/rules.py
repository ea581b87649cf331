"""`/rules`: a server's rules on the words of prompts: add, show, try, remove; and whether AutoMod's apply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import partial

import discord
from discord.app_commands import Choice, Range, locale_str

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form, page, page_lines
from bot.front.answers.controls import Form
from bot.front.answers.modals import modal, text_field
from bot.front.answers.permissions import moderated_server
from bot.front.gateway.command_tree import Group, Option, for_moderators, make_command, make_group
from bot.front.recipes.options import MAX_CHOICE, MAX_CHOICES
from bot.front.recipes.rule_words import MAX_NAME, read_terms, rule_name
from bot.front.requests.words import judgement_of
from bot.front.services.request import Request, patiently
from bot.moderation.automod import AutomodRule, Ignored
from bot.moderation.rules import Verdict
from bot.moderation.search_cost import check_cost
from bot.store.library.named import key_of
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.rows.audit import By
from bot.texts.catalogue import Texts
from bot.texts.markup import shown
from sdjax_engine.request import MAX_PROMPT_CHARACTERS

LIST_CHARACTERS = 4000  # the most that Discord takes in one field
SHOWN_TERMS = 1500
RULE = "rule"
ON, OFF = "on", "off"
EVERYWHERE = "server"
HERE = "channel"
SHOWN_NAME = 100
SHOWN_PATTERNS = 600


def rules_group() -> Group:
    """The command and its five subcommands; Discord shows it to moderators alone."""
    name = Option(
        name="name",
        description=locale_str("The name of a rule."),
        kind=Range[str, 1, MAX_CHOICE],
        autocomplete=suggest_rules,
    )
    commands = [
        make_command(
            name="add",
            description=locale_str("Add a rule, or change the one with this name."),
            run=ask_rule,
            options=[name, *_kinds()],
        ),
        make_command(
            name="show",
            description=locale_str("Show the rules of this server, or one of them."),
            run=show_rules,
            options=[name],
        ),
        make_command(
            name="try",
            description=locale_str("Check whether a rule would refuse a prompt here."),
            run=try_rules,
            options=[
                Option(
                    name="prompt",
                    description=locale_str("What the picture should show."),
                    kind=Range[str, 1, MAX_PROMPT_CHARACTERS],
                    required=True,
                )
            ],
        ),
        make_command(
            name="remove",
            description=locale_str("Remove a rule of this server."),
            run=remove_rule,
            options=[replace(name, required=True)],
        ),
        make_command(
            name="automod",
            description=locale_str("Apply the AutoMod rules of this server to prompts, or not."),
            run=switch_automod,
            options=[_switch()],
        ),
    ]
    described = locale_str("What prompts may not say here.")
    return for_moderators(make_group(name="rules", description=described, commands=commands))


def _switch() -> Option:
    return Option(
        name="use",
        description=locale_str("Whether prompts must keep to them."),
        kind=str,
        choices=[(locale_str("On", words=True), ON), (locale_str("Off", words=True), OFF)],
        required=True,
    )


def _kinds() -> list[Option]:
    return [
        Option(
            name="action",
            description=locale_str("What the rule does with its words. Default: refuse them."),
            kind=str,
            choices=[
                (locale_str("Refuse these words", words=True), Action.REFUSE.value),
                (locale_str("Hold for review", words=True), Action.HOLD.value),
                (locale_str("Allow these phrases", words=True), Action.ALLOW.value),
            ],
        ),
        Option(
            name="scope",
            description=locale_str("Where the rule applies. Default: the whole server."),
            kind=str,
            choices=[
                (locale_str("The whole server", words=True), EVERYWHERE),
                (locale_str("This channel", words=True), HERE),
            ],
        ),
    ]


async def ask_rule(
    request: Request, name: str = "", action: str | None = None, scope: str | None = None
) -> None:
    """Open the form, filled with the rule of this name if the server has it."""
    moderated_server(request)
    texts = request.texts
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            known = _named(name, await rules_of(request)) if name else None
    except TimeoutError:
        raise StoreUnavailable("a rule could not be read in time for a form") from None
    chosen = action or (known.action if known else Action.REFUSE)
    channel_id = known.channel_id if known else None
    if scope is not None:
        channel_id = request.channel_id if scope == HERE else None
    long = discord.TextStyle.paragraph
    words = text_field(
        texts.gettext("Words"),
        "terms",
        "\n".join(known.terms)[:LIST_CHARACTERS] if known else "",
        style=long,
        max_length=LIST_CHARACTERS,
        description=texts.gettext("Words or phrases, one a line; hidden spellings are found too."),
    )
    also = text_field(
        texts.gettext("Only together with"),
        "also",
        "\n".join(known.also)[:LIST_CHARACTERS] if known else "",
        style=long,
        required=False,
        max_length=LIST_CHARACTERS,
        description=texts.gettext("One of these must be there too. Left empty, the words alone count."),
    )
    named = text_field(
        texts.gettext("Name"), "name", known.name if known else name[:MAX_NAME], max_length=MAX_NAME + 4
    )
    form = [named, words] if Action(chosen) is Action.ALLOW else [named, words, also]
    title = texts.gettext("Rule on prompts")
    await open_form(request, modal(title, f"{RULE}:{Action(chosen).value}:{channel_id or 0}", *form))


async def add_rule(
    request: Request, action: str, channel_id: str, *, name: str, terms: str, also: str = ""
) -> None:
    """Store the rule of the form."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    by = By(actor_id=request.person.id, guild_id=moderated_server(request))
    rule = PromptRule(
        name=rule_name(name),
        action=Action(action),
        terms=read_terms(terms, least=1),
        also=read_terms(also, least=0),
        channel_id=int(channel_id) or None,
    )
    others = [kept for kept in await rules_of(request) if key_of(kept.name) != key_of(rule.name)]
    check = partial(check_cost, [*others, rule])
    await services.judging.prepare(request.sender, check)
    await patiently(services.store.prompt_rules.put, rule, by)
    said = request.texts.gettext("Saved: the rule {name}.", name=shown(rule.name, MAX_NAME))
    await request.edit(content=said)


async def show_rules(request: Request, name: str = "") -> None:
    """Show one rule with its words, or the names of all, to the moderator alone."""
    moderated_server(request)
    await acknowledge(request, private=True)
    texts = request.texts
    rules = await rules_of(request)
    if not name:
        lines = [_summary(rule, texts) for rule in rules]
        lines = lines or [texts.gettext("There are no rules here yet.")]
        lines += await automod_lines(request)
        if slow := request.services.judging.slow_rules(request.guild_id or 0):
            names = texts.joined([shown(rule, MAX_NAME) for rule in slow])
            lines.append(
                texts.gettext(
                    "Prompts were refused because checking these rules took too long: {names}", names=names
                )
            )
    else:
        if (rule := _named(name, rules)) is None:
            raise unknown_rule(name, rules)
        lines = list(_described(rule, texts))
    await request.edit(view=page(page_lines(lines, texts)))


def _summary(rule: PromptRule, texts: Texts) -> str:
    count = texts.ngettext("{count} word or phrase", "{count} words and phrases", len(rule.terms))
    facts = [f"**{shown(rule.name, MAX_NAME)}**", _action(rule, texts), count]
    if rule.channel_id is not None:
        facts.append(f"<#{rule.channel_id}>")
    return texts.line(texts.joined(facts), mark="- ")


def _action(rule: PromptRule, texts: Texts) -> str:
    if rule.action is Action.HOLD:
        return texts.gettext("holds for review")
    return texts.gettext("refuses") if rule.action is Action.REFUSE else texts.gettext("allows")


def _described(rule: PromptRule, texts: Texts) -> Iterator[str]:
    yield f"### {shown(rule.name, MAX_NAME)}"
    yield _summary(rule, texts)
    yield texts.line(texts.isolated(shown(", ".join(rule.terms), SHOWN_TERMS)))
    if rule.also:
        yield texts.gettext("Only together with")
        yield texts.line(texts.isolated(shown(", ".join(rule.also), SHOWN_TERMS)))


async def try_rules(request: Request, prompt: str) -> None:
    """Say which rule would refuse a prompt in this channel, and for which words."""
    moderated_server(request)
    await acknowledge(request, private=True)
    found = await judgement_of(request, [prompt])
    if found.always:
        raise UserMistake("rule_always")
    other = found.automod
    if other is not None:
        said = request.texts.gettext(
            "The AutoMod rule {name} refuses this prompt for {words}.",
            name=shown(other.rule.name, MAX_NAME),
            words=shown(other.found, SHOWN_TERMS),
        )
    else:
        said = _verdict(found.verdict, request.texts)
    await request.edit(content=said)


def _verdict(verdict: Verdict | None, texts: Texts) -> str:
    if verdict is None:
        return texts.gettext("No rule here refuses or holds this prompt.")
    words = shown(", ".join(verdict.found), SHOWN_TERMS)
    fields = {"name": shown(verdict.rule.name, MAX_NAME), "words": words}
    if verdict.rule.action is Action.HOLD:
        return texts.gettext("The rule {name} holds this prompt for review, for {words}.", **fields)
    return texts.gettext("The rule {name} refuses this prompt for {words}.", **fields)


async def remove_rule(request: Request, name: str) -> None:
    """Remove a rule of the server."""
    by = By(actor_id=request.person.id, guild_id=moderated_server(request))
    await acknowledge(request, private=True)
    removed = await patiently(request.services.store.prompt_rules.remove, name, by)
    if removed is None:
        raise unknown_rule(name, await rules_of(request))
    said = request.texts.gettext("Removed: the rule {name}.", name=shown(removed.name, MAX_NAME))
    await request.edit(content=said)


async def switch_automod(request: Request, use: str) -> None:
    """Let the AutoMod rules of the server hold for prompts, or not."""
    by = By(actor_id=request.person.id, guild_id=moderated_server(request))
    await acknowledge(request, private=True)
    await patiently(request.services.store.automod.apply, use == ON, by)
    lines = await automod_lines(request)
    await request.edit(view=page(page_lines(lines, request.texts)))


def _named(name: str, rules: Sequence[PromptRule]) -> PromptRule | None:
    return next((rule for rule in rules if key_of(rule.name) == key_of(name)), None)


async def suggest_rules(request: Request, typed: str) -> list[Choice[str]]:
    """Suggest the rules of the server to moderators; none while the queue is unavailable."""
    try:
        moderated_server(request)
        found = [rule.name for rule in await rules_of(request) if key_of(typed) in key_of(rule.name)]
    except (StoreUnavailable, UserMistake):
        return []
    return [Choice(name=name, value=name) for name in found[:MAX_CHOICES]]


CONTROLS = (Form(template=rf"{RULE}:(?P<action>refuse|hold|allow):(?P<channel_id>[0-9]+)", act=add_rule),)


async def rules_of(request: Request) -> list[PromptRule]:
    """Return the rules of the server."""
    read = request.services.store.prompt_rules.of
    return await patiently(read, request.guild_id or 0)


def unknown_rule(name: str, rules: Sequence[PromptRule]) -> UserMistake:
    """Return the error for a name that no rule has."""
    if not rules:
        return UserMistake("rule_none", value=name)
    return UserMistake("rule_unknown", value=name, choices=", ".join(rule.name for rule in rules[:10]))


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
