"""What an engine's answers say of it: throughput, latency, waiting."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from serving_arrivals import Served


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of one run of arrivals; times in seconds.

    `waited` is the mean wait for a seat, `slowest_user` the mean latency of the user who fared worst.
    """

    mean: float
    median: float
    p95: float
    waited: float
    slowest_user: float


def figures(served: Sequence[Served]) -> Figures:
    """Return the figures of everybody served."""
    latencies = [each.latency for each in served]
    users: dict[int, list[float]] = defaultdict(list)
    for each in served:
        users[each.arrival.user].append(each.latency)
    return Figures(
        mean=statistics.fmean(latencies),
        median=statistics.median(latencies),
        p95=percentile(latencies, 0.95),
        waited=statistics.fmean(each.waited for each in served),
        slowest_user=max(map(statistics.fmean, users.values())),
    )


def throughput(served: Sequence[Served], *, seats: int) -> float:
    """Pictures in a second while every seat was wanted, of a backlog.

    Counted between answers, in whole rounds of the seats: from the second round's last (of fewer than five
    rounds, the first's) to the last before seats were left empty.
    """
    answers = sorted(each.finished for each in served)
    rounds = len(answers) // seats
    first, last = seats * (2 if rounds >= 5 else 1), seats * (rounds - 1)
    return (last - first) / (answers[last - 1] - answers[first - 1])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
