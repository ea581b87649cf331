"""[policy] and [policy.bounds]: the policy where no server sets another, and the bounds of every policy."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from bot.config.mistakes import InvalidValue
from bot.config.section import Section

ANY = "*"
Name = Annotated[str, Field(min_length=1, max_length=255)]
Count = Annotated[int, Field(ge=0)]
Quota = Annotated[float, Field(ge=0, le=100_000)]
Treatment = Literal["show", "spoiler", "hold", "withhold"]


def _levels(values: tuple[Treatment, ...]) -> tuple[Treatment, ...]:
    if len(values) not in (0, 3):
        raise InvalidValue("three values are wanted, for the levels mild, explicit and extreme, or none")
    return values


Levels = Annotated[tuple[Treatment, ...], AfterValidator(_levels)]


class PolicySection(Section):
    """The keys of a policy; a default value sets nothing, and 0 is no limit.

    A cost is in pictures of the model's default size and steps.
    """

    paint: bool = True
    models: tuple[Name, ...] = (ANY,)
    pixels: Count = 0
    steps: Count = 0
    variants: Count = 0
    loras: tuple[Name, ...] = (ANY,)
    start_pictures: bool = True
    private: Literal["free", "always", "never"] = "free"
    previews: bool = True
    review: bool = False
    flagged: Levels = ()
    flagged_spoiler: Levels = ()
    flagged_age_restricted: Levels = ()
    pictures_per_hour: Quota = 0.0
    pictures_per_day: Quota = 0.0
    cost_per_hour: Quota = 0.0
    cost_per_day: Quota = 0.0
    cool_down: Annotated[float, Field(ge=0, le=86_400)] = 0.0
    weight: Annotated[float, Field(ge=0, le=100)] = 0.0
    language: Literal["", "en", "ko", "zh", "ar"] = ""

    @property
    def said(self) -> dict[str, Any]:
        """The keys whose values are not the defaults, and these values."""
        defaults = PolicySection.model_fields
        return {key: getattr(self, key) for key in defaults if getattr(self, key) != defaults[key].default}


class PolicyConfig(PolicySection):
    """The operator's policy, and the bounds of all others."""

    bounds: PolicySection = PolicySection()
