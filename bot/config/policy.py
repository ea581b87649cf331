"""[policy] and [policy.bounds]: who may what where no server says otherwise, and at most."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bot.config.section import Section

Name = Annotated[str, Field(min_length=1, max_length=255)]
Quota = Annotated[float, Field(ge=0, le=100_000)]
Treatment = Literal["show", "spoiler", "hold", "withhold"]
Levels = tuple[Treatment, Treatment, Treatment]


class PolicySection(Section):
    """The keys of a policy; a key that is not there is not said. Costs are in usual pictures."""

    paint: bool | None = None
    models: tuple[Name, ...] | None = None
    pixels: Annotated[int, Field(ge=1)] | None = None
    steps: Annotated[int, Field(ge=1)] | None = None
    variants: Annotated[int, Field(ge=1)] | None = None
    loras: tuple[Name, ...] | None = None
    start_pictures: bool | None = None
    private: Literal["free", "always", "never"] | None = None
    previews: bool | None = None
    review: bool | None = None
    flagged: Levels | None = None
    flagged_age_restricted: Levels | None = None
    pictures_per_hour: Quota | None = None
    pictures_per_day: Quota | None = None
    cost_per_hour: Quota | None = None
    cost_per_day: Quota | None = None
    cool_down: Annotated[float, Field(ge=0, le=86_400)] | None = None
    weight: Annotated[float, Field(gt=0, le=100)] | None = None
    language: Literal["en", "ko", "zh", "ar"] | None = None


class PolicyConfig(PolicySection):
    """The operator's policy, and the bounds of all others."""

    bounds: PolicySection = PolicySection()
