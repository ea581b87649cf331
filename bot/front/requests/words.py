"""People's texts, judged by every rule: the one that always holds, a server's own, and Discord's AutoMod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from bot.domain.errors import UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Recipe
from bot.front.services.request import Request
from bot.moderation import BothOf
from bot.moderation.automod import AutomodRule, AutomodVerdict, judged
from bot.moderation.forms import forms_of
from bot.moderation.readings import LONGEST_SENT, Readings, read
from bot.moderation.rules import Judge, Verdict
from bot.process.threads import Check, unlimited
from bot.store.moderation.prompt_rules import Action

RULES = "/rules"  # all of a server's own rules, which are searched for together
TIMES_FOR_LISTS = 4  # the time of one request, for all entries of a list


@dataclass(frozen=True, kw_only=True)
class RulesHere:
    """The rules that apply to a person in a channel.

    `roles` are the person's; `channel_ids` the channel and its parent, `places` these and their category.
    """

    always: BothOf
    judge: Judge = field(default_factory=lambda: Judge(()))
    automod: tuple[AutomodRule, ...] = ()
    roles: tuple[int, ...] = ()
    channel_ids: tuple[int, ...] = ()
    places: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the rules say: whether the rule that always holds refuses, and the verdicts of the others.

    AutoMod's rules are asked only where no other rule refuses.
    """

    always: bool = False
    verdict: Verdict | None = None
    automod: AutomodVerdict | None = None


def judgement(check: Check, texts: Sequence[str], rules: RulesHere, *, together: bool = True) -> Judgement:
    """Return the judgement of texts; `together` if one prompt will have them all. Raises as `check`."""
    texts = forms_of(texts, check)
    known = readings_of(texts, together=together, check=check)
    for reading in known.values():
        check("")
        if rules.always.matches(reading):
            return Judgement(always=True)
    verdict = _verdict(check, texts, rules, known)
    if verdict is not None and verdict.rule.action is not Action.HOLD:
        return Judgement(verdict=verdict)
    found = judged(texts, rules.automod, roles=rules.roles, places=rules.places, check=check)
    return Judgement(verdict=verdict, automod=found)


def _verdict(
    check: Check, texts: Sequence[str], rules: RulesHere, known: dict[str, Readings]
) -> Verdict | None:
    """Return the first verdict that refuses, else the first one that holds."""
    held = None
    for text in texts if rules.judge.rules else ():
        check(RULES)
        found = rules.judge.verdict([text], channel_ids=rules.channel_ids, known=known)
        if found is not None and found.rule.action is not Action.HOLD:
            return found
        held = held or found
    return held


def readings_of(
    texts: Sequence[str], *, together: bool = True, check: Check = unlimited
) -> dict[str, Readings]:
    """Return the readings of the texts: of all as one text if `together`, else of each alone.

    A long text is not read completely in every way, so the texts of a long joined text are also read alone.
    """
    written = [text for text in texts if text.strip()]
    if together:
        joined = "\n".join(written)
        written = [joined] if len(joined) <= LONGEST_SENT else [joined, *written]
    known = {}
    for text in written:
        check("")
        known[text] = read(text)
    return known


async def check_words(request: Request, recipe: Recipe) -> Hold | None:
    """Return why the pictures of these words are held for review, None where no rule holds them.

    Raises UserMistake `rule_always` for the rule that no server can switch off, `rule_refused` for a rule of
    /rules, `rule_automod` for one of Discord's AutoMod rules, `judging_rule` or `judging_long` where judging
    takes too long.

    The recipe's prompts must have the texts of styles and the words drawn from lists already.
    """
    return await check_texts(request, words_of(recipe))


async def check_texts(request: Request, texts: Sequence[str], *, together: bool = True) -> Hold | None:
    """Check texts for later prompts, as `check_words` does; `together` if one prompt will have them all."""
    found = await judgement_of(request, texts, together=together)
    verdict = found.verdict
    if found.always:
        raise UserMistake("rule_always")
    if verdict is not None and verdict.rule.action is not Action.HOLD:
        raise UserMistake("rule_refused", rule=verdict.rule.name)
    if found.automod is not None:
        raise UserMistake("rule_automod", rule=found.automod.rule.name)
    return None if verdict is None else Hold(cause=Cause.RULE, rule=verdict.rule.name)


async def judgement_of(request: Request, texts: Sequence[str], *, together: bool = True) -> Judgement:
    """Return what the rules of this place say about texts; raises UserMistake where that takes too long.

    Texts that are not for one prompt are the entries of a list: they take a call each, so longer together.
    """
    rules = await rules_here(request)
    judge = partial(judgement, texts=texts, rules=rules, together=together)
    times = 1 if together else TIMES_FOR_LISTS
    return await request.services.judging.run(request.sender, judge, times=times)


async def rules_here(request: Request) -> RulesHere:
    """Return the rules that apply to the person who asks, ready to be searched for."""
    services = request.services
    if request.guild_id is None:
        return RulesHere(always=services.hard_rule)
    standing = await request.standing()
    if not standing.judge.is_ready:
        await services.judging.prepare(request.sender, standing.judge.prepare)
    requester = standing.requester
    category_id = getattr(request.channel, "category_id", None)
    places = requester.channel_ids if category_id is None else (*requester.channel_ids, category_id)
    applied = standing.automod and request.may_read_automod
    return RulesHere(
        always=services.hard_rule,
        judge=standing.judge,
        automod=await services.automod.rules_of(request.interaction.client, request.guild_id)
        if applied
        else (),
        roles=tuple(requester.role_ids),
        channel_ids=requester.channel_ids,
        places=places,
    )


def words_of(recipe: Recipe) -> list[str]:
    """Return every text of a recipe that people choose."""
    return [recipe.prompt, recipe.negative_prompt, *(lora.name for lora in recipe.loras)]
