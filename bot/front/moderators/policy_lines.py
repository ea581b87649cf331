"""Policies, and the rules behind a decision, as lines of a page; no Discord here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bot.delivery.quota_lines import quota_line
from bot.domain.channels import FLAGGED_KEYS, ChannelKind
from bot.domain.quotas import Left, Measure
from bot.front.moderators.policy_values import FLAGGED, key_name, value_text
from bot.front.services.standing import Standing
from bot.moderation.generosity import ORDERS, Treatment
from bot.moderation.policy import KEYS, Policy, Rule, Said, policy_from, value_of
from bot.moderation.standing import refusal
from bot.store.moderation.policies import PolicyRow, PolicyScope
from bot.texts.catalogue import Texts


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


def why_lines(held: Standing, left: Sequence[Left], texts: Texts) -> list[str]:
    """Return a line for each key that is set, with its rules, and the policies that do not count for it.

    A block comes first, the quotas last; `left` is what is left of them.
    """
    lines = []
    if (block := held.block) is not None:
        lines.append(texts.mistake(refusal(block)))
    for key, rules in held.effective.rules.items():
        if _says_no_more(key, held):
            continue
        made = texts.joined(_made_by(rule, texts) for rule in rules)
        lines.append(f"{key_line(key, getattr(held.policy, key), texts)} — {made}")
        lines += [
            texts.line(
                texts.gettext("{policy} says {value}, which does not count here.", **fields), mark="  - "
            )
            for fields in _beaten(key, held.said, rules, texts)
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


def _says_no_more(key: str, held: Standing) -> bool:
    """Whether a key is that of spoiler channels, and every policy has them treated as plain channels."""
    plain, spoiler = (FLAGGED_KEYS[kind] for kind in (ChannelKind.PLAIN, ChannelKind.SPOILER))
    same = [replace(rule, key=plain) for rule in held.effective.rules.get(spoiler, ())]
    says = any(getattr(each.policy, spoiler) is not None for each in held.said)
    return key == spoiler and not says and same == list(held.effective.rules.get(plain, ()))


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
