"""`/policy`: who may do what in a server, in a channel or with a role, and why a member may do it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import discord
from discord.app_commands import locale_str

from bot.delivery.quota_lines import quota_line
from bot.domain.channels import FLAGGED_KEYS, ChannelKind
from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.quotas import Left, Measure
from bot.front.answers.answers import FORM_READ_SECONDS, acknowledge, open_form, page, page_lines
from bot.front.answers.controls import Form
from bot.front.answers.modals import choice_field, modal, text_field
from bot.front.answers.permissions import acting, managed_server, moderated_server
from bot.front.gateway.command_tree import Command, Group, Option, for_moderators, make_command, make_group
from bot.front.gateway.translator import command_name
from bot.front.moderators.policy_values import (
    FLAGGED,
    GROUPS,
    MORE,
    NAMES,
    PICTURES,
    QUOTAS,
    WHO,
    choices_of,
    is_chosen,
    key_name,
    read_value,
    typed_text,
    value_text,
)
from bot.front.moderators.review import shows_reviews
from bot.front.services.request import Request, patiently
from bot.front.services.standing import Standing
from bot.moderation.generosity import ORDERS, Treatment
from bot.moderation.policy import KEYS, Policy, Rule, Said, policy_from, value_of, values_of
from bot.moderation.standing import refusal
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.texts.catalogue import Texts

CHANNEL, SERVER = "channel", "server"
POLICY = "policy"
MOST_TYPED = 4000  # the most that Discord takes in one field


def policy_group() -> Group:
    """The command and its subcommands; Discord shows it to moderators alone."""
    what = Option(
        name="what",
        description=locale_str("Which part of the policy."),
        kind=str,
        required=True,
        choices=[
            (locale_str("Who may paint, and how it is shown", words=True), WHO),
            (locale_str("Models, sizes, steps, pictures at once, LoRAs", words=True), PICTURES),
            (locale_str("Quotas and pauses between requests", words=True), QUOTAS),
            (locale_str("Weight, language, unsafe pictures", words=True), MORE),
        ],
    )
    member = Option(name="member", description=locale_str("Which member."), kind=discord.User, required=True)
    described = locale_str("For moderators: who may paint what, where and how much.")
    return for_moderators(
        make_group(
            name="policy",
            description=described,
            commands=[
                _command(
                    "set",
                    locale_str("Change a policy in a form; needs the permission Manage Server."),
                    set_policy,
                    [what, *_scopes()],
                ),
                _command("show", locale_str("Show the policies of this server."), show_policies),
                _command(
                    "why", locale_str("Explain field by field what a member may do here."), explain, [member]
                ),
                _command("reset", locale_str("Remove a policy."), reset_policy, _scopes()),
            ],
        )
    )


def _command(name: str, described: locale_str, run: Any, options: Sequence[Option] = ()) -> Command:
    return make_command(name=name, description=described, run=run, options=options)


def _scopes() -> list[Option]:
    return [
        Option(
            name="where",
            description=locale_str("The whole server or this channel. Default: the whole server."),
            kind=str,
            choices=[
                (locale_str("The whole server", words=True), SERVER),
                (locale_str("This channel", words=True), CHANNEL),
            ],
        ),
        Option(
            name="role",
            description=locale_str("For members with this role, in the whole server."),
            kind=discord.Role,
        ),
    ]


def scope_of(request: Request, where: str | None, role: discord.Role | None) -> tuple[PolicyScope, int]:
    """Return whose policy the options name; the role @everyone stands for the server.

    Raises UserMistake `policy_two` if both a place and a role are given.
    """
    guild_id = request.guild_id or 0
    if role is not None and where is not None:
        raise UserMistake("policy_two")
    if role is not None and role.id != guild_id:
        return PolicyScope.ROLE, role.id
    if where == CHANNEL and request.channel_id is not None:
        return PolicyScope.CHANNEL, request.channel_id
    return PolicyScope.SERVER, guild_id


async def set_policy(
    request: Request, what: str, where: str | None = None, role: discord.Role | None = None
) -> None:
    """Open the form of one part of a policy, with the present values."""
    guild_id = managed_server(request)
    scope, owner_id = scope_of(request, where, role)
    try:
        async with asyncio.timeout(FORM_READ_SECONDS):
            rows = await request.services.store.policies.all_of(guild_id)
    except TimeoutError:
        raise StoreUnavailable("a policy could not be read in time for a form") from None
    present = next((row.values for row in rows if (row.scope, row.id) == (scope, owner_id)), {})
    texts = request.texts
    fields = [_field(key, policy_from(present), texts) for key in GROUPS[what]]
    title = {
        PolicyScope.SERVER: texts.gettext("Policy of the server"),
        PolicyScope.CHANNEL: texts.gettext("Policy of this channel"),
        PolicyScope.ROLE: texts.gettext("Policy of a role"),
    }[scope]
    await open_form(request, modal(title, f"{POLICY}:{what}:{scope.value}:{owner_id}", *fields))


def _field(key: str, policy: Policy, texts: Texts) -> discord.ui.Label[Any]:
    value = getattr(policy, key)
    if is_chosen(key):
        choices = choices_of(key, texts)
        chosen = next((number for number, choice in enumerate(choices) if choice[1] == value), 0)
        levels = texts.gettext("1 is mild, 2 is explicit, 3 is extreme.") if key in FLAGGED else None
        names = [name for name, _ in choices]
        return choice_field(key_name(key, texts), key, names, chosen=chosen, description=levels)
    if key in NAMES:
        hint = texts.gettext("Names separated by commas. “*”: all. Empty: not set here.")
    elif key == "weight":
        hint = texts.gettext("1 is the usual share, 2 twice as much. Empty: not set here.")
    else:
        hint = texts.gettext("“-”: no limit. Empty: not set here.")
    return text_field(
        key_name(key, texts),
        key,
        typed_text(key, value)[:MOST_TYPED],
        required=False,
        max_length=MOST_TYPED,
        description=hint,
    )


async def change_policy(request: Request, what: str, scope: str, owner_id: str, **typed: str) -> None:
    """Store what the form says."""
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    texts = request.texts
    guild_id = managed_server(request)
    whose = PolicyScope(scope)
    owner = guild_id if whose is PolicyScope.SERVER else int(owner_id)
    values = _read(typed, GROUPS[what], request)
    put = services.store.policies.put
    row = await patiently(put, whose, owner, values, acting(request))
    lines = [texts.gettext("Saved."), *policy_lines([row], texts, bounds=services.operator.shown_bounds())]
    if what == QUOTAS and any(values.values()):
        lines.append(texts.gettext("What members asked for in the past hour or day counts already."))
    if holds_pictures(values) and not await shows_reviews(request):
        lines.append(
            texts.gettext(
                "No channel shows what waits for moderators: choose one with **{channel}**, or decide in "
                "**{show}**.",
                channel=command_name(request.interaction.locale, "review", "channel"),
                show=command_name(request.interaction.locale, "review", "show"),
            )
        )
    await request.edit(view=page(page_lines(lines, texts)))


def holds_pictures(values: Mapping[str, Any]) -> bool:
    """Whether a policy with these values may hold pictures until moderators decide."""
    return bool(values.get("review")) or any("hold" in (values.get(key) or ()) for key in FLAGGED)


def _read(typed: Mapping[str, str], keys: Sequence[str], request: Request) -> dict[str, Any]:
    """Return the values of a form as a policy's row has them; raises UserMistake."""
    read = {key: read_value(key, typed.get(key, ""), request.services.offers, request.texts) for key in keys}
    said = values_of(Policy(**read))
    return {key: said.get(key) for key in keys}


async def show_policies(request: Request) -> None:
    """Show every policy of the server, to the moderator alone."""
    guild_id = moderated_server(request, channel=True)
    await acknowledge(request, private=True)
    texts = request.texts
    rows = await patiently(request.services.store.policies.all_of, guild_id)
    lines = policy_lines(rows, texts, bounds=request.services.operator.shown_bounds()) or [
        texts.gettext("There are no policies here yet.")
    ]
    await request.edit(view=page(page_lines(lines, texts)))


async def explain(request: Request, member: discord.User) -> None:
    """Explain to the moderator alone, key by key and rule by rule, what a member may do in this channel."""
    moderated_server(request, channel=True)
    await acknowledge(request, private=True)
    texts = request.texts
    standing = await request.standing_of(member)
    left = await request.services.store.charges.left(member.id, standing.quotas)
    lines = why_lines(standing, left, texts)
    heading = texts.gettext("What {member} may do here, and why", member=f"<@{member.id}>")
    await request.edit(view=page(page_lines([f"### {heading}", *lines], texts)))


async def reset_policy(request: Request, where: str | None = None, role: discord.Role | None = None) -> None:
    """Remove a policy."""
    managed_server(request)
    scope, owner_id = scope_of(request, where, role)
    await acknowledge(request, private=True)
    remove = request.services.store.policies.remove
    gone = await patiently(remove, scope, owner_id, acting(request))
    if gone is None:
        raise UserMistake(
            "policy_nothing", command=command_name(request.interaction.locale, "policy", "show")
        )
    await _say_removed(request, gone)


async def _say_removed(request: Request, gone: PolicyRow) -> None:
    texts = request.texts
    lines = [texts.gettext("Removed:"), *policy_lines([gone], texts, bounds=Policy())]
    await request.edit(view=page(page_lines(lines, texts)))


CONTROLS = (
    Form(
        template=rf"{POLICY}:(?P<what>{'|'.join(GROUPS)}):(?P<scope>server|channel|role):(?P<owner_id>[0-9]{{1,20}})",
        act=change_policy,
    ),
)


def policy_lines(rows: Sequence[PolicyRow], texts: Texts, *, bounds: Policy) -> list[str]:
    """Return each stored policy: whose it is, and a line for each key.

    Under a value that goes beyond the operator's bounds, a line says what counts instead.
    """
    lines = []
    for row in rows:
        lines.append(f"### {whose(row.scope, row.id, texts)}")
        for key, value in _said(policy_from(row.values)):
            lines.append(key_line(key, value, texts))
            lines += [texts.line(each, mark="  - ") for each in _bound(key, value, bounds, texts)]
    return lines


def _bound(key: str, value: object, bounds: Policy, texts: Texts) -> Iterator[str]:
    """Yield a line about the operator's bound where it limits a value."""
    bound = getattr(bounds, key)
    if bound is not None:
        if (left := ORDERS[key].severe(value, bound)) != value:
            counts = texts.isolated(value_text(key, left, texts))
            yield texts.gettext("The bot's owner sets a bound: {value} counts.", value=counts)
    elif key in FLAGGED and value != (Treatment.WITHHOLD,) * 3:
        yield texts.gettext("No picture is shown more openly than the bot's owner allows for its model.")


def whose(scope: PolicyScope, owner_id: int, texts: Texts) -> str:
    """Return whose policy it is; roles and channels as mentions."""
    if scope is PolicyScope.ROLE:
        return f"<@&{owner_id}>"
    if scope is PolicyScope.CHANNEL:
        return f"<#{owner_id}>"
    names = {
        PolicyScope.SERVER: texts.gettext("The whole server"),
        PolicyScope.OPERATOR: texts.gettext("the bot's owner"),
    }
    return names.get(scope) or texts.gettext("The most that the bot's owner allows")


def why_lines(standing: Standing, left: Sequence[Left], texts: Texts) -> list[str]:
    """Return a line for each key that is set, with its rules, and the policies that do not count for it.

    A block comes first, the quotas last; `left` is what is left of them.
    """
    lines = []
    if (block := standing.block) is not None:
        lines.append(texts.mistake(refusal(block)))
    for key, rules in standing.effective.rules.items():
        if _says_no_more(key, standing):
            continue
        made = texts.joined(_made_by(rule, texts) for rule in rules)
        lines.append(f"{key_line(key, getattr(standing.policy, key), texts)} — {made}")
        lines += [
            texts.line(
                texts.gettext("{policy} says {value}, which does not count here.", **fields), mark="  - "
            )
            for fields in _beaten(key, standing.said, rules, texts)
        ]
    lines += [texts.line(line, mark="- ") for line in left_lines_of(left, texts)]
    return lines


def left_lines_of(left: Sequence[Left], texts: Texts) -> list[str]:
    """Return a line for each quota of pictures or cost with what is left of it; cool-downs have none."""
    return [quota_line(each.quota.key, each.left, each.quota.limit, texts) for each in counted(left)]


def counted(left: Sequence[Left]) -> list[Left]:
    """Return what is left of quotas of pictures and cost."""
    return [each for each in left if each.quota.measure is not Measure.REQUESTS]


def key_line(key: str, value: object, texts: Texts) -> str:
    """Return a line with a key of a policy and its value."""
    name, said = key_name(key, texts), value_text(key, value, texts)
    return texts.line(f"{name}: {texts.isolated(said)}", mark="- ")


def _says_no_more(key: str, standing: Standing) -> bool:
    """Whether a key is that of spoiler channels, and every policy has them treated as plain channels."""
    plain, spoiler = (FLAGGED_KEYS[kind] for kind in (ChannelKind.PLAIN, ChannelKind.SPOILER))
    same = [replace(rule, key=plain) for rule in standing.effective.rules.get(spoiler, ())]
    says = any(getattr(each.policy, spoiler) is not None for each in standing.said)
    return key == spoiler and not says and same == list(standing.effective.rules.get(plain, ()))


def _made_by(rule: Rule, texts: Texts) -> str:
    return whose(rule.scope, rule.id, texts)


def _beaten(key: str, said: Sequence[Said], rules: Sequence[Rule], texts: Texts) -> Iterator[dict[str, str]]:
    """Yield the policies that set a key and are not among its rules."""
    counts = {(rule.scope, rule.id) for rule in rules}
    for each in said:
        value = value_of(each.policy, key)
        if value is not None and (each.scope, each.id) not in counts:
            yield {"policy": whose(each.scope, each.id, texts), "value": value_text(key, value, texts)}


def _said(policy: Policy) -> Iterator[tuple[str, object]]:
    found = ((key, getattr(policy, key)) for key in KEYS)
    return ((key, value) for key, value in found if value is not None)
