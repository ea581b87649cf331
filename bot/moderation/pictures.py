"""How pictures are shown: the level of each, and what a model or a policy says of that level; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.domain.jobs import Showing, Showings
from bot.domain.levels import DEFAULT_THRESHOLD, Level, level_of
from sdjax_engine.request import SafetyScores
from sdjax_engine.scores import PictureScores

FLAGGED = Level.EXPLICIT  # of a picture that the checkpoint's own checker flags


@dataclass(frozen=True, kw_only=True)
class PictureRules:
    """How the pictures of one model are judged and shown.

    `levels` has the level of each label of the picture classifier. `age_restricted` and `elsewhere` say how
    pictures of the levels 1, 2 and 3 are shown, in age-restricted channels and in others, if no policy says
    so. No policy can show them more openly than `mildest_age_restricted` and `mildest`; None stands for the
    values of `age_restricted` and `elsewhere`.
    """

    levels: Mapping[str, Level] = field(default_factory=dict)
    threshold: float = DEFAULT_THRESHOLD
    elsewhere: Showings = (Showing.WITHHOLD,) * 3
    age_restricted: Showings = (Showing.SPOILER,) * 3
    mildest: Showings | None = None
    mildest_age_restricted: Showings | None = None

    def level(self, safety: SafetyScores | None, classified: PictureScores | None) -> Level:
        """Return the level of a picture with these scores, the worse of the two; harmless without scores."""
        found = [Level.NONE]
        if safety is not None and safety.flagged:
            found.append(FLAGGED)
        if classified is not None:
            found.append(level_of(classified, self.levels, self.threshold))
        return max(found, key=lambda level: level.number)

    def showings(self, said: Showings | None, *, age_restricted: bool) -> Showings:
        """Return how pictures of the levels 1, 2 and 3 are shown; `said` is what a policy says."""
        own, mildest = self.elsewhere, self.mildest
        if age_restricted:
            own, mildest = self.age_restricted, self.mildest_age_restricted
        return own if said is None else strictest(said, mildest or own)

    def showing(self, level: Level, said: Showings | None, *, age_restricted: bool) -> Showing:
        """Return how a picture of this level is shown."""
        if level is Level.NONE:
            return Showing.SHOW
        return self.showings(said, age_restricted=age_restricted)[level.number - 1]


def strictest(first: Showings, second: Showings) -> Showings:
    """Return the stricter showing of each level."""
    mild, explicit, extreme = map(stricter, first, second)
    return mild, explicit, extreme


def stricter(*showings: Showing) -> Showing:
    """Return the strictest of these."""
    return max(showings, key=list(Showing).index)
