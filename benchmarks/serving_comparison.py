"""Step-level seating against whole batches, the same arrivals for both, whoever serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from serving_arrivals import MIXES, Arrival, Served, backlog, poisson
from serving_ideal import step_level, whole_batch
from serving_simulation import Simulation, simulate
from serving_statistics import Figures, figures, throughput

from sdjax_engine.config import Seating

Serve = Callable[[Seating, Sequence[Arrival]], Sequence[Served]]

BATCH_WAIT = 10
"""How long a whole batch waits for its last images, in evaluations: any wait from none to twenty serves whole
batches best, within one per cent of their mean latency."""

LOADS = (0.3, 0.7, 0.95)
"""Of what whole batches can serve at most."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Of one mix: `gain` in throughput with a full queue, and at each load what is left of each figure.

    `seconds` are the mean latencies at each load, step-level and whole batch.
    """

    mix: str
    gain: float
    left: Mapping[float, Mapping[str, float]]
    seconds: Mapping[float, tuple[float, float]]


def compare(serve: Serve, *, seats: int, mix: str, count: int, loads: Iterable[float]) -> Comparison:
    """Serve a backlog of `count` images and then as many arrivals at each load, by both policies."""
    full = backlog(MIXES[mix], count=count)
    rate = {seating: throughput(serve(seating, full), seats=seats) for seating in Seating}
    left, seconds = {}, {}
    for load in loads:
        arrivals = poisson(MIXES[mix], count=count, rate=load * rate[Seating.WHOLE_BATCH])
        step, whole = (figures(serve(seating, arrivals)) for seating in Seating)
        left[load] = {field.name: _ratio(step, whole, field.name) for field in fields(Figures)}
        seconds[load] = step.mean, whole.mean
    gain = rate[Seating.STEP] / rate[Seating.WHOLE_BATCH]
    return Comparison(mix=mix, gain=gain, left=left, seconds=seconds)


def ideal(seats: int, *, evaluation: float = 1.0) -> Serve:
    """Serving that costs nothing but evaluations of so many seats, in seconds each."""

    def serve(seating: Seating, arrivals: Sequence[Arrival]) -> list[Served]:
        if seating is Seating.STEP:
            return step_level(arrivals, seats=seats, evaluation=evaluation)
        return whole_batch(arrivals, seats=seats, evaluation=evaluation, batch_wait=BATCH_WAIT * evaluation)

    return serve


def simulated(simulation: Simulation) -> Serve:
    """The engine's loop on simulated devices."""
    wait = BATCH_WAIT * simulation.costs.evaluation

    def serve(seating: Seating, arrivals: Sequence[Arrival]) -> list[Served]:
        return simulate(simulation.seated(seating, batch_wait=wait), arrivals).served

    return serve


def print_table(rows: Sequence[tuple[str, Comparison]]) -> None:
    """Print comparisons, a row each: where, the mix, and step-level seating relative to whole batches."""
    print(f"{'step-level relative to whole batches':44}{'mix':10}{'pictures':>9}", end="")
    loads = sorted({load for _, row in rows for load in row.left})
    for load in loads:
        print(f"{f'mean, {load:.0%}':>10}", end="")
    names = ("median", "p95", "slowest_user")
    print("".join(f"{name + ', 70%':>18}" for name in names))
    for where, row in rows:
        print(f"{where:44}{row.mix:10}{row.gain:9.2f}", end="")
        for load in loads:
            print(f"{row.left[load]['mean']:10.2f}" if load in row.left else " " * 10, end="")
        at_70 = row.left.get(0.7, {})
        print("".join(f"{at_70[name]:18.2f}" if at_70 else " " * 18 for name in names))


def _ratio(step: Figures, whole: Figures, name: str) -> float:
    one, other = getattr(step, name), getattr(whole, name)
    return float(one / other) if other else float("nan")
