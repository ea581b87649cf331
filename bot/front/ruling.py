"""Rules on prompts, where pictures are asked for: which words they see, and the sentence of a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bot.errors import UserMistake
from bot.front.allowed import held_of, place_of
from bot.front.options import clean
from bot.front.services import Interaction, services_of
from bot.holds import Cause, Hold
from bot.jobs import Recipe
from bot.moderation.always import breaks_hard_rule
from bot.moderation.automod import AutomodVerdict
from bot.moderation.bounds import LONGEST_SENT
from bot.moderation.readings import Readings, read
from bot.moderation.rules import Verdict
from bot.retries import while_unavailable
from bot.store.prompt_rules import Action, PromptRule
from bot.texts import tidy

PATIENCE_SECONDS = 2.0
MAX_NAME = 60
MAX_TERMS = 500
MAX_TERM = 100  # characters


async def check_words(interaction: Interaction, recipe: Recipe) -> Hold | None:
    """Return why the pictures of these words are held for review, None where no rule holds them.

    Raises UserMistake `rule_always`; `rule_refused` for a rule of /rules, `rule_automod` for one of Discord's
    AutoMod.

    Styles and the words drawn from lists are in the recipe's prompts by now.
    """
    return await check_texts(interaction, words_of(recipe))


async def check_texts(interaction: Interaction, texts: Sequence[str]) -> Hold | None:
    """Do as `check_words`, for texts that go into prompts later."""
    known = readings_of(texts)
    if any(map(breaks_hard_rule, known.values())):
        raise UserMistake("rule_always")
    if interaction.guild_id is None:
        return None
    verdict = await verdict_of(interaction, texts, known=known)
    if verdict is not None and verdict.rule.action is not Action.HOLD:
        raise UserMistake("rule_refused", rule=verdict.rule.name)
    found = await automod_verdict(interaction, texts)
    if found is not None:
        raise UserMistake("rule_automod", rule=found.rule.name)
    return None if verdict is None else Hold(cause=Cause.RULE, rule=verdict.rule.name)


def readings_of(texts: Sequence[str]) -> dict[str, Readings]:
    """Return the readings of the texts together; where these are too long, also of each text alone.

    Of a text that is too long, not every part is read in every way.
    """
    written = [text for text in texts if text.strip()]
    together = "\n".join(written)
    alone = [] if len(together) <= LONGEST_SENT else written
    return {text: read(text) for text in (together, *alone)}


async def verdict_of(
    interaction: Interaction, texts: Sequence[str], *, known: Mapping[str, Readings] = MappingProxyType({})
) -> Verdict | None:
    """Return the rule that refuses or holds one of the texts; None where none does.

    `known` has the readings of texts that were read before.
    """
    judge = (await held_of(interaction)).judge
    if not judge.rules:
        return None
    if not judge.is_ready:
        await services_of(interaction).judging.run(judge.prepare)
    channel_ids = place_of(interaction, interaction.user).channel_ids
    return judge.verdict(texts, channel_ids=channel_ids, known=known)


async def automod_verdict(interaction: Interaction, texts: Sequence[str]) -> AutomodVerdict | None:
    """Return the AutoMod rule that refuses one of the texts; None where none does or none is applied."""
    applied = (await held_of(interaction)).automod
    return await services_of(interaction).automod.verdict(interaction, texts) if applied else None


async def rules_of(interaction: Interaction) -> list[PromptRule]:
    """Return the rules of the server."""
    read = services_of(interaction).store.prompt_rules.of
    return await while_unavailable(PATIENCE_SECONDS, read, interaction.guild_id or 0)


def words_of(recipe: Recipe) -> list[str]:
    """Return every text of a recipe that people choose."""
    return [recipe.prompt, recipe.negative_prompt, *(lora.name for lora in recipe.loras)]


def rule_name(text: str) -> str:
    """Return a rule's name on one line; raises UserMistake `rule_name`."""
    name = " ".join(text.split())
    if not name or len(name) > MAX_NAME or name != tidy(clean(name)):
        raise UserMistake("rule_name", limit=MAX_NAME)
    return name


def read_terms(text: str, *, least: int) -> tuple[str, ...]:
    """Return words and phrases, one a line; raises UserMistake `rule_terms`."""
    terms = tuple(dict.fromkeys(filter(None, (" ".join(clean(line).split()) for line in text.splitlines()))))
    if not least <= len(terms) <= MAX_TERMS or any(len(term) > MAX_TERM for term in terms):
        raise UserMistake("rule_terms", limit=MAX_TERMS, characters=MAX_TERM)
    return terms


def unknown_rule(name: str, rules: Sequence[PromptRule]) -> UserMistake:
    """Return the error for a name that no rule has."""
    if not rules:
        return UserMistake("rule_none", value=name)
    return UserMistake("rule_unknown", value=name, choices=", ".join(rule.name for rule in rules[:10]))
