"""Judges painted pictures and given pictures: by their levels, and by their perceptual hashes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot.domain.errors import StartRefused
from bot.domain.hashes import hash_of_file, hash_of_pixels
from bot.domain.jobs import SHOWING, Claim, Showing, pictures_in
from bot.domain.levels import Level
from bot.moderation.pictures import PictureRules, stricter
from bot.process.retries import while_unavailable
from bot.process.threads import Threads
from bot.store.moderation.known import Known
from bot.worker.given_pictures import Once, Pixels
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, PictureScores, Request

START_UNFIT = "start_unfit"
JUDGE_SECONDS = 300.0  # for the devices to judge a given picture, beside other work

_Key = tuple[str, str, int, int]


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
        self._given = Once[_Key, PictureScores | None]()

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

    async def judge_given(self, claim: Claim, given: Mapping[str, Pixels]) -> Showing:
        """Return how openly pictures that are painted from the given ones may be shown at most.

        `given` are pixels by the files' names. Raises StartRefused for a given picture of a level that is
        withheld, and TimeoutError.
        """
        most_open = Showing.SHOW
        for name, pixels in given.items():
            if (scores := await self._scores(claim, name, pixels)) is None:
                continue
            level = self._rules_of(claim).level(None, scores)
            showing = self._showing(claim, level)
            if showing is Showing.WITHHOLD:
                raise StartRefused(f"A given picture is {level}.", failure=START_UNFIT)
            if showing is Showing.HOLD:
                most_open = showing
        return most_open

    async def _scores(self, claim: Claim, name: str, pixels: Pixels) -> PictureScores | None:
        request = claim.request
        if not self._engine.classifies_pictures(request.model):
            return None
        key = (request.model, name, request.width, request.height)
        judge = self._engine.judge
        return await self._given.get(
            key, lambda: self._threads.run_within(JUDGE_SECONDS, judge, request.model, pixels)
        )

    def _showing(self, claim: Claim, level: Level) -> Showing:
        """Return how a picture of this level is shown; without a server it is withheld instead of held."""
        showing = self._rules_of(claim).showing(level, claim.showings, claim.channel_kind)
        return Showing.WITHHOLD if showing is Showing.HOLD and claim.guild_id is None else showing

    def _rules_of(self, claim: Claim) -> PictureRules:
        return self.rules.get(claim.request.model, PictureRules())


START_KNOWN = "start_known"


@dataclass(frozen=True, kw_only=True)
class Found:
    """The hash of a picture, and whether the picture is like a blocked one."""

    hash: int
    blocked: bool


class KnownPictures:
    """Hashes pictures outside the event loop; a look-up is retried for about `retry_seconds`."""

    def __init__(self, known: Known, *, retry_seconds: float) -> None:
        self._known = known
        self._retry_seconds = retry_seconds
        self._threads = Threads("hashes", most=1)
        self._given = Once[str, int]()

    async def look_up(self, claim: Claim, pixels: npt.NDArray[np.uint8]) -> Found:
        """Return what is known of a painted picture; raises StoreUnavailable."""
        number = await self._threads.run(hash_of_pixels, pixels)
        return Found(hash=number, blocked=await self._is_blocked(claim, number))

    async def check_given(self, claim: Claim, request: Request) -> dict[str, int]:
        """Return the hashes of the given pictures that show something, by the names of their files.

        `request` has their bytes. Raises StartRefused for a picture that is like a blocked one, and
        StoreUnavailable.
        """
        found, files = {}, pictures_in(request, claim.given)
        for field in SHOWING:
            if field in claim.given:
                run = functools.partial(self._threads.run, hash_of_file, files[field])
                number = await self._given.get(claim.given[field], run)
                if await self._is_blocked(claim, number):
                    raise StartRefused("A given picture is like a blocked one.", failure=START_KNOWN)
                found[claim.given[field]] = number
        return found

    async def _is_blocked(self, claim: Claim, number: int) -> bool:
        async def look() -> bool:
            blocking, refused = self._known.blocking, self._known.is_refused
            return await blocking(claim.guild_id, number) is not None or await refused(claim.guild_id, number)

        return await while_unavailable(self._retry_seconds, look)
