"""Statistics of served arrivals: throughput, latency, waiting."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from percentiles import percentile
from serving_arrivals import ServedArrival


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one run of arrivals; times in seconds.

    `waited` is the mean wait for a seat, `slowest_user` the largest mean latency of a user.
    """

    mean: float
    median: float
    p95: float
    waited: float
    slowest_user: float


def figures(served: Sequence[ServedArrival]) -> Figures:
    """Return the figures of all served arrivals."""
    latencies = [each.latency for each in served]
    users: dict[int, list[float]] = defaultdict(list)
    for each in served:
        users[each.arrival.user].append(each.latency)
    return Figures(
        mean=statistics.fmean(latencies),
        median=statistics.median(latencies),
        p95=percentile(latencies, 95),
        waited=statistics.fmean(each.waited for each in served),
        slowest_user=max(map(statistics.fmean, users.values())),
    )


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Pictures per second, and per second of processor time, which a busy machine hardly changes."""

    pictures: float
    per_work: float


def throughput(served: Sequence[ServedArrival], *, seats: int) -> Throughput:
    """Return the throughput of a backlog while all seats were taken.

    It is counted between answers, in whole rounds of the seats: from the last answer of the second round (of
    the first with fewer than five rounds) to the last answer before a seat stayed empty.
    """
    rounds = len(served) // seats
    first, last = seats * (2 if rounds >= 5 else 1), seats * (rounds - 1)
    answers = sorted(served, key=lambda each: each.finished)
    begin, end = answers[first - 1], answers[last - 1]
    worked = end.worked - begin.worked
    return Throughput(
        pictures=(last - first) / (end.finished - begin.finished),
        per_work=(last - first) / worked if worked else float("nan"),
    )
