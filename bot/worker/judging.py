"""Judges painted pictures and start pictures: by their levels, and by their perceptual hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot.domain.errors import StartRefused
from bot.domain.hashes import hash_of_file, hash_of_pixels
from bot.domain.jobs import Claim, Showing
from bot.domain.levels import Level
from bot.moderation.pictures import PictureRules, stricter
from bot.process.retries import while_unavailable
from bot.process.threads import Threads
from bot.store.moderation.known import Known
from bot.worker.start_pictures import Once
from sdjax_engine.engine import Engine
from sdjax_engine.model.pictures import Fitted
from sdjax_engine.request import Image, PictureScores

START_UNFIT = "start_unfit"
JUDGE_SECONDS = 300.0  # for the devices to judge a start picture, beside other work

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
        self._starts = Once[_Key, PictureScores | None]()

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
        judge, pixels = self._engine.judge, start.pixels
        return await self._starts.get(
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
        self._starts = Once[str, int]()

    async def look_up(self, claim: Claim, pixels: npt.NDArray[np.uint8]) -> Found:
        """Return what is known of a painted picture; raises StoreUnavailable."""
        number = await self._threads.run(hash_of_pixels, pixels)
        return Found(hash=number, blocked=await self._is_blocked(claim, number))

    async def check_start(self, claim: Claim, picture: bytes | None) -> int | None:
        """Return the hash of the cleaned file that an image starts from; None without one.

        Raises StartRefused for a picture that is like a blocked one, and StoreUnavailable.
        """
        if picture is None or claim.init_image is None:
            return None
        number = await self._starts.get(claim.init_image, lambda: self._threads.run(hash_of_file, picture))
        if await self._is_blocked(claim, number):
            raise StartRefused("The start picture is like a blocked one.", failure=START_KNOWN)
        return number

    async def _is_blocked(self, claim: Claim, number: int) -> bool:
        async def look() -> bool:
            blocking, refused = self._known.blocking, self._known.is_refused
            return await blocking(claim.guild_id, number) is not None or await refused(claim.guild_id, number)

        return await while_unavailable(self._retry_seconds, look)
