"""Judging people's texts by every rule, and the threads in which texts are judged and expanded.

What one text costs depends on the rules, patterns, styles and lists of a server, which its moderators choose.
So a text has a limit of processor time, and a server a share of the threads.

The rules are the one that always holds, a server's own, and those of Discord's AutoMod.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from bot.domain.errors import UserMistake
from bot.moderation import BothOf
from bot.moderation.automod import AutomodRule, AutomodVerdict, judged
from bot.moderation.limits import Sender
from bot.moderation.readings import LONGEST_SENT, Readings, read
from bot.moderation.rules import Judge, Verdict
from bot.process.threads import Check, Deadline, Threads, TooLong, unlimited
from bot.store.moderation.prompt_rules import Action
from sdjax_engine.prompts import read_prompt

log = logging.getLogger(__name__)

T = TypeVar("T")
AT_ONCE, SHARE = 2, 1  # judging threads, and those that one server may have at a time
SECONDS = 0.25  # of processor time, for one request; a server with many rules needs 0.1 s on a slow machine
MOST_SERVERS = 1000  # whose slow rules are remembered
MOST_RULES = 10
RULES = "/rules"  # all of a server's own rules, which are searched for together


class Judging:
    """The threads of one front. A person has at most one request of the server's, or in direct messages."""

    def __init__(self, *, seconds: float = SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds, self._clock = seconds, clock
        self._threads = Threads("judging", most=AT_ONCE, share=SHARE)
        self._preparing = Threads("rules", most=AT_ONCE, share=SHARE)
        self._slow: OrderedDict[int, dict[str, None]] = OrderedDict()

    async def prepare(self, sender: Sender, work: Callable[[], None]) -> None:
        """Run work that many requests share, such as compiling rules; it has no deadline."""
        await self._preparing.run_for(_owners(sender), work)

    async def run(self, sender: Sender, work: Callable[[Check], T], *, times: int = 1) -> T:
        """Return or raise what `work` returns or raises, within `times` the usual limit.

        `work` calls its argument before each piece of work, with the name of the rule or nothing. Raises
        UserMistake `judging_rule` or `judging_long` where the limit is over.
        """
        limited = partial(self._limited, work, self._seconds * times)
        try:
            return await self._threads.run_for(_owners(sender), limited)
        except TooLong as error:
            log.warning(
                "judging a text in server %s took more than %.2f s, mostly for the rule %r",
                *(sender.guild_id, self._seconds * times, error.piece),
            )
            if not error.piece:
                raise UserMistake("judging_long") from None
            self._remember(sender.guild_id or 0, error.piece)
            raise UserMistake("judging_rule", rule=error.piece) from None

    def slow_rules(self, guild_id: int) -> tuple[str, ...]:
        """Return the rules of a server that took too long for a text since the start, at most MOST_RULES."""
        return tuple(self._slow.get(guild_id, ()))

    def _limited(self, work: Callable[[Check], T], seconds: float) -> T:
        return work(Deadline(seconds, self._clock))

    def _remember(self, guild_id: int, rule: str) -> None:
        rules = self._slow.setdefault(guild_id, {})
        self._slow.move_to_end(guild_id)
        if len(rules) < MOST_RULES:
            rules[rule] = None
        if len(self._slow) > MOST_SERVERS:
            self._slow.popitem(last=False)


def _owners(sender: Sender) -> tuple[Hashable, ...]:
    """Return the person there, and the server: a person's own requests wait for each other first."""
    return (sender,) if sender.guild_id is None else (sender, sender.guild_id)


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


def forms_of(texts: Iterable[str], check: Check = unlimited) -> list[str]:
    """Return the texts, and after them what the engine reads in place of a text where that differs.

    The engine replaces HTML entities, wide letters and wrongly decoded ones, and removes the brackets of
    emphasis: it paints `bl&#111;od` and `dead bo(d)y` as blood and a dead body.
    """
    written = list(texts)
    forms = (form for text in written for form in _forms(text, check) if form not in written)
    return [*written, *dict.fromkeys(forms)]


def _forms(text: str, check: Check) -> Iterator[str]:
    check("")
    prompt = read_prompt(text)
    if prompt.text != text.strip():
        yield prompt.text
    spelled = "".join(f"{' ' if piece.breaks else ''}{piece.text}" for piece in prompt.pieces)
    if spelled != prompt.text:
        yield spelled


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
