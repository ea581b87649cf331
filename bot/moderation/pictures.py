"""How pictures are shown: the level of each, and what a model or a policy says of that level; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.domain.channels import ChannelKind
from bot.domain.jobs import Showing, Showings
from bot.domain.levels import DEFAULT_THRESHOLD, Level, level_of
from sdjax_engine.request import PictureScores, SafetyScores

FLAGGED = Level.EXPLICIT  # of a picture that the checkpoint's own checker flags
OWN: Mapping[ChannelKind, Showings] = {
    ChannelKind.PLAIN: (Showing.WITHHOLD,) * 3,
    ChannelKind.SPOILER: (Showing.WITHHOLD,) * 3,
    ChannelKind.AGE_RESTRICTED: (Showing.SPOILER,) * 3,
}
"""How pictures of the levels 1, 2 and 3 are shown without any configuration."""


@dataclass(frozen=True, kw_only=True)
class PictureRules:
    """How the pictures of one model are judged and shown.

    `levels` has the level of each label of the picture classifier. `own` says how pictures of the levels 1, 2
    and 3 are shown in a channel of each kind if no policy says so. No policy can show them more openly than
    `mildest`, or than `own` in channels of a kind that it lacks.
    """

    levels: Mapping[str, Level] = field(default_factory=dict)
    threshold: float = DEFAULT_THRESHOLD
    own: Mapping[ChannelKind, Showings] = field(default_factory=lambda: OWN)
    mildest: Mapping[ChannelKind, Showings] = field(default_factory=dict)

    def level(self, safety: SafetyScores | None, classified: PictureScores | None) -> Level:
        """Return the level of a picture with these scores, the worse of the two; harmless without scores."""
        found = [Level.NONE]
        if safety is not None and safety.flagged:
            found.append(FLAGGED)
        if classified is not None:
            found.append(level_of(classified, self.levels, self.threshold))
        return max(found, key=lambda level: level.number)

    def showings(self, said: Showings | None, kind: ChannelKind) -> Showings:
        """Return how pictures of the levels 1, 2 and 3 are shown; `said` is what a policy says."""
        own = self.own[kind]
        return own if said is None else strictest(said, self.mildest.get(kind, own))

    def showing(self, level: Level, said: Showings | None, kind: ChannelKind) -> Showing:
        """Return how a picture of this level is shown."""
        return Showing.SHOW if level is Level.NONE else self.showings(said, kind)[level.number - 1]


def strictest(first: Showings, second: Showings) -> Showings:
    """Return the stricter showing of each level."""
    mild, explicit, extreme = map(stricter, first, second)
    return mild, explicit, extreme


def stricter(*showings: Showing) -> Showing:
    """Return the strictest of these."""
    return max(showings, key=list(Showing).index)
