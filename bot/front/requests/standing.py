"""The policies, quotas and rules that apply to an interaction, read once, and the checks against them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import discord

from bot.domain.channels import FLAGGED_KEYS, flagged_in
from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Origin, Recipe
from bot.domain.quotas import Charge, Quota
from bot.front.recipes.options import find_offer
from bot.front.services.judges import Judgement, RulesHere, judgement
from bot.front.services.patience import patiently
from bot.front.services.server_cache import Ruled, may_read
from bot.front.services.services import Interaction, Services, role_ids, sender_of, services_of
from bot.moderation.generosity import Privacy
from bot.moderation.limits import cost_of, kept_for_later, offers_within, quotas_of
from bot.moderation.limits import refusal as refusal_of
from bot.moderation.policy import Effective, Policy, Said, effective
from bot.moderation.rules import Judge
from bot.moderation.standing import Decision, decide, refusal
from bot.store.moderation.policies import PolicyScope
from bot.store.moderation.prompt_rules import Action
from bot.store.moderation.standing import Requester, Standing
from sdjax_engine.request import Offer

EARLY_SECONDS = 0.5  # of the 3 s that Discord allows for an acknowledgement
TIMES_FOR_LISTS = 4  # the time of one request, for all entries of a list
HELD = "held"  # the key in an interaction's extras


@dataclass(frozen=True, kw_only=True)
class Held:
    """The policies, quotas and rules that apply to a person in a channel.

    `said` are the stored policies that apply; `effective` combines them with the operator's, and sets
    `quotas`. `weight` is the person's weight in the fair order. `judge` has the server's rules on words;
    `automod` says whether Discord's AutoMod rules apply. `standing` says which further reads are needed.
    """

    decision: Decision
    effective: Effective
    said: tuple[Said, ...]
    quotas: tuple[Quota, ...]
    weight: float
    judge: Judge = field(default_factory=lambda: Judge(()))
    automod: bool = False
    standing: Standing = field(default_factory=Standing)

    @property
    def policy(self) -> Policy:
        """The policy that the rules make together."""
        return self.effective.policy


async def held_of(interaction: Interaction) -> Held:
    """Return what holds for the person of the interaction."""
    found: Held | None = interaction.extras.get(HELD)
    if found is None:
        found = interaction.extras[HELD] = await read_held(interaction, interaction.user)
    return found


async def held_early(interaction: Interaction) -> Held | None:
    """Return what holds for the person; None if the store does not answer in time for the acknowledgement."""
    try:
        async with asyncio.timeout(EARLY_SECONDS):
            return await held_of(interaction)
    except (StoreUnavailable, TimeoutError):
        return None


async def read_held(interaction: Interaction, person: discord.User | discord.Member) -> Held:
    """Return what holds for a person in the channel of the interaction."""
    services = services_of(interaction)
    requester = requester_of(interaction, person)
    look = services.servers.look
    standing, server = await patiently(look, services.store, requester)
    weight = services.weight_of(person)

    def decide_of(said: tuple[Said, ...]) -> Ruled:
        found = effective(all_said(services, said, weight=weight))
        quotas = quotas_of(found, services.bounds, guild_id=interaction.guild_id)
        return Ruled(said=said, effective=found, quotas=quotas)

    # The operator's configuration can change while the process runs.
    operator = services.policy, services.bounds, *services.weights.items()
    ruled = server.ruled(requester, (weight, *operator), decide_of)
    return Held(
        standing=standing,
        decision=decide(standing.restrictions) if standing.restrictions else Decision(),
        effective=ruled.effective,
        said=ruled.said,
        quotas=ruled.quotas,
        weight=ruled.effective.policy.weight or weight,
        judge=server.judge,
        automod=server.automod,
    )


def all_said(services: Services, said: Sequence[Said], *, weight: float) -> list[Said]:
    """Return stored policies with those of the operator; `weight` is the one that the operator gives."""
    policy, bounds = services.policy, services.bounds
    if policy.weight is None:
        policy = replace(policy, weight=weight)
    if bounds.weight is None:
        bounds = replace(bounds, weight=max(1.0, weight, *services.weights.values()))
    own = Said(scope=PolicyScope.OPERATOR, policy=policy), Said(scope=PolicyScope.BOUND, policy=bounds)
    return [*said, *own]


def shown_bounds(services: Services) -> Policy:
    """Return the operator's bounds as people are shown them: with the bounds that hold without being set.

    For flagged pictures that is the operator's policy, because workers show no picture more openly.
    """
    policy, bounds = services.policy, services.bounds
    most = max(1.0, 1.0, *services.weights.values())
    return replace(
        bounds,
        weight=most if bounds.weight is None else bounds.weight,
        **{key: flagged_in(kind, bounds) or flagged_in(kind, policy) for kind, key in FLAGGED_KEYS.items()},
    )


def requester_of(interaction: Interaction, person: discord.User | discord.Member) -> Requester:
    """Return a person with their roles, in the channel of the interaction and, for a thread, its channel."""
    channels = (interaction.channel_id, parent_channel_of(interaction))
    return Requester(
        user_id=person.id,
        guild_id=interaction.guild_id,
        channel_ids=tuple(channel_id for channel_id in channels if channel_id is not None),
        role_ids=role_ids(person),
    )


def parent_channel_of(interaction: Interaction) -> int | None:
    """Return the channel of the interaction's thread; None elsewhere."""
    return getattr(interaction.channel, "parent_id", None) or None


async def check_blocks(interaction: Interaction) -> None:
    """Raise UserMistake where the person or the server is blocked, or where the person may not paint here."""
    await check_blocked(interaction)
    if (await held_of(interaction)).policy.paint is False:
        raise UserMistake("policy_paint")


async def check_blocked(interaction: Interaction) -> None:
    """Raise UserMistake where the person or the server is blocked."""
    if (block := (await held_of(interaction)).decision.refused) is not None:
        raise refusal(block)


async def wants_private(interaction: Interaction) -> bool:
    """Return whether a policy wants every answer for the person alone, if that is known in time."""
    if interaction.guild_id is None:
        return False
    held = await held_early(interaction)
    return held is not None and held.policy.private is Privacy.ALWAYS


async def check_privacy(interaction: Interaction, *, asked: bool, private: bool) -> None:
    """Raise UserMistake where a policy forbids the private answer that was asked for, or a public answer.

    A direct message is private anyway.
    """
    privacy = (await held_of(interaction)).policy.private if interaction.guild_id is not None else None
    if privacy is Privacy.NEVER and asked:
        raise UserMistake("policy_private_never")
    if privacy is Privacy.ALWAYS and not private:
        raise UserMistake("policy_private_always")


async def check_start_pictures(interaction: Interaction) -> None:
    """Raise UserMistake where a policy lets no picture start from another."""
    if (await held_of(interaction)).policy.start_pictures is False:
        raise UserMistake("policy_start_pictures")


async def check_recipe(interaction: Interaction, recipe: Recipe) -> None:
    """Raise UserMistake where a policy refuses the pictures of a recipe."""
    if (error := refusal_of((await held_of(interaction)).policy, recipe)) is not None:
        raise error


async def check_words(interaction: Interaction, recipe: Recipe) -> Hold | None:
    """Return why the pictures of these words are held for review, None where no rule holds them.

    Raises UserMistake `rule_always` for the rule that no server can switch off, `rule_refused` for a rule of
    /rules, `rule_automod` for one of Discord's AutoMod rules, `judging_rule` or `judging_long` where judging
    takes too long.

    The recipe's prompts must have the texts of styles and the words drawn from lists already.
    """
    return await check_texts(interaction, words_of(recipe))


async def check_texts(
    interaction: Interaction, texts: Sequence[str], *, together: bool = True
) -> Hold | None:
    """Check texts for later prompts, as `check_words` does; `together` if one prompt will have them all."""
    found = await judgement_of(interaction, texts, together=together)
    verdict = found.verdict
    if found.always:
        raise UserMistake("rule_always")
    if verdict is not None and verdict.rule.action is not Action.HOLD:
        raise UserMistake("rule_refused", rule=verdict.rule.name)
    if found.automod is not None:
        raise UserMistake("rule_automod", rule=found.automod.rule.name)
    return None if verdict is None else Hold(cause=Cause.RULE, rule=verdict.rule.name)


async def judgement_of(interaction: Interaction, texts: Sequence[str], *, together: bool = True) -> Judgement:
    """Return what the rules of this place say about texts; raises UserMistake where that takes too long.

    Texts that are not for one prompt are the entries of a list: they take a call each, so longer together.
    """
    rules = await rules_here(interaction)
    judge = partial(judgement, texts=texts, rules=rules, together=together)
    times = 1 if together else TIMES_FOR_LISTS
    return await services_of(interaction).judging.run(sender_of(interaction), judge, times=times)


async def rules_here(interaction: Interaction) -> RulesHere:
    """Return the rules that apply to the person of the interaction, ready to be searched for."""
    services = services_of(interaction)
    if interaction.guild_id is None:
        return RulesHere(always=services.hard_rule)
    held = await held_of(interaction)
    if not held.judge.is_ready:
        await services.judging.prepare(sender_of(interaction), held.judge.prepare)
    requester = requester_of(interaction, interaction.user)
    category_id = getattr(interaction.channel, "category_id", None)
    places = requester.channel_ids if category_id is None else (*requester.channel_ids, category_id)
    applied = held.automod and may_read(interaction)
    return RulesHere(
        always=services.hard_rule,
        judge=held.judge,
        automod=await services.automod.rules_of(interaction.client, interaction.guild_id) if applied else (),
        roles=tuple(requester.role_ids),
        channel_ids=requester.channel_ids,
        places=places,
    )


def words_of(recipe: Recipe) -> list[str]:
    """Return every text of a recipe that people choose."""
    return [recipe.prompt, recipe.negative_prompt, *(lora.name for lora in recipe.loras)]


async def review_mode(interaction: Interaction) -> Hold | None:
    """Return a hold if a policy here wants a review of every result, else None."""
    if interaction.guild_id is None or not interaction.is_guild_integration():
        return None
    return Hold(cause=Cause.MODE) if (await held_of(interaction)).policy.review else None


async def charge_of(interaction: Interaction, recipe: Recipe) -> Charge:
    """Return the pictures and the cost of a request, and the quotas that it counts against."""
    return Charge(
        pictures=recipe.variants,
        cost=cost_of(recipe, find_offer(recipe.model, services_of(interaction).offers)),
        quotas=(await held_of(interaction)).quotas,
    )


def under_policy(origin: Origin, policy: Policy) -> Origin:
    """Return an origin with what a policy says for later: how pictures are shown, and in which language.

    A private answer is in the person's own language.
    """
    kept = kept_for_later(policy, origin.channel_kind)
    language = None if origin.private or origin.guild_id is None else policy.language
    return replace(origin, policy=kept, locale=language or origin.locale)


async def locale_for_all(interaction: Interaction) -> str:
    """Return the language that a policy gives to messages for everyone here, or else the person's."""
    language = (await held_of(interaction)).policy.language
    return language or services_of(interaction).locale(interaction)


def offers_here(interaction: Interaction) -> tuple[Offer, ...]:
    """Return the offers that the policy allows, or all of them before the policy has been read."""
    held: Held | None = interaction.extras.get(HELD)
    offers = services_of(interaction).offers
    return offers if held is None else offers_within(offers, held.policy)
