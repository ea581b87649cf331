"""What is left of a person's quotas, in one line for each."""

from __future__ import annotations

from collections.abc import Iterator

from bot.delivery.content import SUBTEXT
from bot.domain.jobs import Job
from bot.texts.catalogue import Texts


def left_lines(job: Job, texts: Texts) -> Iterator[str]:
    """Yield the line under a request about the quota of which little is left."""
    if (left := job.origin.policy.get("left")) is not None:
        yield texts.line(quota_line(left["key"], left["left"], left["limit"], texts), mark=SUBTEXT)


def quota_line(key: str, left: float, limit: float, texts: Texts) -> str:
    """Return what is left of the quota with this key of a policy."""
    numbers = {"left": f"{max(0.0, round(left, 1)):g}", "limit": f"{limit:g}"}
    if key == "pictures_per_hour":
        return texts.gettext("Pictures an hour: {left} of {limit} left.", **numbers)
    if key == "pictures_per_day":
        return texts.gettext("Pictures a day: {left} of {limit} left.", **numbers)
    if key == "cost_per_hour":
        return texts.gettext("Hourly cost, in standard pictures: {left} of {limit} left.", **numbers)
    return texts.gettext("Daily cost, in standard pictures: {left} of {limit} left.", **numbers)
