"""Judges painted pictures and start pictures: their levels, and how they are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from bot.domain.errors import StartRefused
from bot.domain.jobs import Claim, Showing
from bot.domain.levels import Level
from bot.moderation.pictures import PictureRules, stricter
from bot.process.threads import Threads
from sdjax_engine.engine import Engine
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.request import Image
from sdjax_engine.scores import PictureScores

START_UNFIT = "start_unfit"
JUDGE_SECONDS = 300.0  # for the devices to judge a start picture, beside other work
KEPT = 32  # start pictures; few suffice, as the images of a job begin soon after each other

_Key = tuple[str, str | None, int, int]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The level of a picture, and how it is shown."""

    level: Level
    showing: Showing


class Judging:
    """Judges pictures by the rules of their models, which `rules` has by model; they may change."""

    def __init__(self, engine: Engine, rules: Mapping[str, PictureRules]) -> None:
        self._engine = engine
        self.rules = rules
        self._threads = Threads("judging", most=1)
        self._starts: dict[_Key, asyncio.Task[PictureScores | None]] = {}

    def judge(self, claim: Claim, image: Image, least: Showing) -> Judgement:
        """Return the level of a painted picture and how it is shown: no more openly than `least`."""
        level = self._rules_of(claim).level(image.safety, image.classified)
        return Judgement(level=level, showing=stricter(self._showing(claim, level), least))

    def may_cover(self, claim: Claim) -> bool:
        """Return whether the finished picture may be shown less than openly."""
        model = claim.request.model
        try:
            judged = self._engine.checks_pictures(model) or self._engine.classifies_pictures(model)
        except KeyError:  # a change of the models has closed it
            return True
        if not judged:
            return False
        showings = self._rules_of(claim).showings(claim.showings, claim.channel_kind)
        return any(showing is not Showing.SHOW for showing in showings)

    async def judge_start(self, claim: Claim, start: Fitted | None) -> Showing:
        """Return how openly pictures that are painted from a start picture may be shown at most.

        Raises StartRefused for a start picture of a level that is withheld, and TimeoutError.
        """
        scores = None if start is None else await self._scores(claim, start)
        if scores is None:
            return Showing.SHOW
        level = self._rules_of(claim).level(None, scores)
        showing = self._showing(claim, level)
        if showing is Showing.WITHHOLD:
            raise StartRefused(f"The start picture is {level}.", failure=START_UNFIT)
        return showing if showing is Showing.HOLD else Showing.SHOW

    async def _scores(self, claim: Claim, start: Fitted) -> PictureScores | None:
        request = claim.request
        if not self._engine.classifies_pictures(request.model):
            return None
        key = (request.model, claim.init_image, request.width, request.height)
        task = self._starts.pop(key, None)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            judging = self._threads.run_within(JUDGE_SECONDS, self._engine.judge, request.model, start.pixels)
            task = asyncio.create_task(judging, name=f"judging of {claim.init_image}")
        self._starts[key] = task  # the dict is ordered: the last one was used last
        while len(self._starts) > KEPT:
            del self._starts[next(iter(self._starts))]
        return await asyncio.shield(task)

    def _showing(self, claim: Claim, level: Level) -> Showing:
        """Return how a picture of this level is shown; without a server it is withheld instead of held."""
        showing = self._rules_of(claim).showing(level, claim.showings, claim.channel_kind)
        return Showing.WITHHOLD if showing is Showing.HOLD and claim.guild_id is None else showing

    def _rules_of(self, claim: Claim) -> PictureRules:
        return self.rules.get(claim.request.model, PictureRules())
