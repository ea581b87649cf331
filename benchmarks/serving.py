"""Latency and throughput: step-level seating against whole batches; ideal, simulated and on the real engine.

    python benchmarks/serving.py [--quick] [--part ideal] [--part simulated] [--part real] [--size 128x128]

Arrivals are open-loop Poisson, of several users with mixed steps, the same for both policies. A whole batch
starts when all its seats can be taken, or when its oldest image has waited for the time of ten evaluations;
it runs as long as its longest image. 100 % load is the most that whole batches can serve of the mix. Every
figure is that of step-level seating divided by that of whole batches: throughput with a full queue, and
latency from request to answer at each load. The simulated engine is the engine's own loop in virtual time;
its costs of devices and host are measured first, on the real engine with the same number of seats per device.
Each real engine runs in its own process. There the policies serve in turns of some pictures; each has a clock
that stops in the other's turns, so that both see the same speed of the machine. The throughput is also given
by processor time, which other work on the machine changes less. With few arrivals the gain depends on the
sample, so the row below each has the ideal's figures for the same arrivals. `--quick` takes under two
minutes; all mixes and loads on every real engine take long; `--help` names the options.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from conditions import Stolen, print_conditions
from serving_arrivals import MIXES, backlog
from serving_comparison import (
    BATCH_WAIT,
    LOADS,
    Comparison,
    Serve,
    compare,
    ideal,
    print_table,
    simulated,
)
from serving_costs import measure_costs
from serving_devices import Cost, Costs
from serving_engine import open_engine, serve_in_turns, use_whole_batches
from serving_simulation import Simulation, simulate
from serving_turns import StoppableClock
from serving_whole_batch import Seating

ROOT = Path(__file__).parents[1]
PARTS = ("ideal", "simulated", "real")
WIDEST = "4-50"

# (devices, seats on each).
SIMULATED = ((8, 1), (8, 4), (64, 1), (64, 4))
REAL = ((1, 8), (2, 4), (2, 1))
IDEAL = REAL

Row = tuple[str, Comparison]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one mix, few pictures, small, fewer devices")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--pictures", type=int, default=48, help="arrivals of the real engine in each case")
    parser.add_argument("--pairs", type=int, default=1, help="how often the real engine does the same")
    parser.add_argument("--real", action="append", help="DEVICESxSEATS of a real engine; may be repeated")
    parser.add_argument("--mix", action="append", choices=MIXES, help="of the real engine; may be repeated")
    parser.add_argument("--loads", type=float, nargs="*", default=LOADS, help="of the real engine")
    parser.add_argument("--engine", nargs=3, metavar=("DEVICES", "SEATS", "CACHE"), help=argparse.SUPPRESS)
    parser.add_argument("--costs-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.size, options.pictures = "64x64", 24
        options.real, options.mix = ["1x8"], [WIDEST]
    options.real = [tuple(map(int, each.split("x"))) for each in options.real or ()] or REAL
    return options


def main() -> None:
    options = arguments()
    if options.engine:
        print(json.dumps(in_this_process(options)))
        return
    parts = options.part or PARTS
    print_conditions("jax", "jaxlib", "flax")
    print(f"conditions: size {options.size}, pictures {options.pictures}, pairs {options.pairs}")
    rows: list[Row] = []
    if "ideal" in parts:
        for slices, seats in IDEAL:
            where = f"ideal, {slices * seats} seats" + f" on {slices} slices of a CPU" * (slices > 1)
            server = ideal(slices * seats, slices=slices)
            rows += [(where, row) for row in of_every_mix(server, slices * seats)]
    with tempfile.TemporaryDirectory() as cache:
        if "simulated" in parts:
            rows += simulated_rows(options, cache)
        if "real" in parts:
            rows += real_rows(options, cache)
    print_table(rows)


def of_every_mix(server: Serve, seats: int, *, rounds: int = 200) -> Iterator[Comparison]:
    """Compare in every mix, with enough arrivals for two significant digits."""
    for mix in MIXES:
        yield compare(server, seats=seats, mix=mix, count=rounds * seats, loads=LOADS)


def simulated_rows(options: argparse.Namespace, cache: str) -> list[Row]:
    """Measure the costs, and run the engine's loop on simulated devices."""
    rows: list[Row] = []
    for devices, seats in SIMULATED[:1] if options.quick else SIMULATED:
        costs = read_costs(apart(1, seats, cache, "--costs-only")["costs"])  # one device uses all cores
        print(f"{seats} on a device: {told(costs)}")
        simulation = Simulation(devices=devices, seats_per_device=seats, costs=costs)
        rounds = 200 if simulation.seats == 8 else 25
        print_shares(simulation)
        where = f"simulated, {devices} devices, {seats} on each"
        for row in of_every_mix(simulated(simulation), simulation.seats, rounds=rounds):
            rows.append((where, row))
    return rows


def print_shares(simulation: Simulation) -> None:
    """Print the devices' shares of time with a full queue of the widest mix."""
    full = backlog(MIXES[WIDEST], count=25 * simulation.seats)
    shares = simulate(simulation, full).shares(simulation.devices)
    spent = ", ".join(f"{kind} {share:.1%}" for kind, share in shares.items())
    print(
        f"  {simulation.devices} such devices with a full queue: {spent}, idle {1 - sum(shares.values()):.1%}"
    )


def real_rows(options: argparse.Namespace, cache: str) -> list[Row]:
    """Serve on real engines, each in its own process; return medians over pairs, and print each pair.

    Each row is followed by the ideal's row for the same arrivals.
    """
    rows: list[Row] = []
    for devices, seats in options.real:
        answer = apart(devices, seats, cache)
        print(f"{devices} real devices, {seats} seats on each: {told(read_costs(answer['costs']))}")
        where = f"real, {devices} devices, {seats} on each"
        for told_pairs in answer["mixes"]:
            pairs = [read_comparison(pair) for pair in told_pairs]
            print_pairs(pairs)
            rows.append((where, median_of(pairs)))
            at_best, mix, seen = ideal(devices * seats, slices=devices), pairs[0].mix, options.pictures
            same = compare(at_best, seats=devices * seats, mix=mix, count=seen, loads=options.loads)
            rows.append(("  ideal, the same arrivals", same))
    return rows


def print_pairs(pairs: Sequence[Comparison]) -> None:
    """Print the figures of each pair of one mix."""
    for pair in pairs:
        latencies = "".join(f", mean at {load:.0%} {left['mean']:.3f}" for load, left in pair.left.items())
        print(
            f"  {pair.mix}: pictures {pair.gain:.3f}, per work {pair.gain_per_work:.3f}{latencies}; "
            f"{pair.stolen:.1%} of the machine taken by others"
        )


def apart(devices: int, seats: int, cache: str, *more: str) -> dict[str, Any]:
    """Run `in_this_process` in another process: the number of CPU devices is fixed per process."""
    command = [sys.executable, __file__, *sys.argv[1:], "--engine", str(devices), str(seats), cache, *more]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    answer: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return answer


def in_this_process(options: argparse.Namespace) -> dict[str, Any]:
    """Open a real engine of each seating, measure, and serve."""
    devices, seats, cache = int(options.engine[0]), int(options.engine[1]), Path(options.engine[2])
    width, height = map(int, options.size.split("x"))
    conditions: dict[str, Any] = {
        "checkpoint": options.checkpoint,
        "size": (width, height),
        "cpu_devices": devices,
        "seats_per_device": seats,
        "cache_dir": cache,
    }
    clocks = {seating: StoppableClock() for seating in Seating}
    with open_engine(**conditions, clock=clocks[Seating.STEP]) as step:
        costs = measure_costs(step)
        answer: dict[str, Any] = {"costs": dataclasses.asdict(costs)}
        if options.costs_only:
            return answer
        wait = BATCH_WAIT * costs.evaluation
        with open_engine(**conditions, clock=clocks[Seating.WHOLE_BATCH]) as whole:
            use_whole_batches(whole, wait, clocks[Seating.WHOLE_BATCH])
            engines = {Seating.STEP: step, Seating.WHOLE_BATCH: whole}
            for engine in engines.values():
                engine.wait_until_ready()
            in_turns = partial(serve_in_turns, engines, clocks)
            in_turns(backlog(MIXES[WIDEST], count=devices * seats), tuple(Seating))
            compared = partial(compare, in_turns, seats=devices * seats)
            mixes = [pairs_of(mix, options, compared) for mix in options.mix or MIXES]
    return answer | {"mixes": [[dataclasses.asdict(pair) for pair in pairs] for pairs in mixes]}


def pairs_of(mix: str, options: argparse.Namespace, compared: Callable[..., Comparison]) -> list[Comparison]:
    """Compare on a real engine as often as asked for, the policies take turns in going first."""
    pairs = []
    for order in itertools.islice(itertools.cycle([tuple(Seating), tuple(reversed(Seating))]), options.pairs):
        stolen = Stolen()
        pair = compared(mix=mix, count=options.pictures, loads=options.loads, order=order)
        pairs.append(dataclasses.replace(pair, stolen=stolen.share()))
    return pairs


def median_of(pairs: Sequence[Comparison]) -> Comparison:
    """Return the median of each figure."""
    [first, *_] = pairs
    return Comparison(
        mix=first.mix,
        gain=statistics.median(pair.gain for pair in pairs),
        gain_per_work=statistics.median(pair.gain_per_work for pair in pairs),
        left={
            load: {name: statistics.median(pair.left[load][name] for pair in pairs) for name in figures}
            for load, figures in first.left.items()
        },
        seconds=first.seconds,
        stolen=statistics.median(pair.stolen for pair in pairs),
    )


def told(costs: Costs) -> str:
    """Return the costs as one line."""
    return (
        f"an evaluation {ms(costs.evaluation)}, a run {ms(costs.run.device)} more, "
        f"admitting one image on each device {ms(costs.admit.device)}, decoding {ms(costs.decode.device)}; "
        f"of the host, a run {ms(costs.run.host)}, admitting {ms(costs.admit.host)}, "
        f"decoding {ms(costs.decode.host)}"
    )


def ms(seconds: float) -> str:
    """Return seconds as milliseconds, as text."""
    return f"{seconds * 1000:.1f} ms"


def read_costs(stored: dict[str, Any]) -> Costs:
    """Return costs from JSON."""
    return Costs(
        **{name: Cost(**value) if isinstance(value, dict) else value for name, value in stored.items()}
    )


def read_comparison(stored: dict[str, Any]) -> Comparison:
    """Return a comparison from JSON, whose keys are strings."""
    by_load = {
        name: {float(load): value for load, value in stored[name].items()} for name in ("left", "seconds")
    }
    return Comparison(**(stored | by_load))


if __name__ == "__main__":
    main()
