"""Trials: what a rule on prompts would have done with requests of a server; pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.moderation.forms import forms_of
from bot.moderation.rules import Judge
from bot.process.threads import Deadline, TooLong
from bot.store.library.named import key_of
from bot.store.moderation.prompt_rules import Action, PromptRule
from bot.store.operations.gallery import Asked

EXAMPLES = 8


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a rule would have done: how many of `count` prompts it finds, and some that others may read.

    A trial that took too long `is_cut`: only the newest `count` prompts were tried.
    """

    rule: PromptRule
    found: int
    count: int
    examples: tuple[tuple[str, tuple[str, ...]], ...]
    is_cut: bool


def tried(rule: PromptRule, rules: Sequence[PromptRule], asked: Sequence[Asked], deadline: Deadline) -> Trial:
    """Try a rule on words, the newest first, until the deadline; a rule that allows is tried as a rule.

    The phrases that other rules allow are left out, as they are when prompts are judged.
    """
    others = [each for each in rules if key_of(each.name) != key_of(rule.name)]
    allowing = [each for each in others if each.action is Action.ALLOW and rule.action is not Action.ALLOW]
    searched = replace(rule, action=Action.HOLD) if rule.action is Action.ALLOW else rule
    judge = Judge([*allowing, searched])
    judge.prepare()
    found, examples = 0, list[tuple[str, tuple[str, ...]]]()
    for count, each in enumerate(asked):
        try:
            deadline("")
        except TooLong:
            return Trial(rule=rule, found=found, count=count, examples=tuple(examples), is_cut=True)
        texts = forms_of([each.prompt, each.negative_prompt])
        verdict = judge.verdict(texts, channel_ids=each.channel_ids)
        if verdict is not None:
            found += 1
            if len(examples) < EXAMPLES and not each.private:
                examples.append((each.prompt, verdict.found))
    return Trial(rule=rule, found=found, count=len(asked), examples=tuple(examples), is_cut=False)
