"""Step-level seating against whole batches, with the same arrivals, for any server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from serving_arrivals import MIXES, ServedArrival, TimedArrival, backlog, poisson
from serving_ideal import step_level, whole_batch
from serving_simulation import Simulation, simulate
from serving_statistics import Figures, figures, throughput
from serving_whole_batch import Seating

Serve = Callable[[Sequence[TimedArrival], Sequence[Seating]], Mapping[Seating, Sequence[ServedArrival]]]
"""Serves the same arrivals by each policy, in this order."""

BATCH_WAIT = 10
"""The longest wait of a whole batch for its last images, in evaluations. Waits from 0 to 20 differ by less
than one per cent in the mean latency of whole batches."""

LOADS = (0.3, 0.7, 0.95)
"""Fractions of the most that whole batches can serve."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The ratios of one mix: `gain` in throughput with a full queue, and each figure's ratio at each load.

    `gain_per_work` is the gain by processor time, of a real engine. `stolen` is the share of this machine
    that others took meanwhile. `seconds` are the mean latencies at each load, step-level and whole.
    """

    mix: str
    gain: float
    gain_per_work: float
    left: Mapping[float, Mapping[str, float]]
    seconds: Mapping[float, tuple[float, float]]
    stolen: float = float("nan")


def compare(
    serve: Serve,
    *,
    seats: int,
    mix: str,
    count: int,
    loads: Iterable[float],
    order: Sequence[Seating] = tuple(Seating),
) -> Comparison:
    """Serve a backlog of `count` images, then as many arrivals at each load, by both policies in `order`."""
    answers = serve(backlog(MIXES[mix], count=count), order)
    rate = {seating: throughput(served, seats=seats) for seating, served in answers.items()}
    step, whole = rate[Seating.STEP], rate[Seating.WHOLE_BATCH]
    left, seconds = {}, {}
    for load in loads:
        arrivals = poisson(MIXES[mix], count=count, rate=load * whole.pictures)
        told = {seating: figures(served) for seating, served in serve(arrivals, order).items()}
        one, other = told[Seating.STEP], told[Seating.WHOLE_BATCH]
        left[load] = {field.name: _ratio(one, other, field.name) for field in fields(Figures)}
        seconds[load] = one.mean, other.mean
    return Comparison(
        mix=mix,
        gain=step.pictures / whole.pictures,
        gain_per_work=step.per_work / whole.per_work,
        left=left,
        seconds=seconds,
    )


def ideal(seats: int, *, evaluation: float = 1.0, slices: int = 1) -> Serve:
    """Return a server whose only cost is `evaluation` seconds per evaluation of all seats."""
    takes: dict[str, Any] = {"seats": seats, "evaluation": evaluation, "slices": slices}

    def serve(seating: Seating, arrivals: Sequence[TimedArrival]) -> list[ServedArrival]:
        if seating is Seating.STEP:
            return step_level(arrivals, **takes)
        return whole_batch(arrivals, **takes, batch_wait=BATCH_WAIT * evaluation)

    return _one_after_the_other(serve)


def simulated(simulation: Simulation) -> Serve:
    """Return a server with the engine's loop on simulated devices."""
    wait = BATCH_WAIT * simulation.costs.evaluation

    def serve(seating: Seating, arrivals: Sequence[TimedArrival]) -> list[ServedArrival]:
        return simulate(simulation.seated(seating, batch_wait=wait), arrivals).served

    return _one_after_the_other(serve)


def print_table(rows: Sequence[tuple[str, Comparison]]) -> None:
    """Print comparisons, a row each: where, the mix, and step-level seating relative to whole batches."""
    print(f"{'step-level relative to whole batches':44}{'mix':10}{'pictures':>9}{'per work':>9}", end="")
    loads = sorted({load for _, row in rows for load in row.left})
    for load in loads:
        print(f"{f'mean, {load:.0%}':>10}", end="")
    names = ("median", "p95", "slowest_user")
    print("".join(f"{name + ', 70%':>18}" for name in names))
    for where, row in rows:
        print(f"{where:44}{row.mix:10}{row.gain:9.2f}{row.gain_per_work:9.3f}", end="")
        for load in loads:
            print(f"{row.left[load]['mean']:10.2f}" if load in row.left else " " * 10, end="")
        at_70 = row.left.get(0.7, {})
        print("".join(f"{at_70[name]:18.2f}" if at_70 else " " * 18 for name in names))


def _one_after_the_other(
    serve: Callable[[Seating, Sequence[TimedArrival]], Sequence[ServedArrival]],
) -> Serve:
    """Return a server that serves one policy after the other."""

    def each(
        arrivals: Sequence[TimedArrival], order: Sequence[Seating]
    ) -> dict[Seating, Sequence[ServedArrival]]:
        return {seating: serve(seating, arrivals) for seating in order}

    return each


def _ratio(step: Figures, whole: Figures, name: str) -> float:
    one, other = getattr(step, name), getattr(whole, name)
    return float(one / other) if other else float("nan")
