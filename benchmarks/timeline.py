"""A full queue on the real engine in JAX's profiler: when devices work, and what the host does meanwhile.

    python benchmarks/timeline.py [--devices 2] [--seats 4] [--size 128x128] [--picture FILE.svg]

Images of 4 to 50 steps are painted while others wait for every seat. A device is busy from the first to the
last operation of each program, by XLA's events on the computing threads. The gaps are all other times between
the first and the last run. The goal is at most 3 % of the devices' time. Slices of one CPU share their cores;
for them the idle time of the cores counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from conditions import print_conditions
from serving_arrivals import MIXES, backlog
from serving_engine import open_engine, request_for
from timeline_picture import draw
from timeline_trace import HOST, Timeline, read_timeline

from sdjax_engine.memory.devices import usable_cores

IN_LINE = 16  # requests that wait beyond those in seats or in queued runs
GOAL = 0.03


class Annotated:
    """Wraps an object of the engine; its calls, and the calls of its results, are named in the trace."""

    NAMES: Mapping[str, str] = {
        "admit": "admit",
        "denoise": "queue a run",
        "take": "queue decoding",
        "decode": "queue decoding",
        "wait": "wait for a run",
        "fetch": "wait for pictures",
    }

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return the inner object's attribute, annotated if it has a name here."""
        value = getattr(self._inner, name)
        if name not in self.NAMES:
            return value

        def call(*arguments: Any) -> Any:
            with jax.profiler.TraceAnnotation(HOST + self.NAMES[name]):
                answer = value(*arguments)
            if isinstance(answer, Mapping):
                return {key: Annotated(each) for key, each in answer.items()}
            return Annotated(answer) if hasattr(answer, "wait") else answer

        return call


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--seats", type=int, default=4)
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--picture", type=Path, help="where to draw it, an SVG")
    parser.add_argument("--cache", type=Path, help="a folder that keeps compiled programs")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    print_conditions("jax", "jaxlib", "flax")
    print(f"conditions: {', '.join(f'{name} {value}' for name, value in vars(options).items() if value)}")
    with tempfile.TemporaryDirectory() as folder:
        cores = record(options, options.cache or Path(folder) / "cache", Path(folder) / "trace")
        timeline = read_timeline(Path(folder) / "trace")
    print_gaps(timeline)
    print(f"of the time of {usable_cores()} cores this process left over {1 - cores:.1%}")
    if options.picture:
        options.picture.write_text(draw(timeline))


def record(options: argparse.Namespace, cache: Path, trace: Path) -> float:
    """Fill seats and queue, and record a trace; return the used share of the cores."""
    width, height = map(int, options.size.split("x"))
    with open_engine(
        checkpoint=options.checkpoint,
        size=(width, height),
        cpu_devices=options.devices,
        seats_per_device=options.seats,
        cache_dir=cache,
    ) as engine:
        [queue] = engine._thread.queues.values()
        queue.device = Annotated(queue.device)
        [lane] = engine.lanes
        waiting = []
        begin_at = 8 * engine.capacity(lane) + IN_LINE
        for arrival in backlog(MIXES["4-50"], count=10_000):
            waiting.append(engine.submit(request_for(arrival, lane)))
            if len(waiting) > 4 * engine.capacity(lane) + IN_LINE:
                waiting.pop(0).result()
            if arrival.seed == begin_at:
                jax.profiler.start_trace(trace, profiler_options=quiet())
                begun, used = time.perf_counter(), time.process_time()
            if arrival.seed > begin_at and time.perf_counter() > begun + options.seconds:
                break
        cores = (time.process_time() - used) / (time.perf_counter() - begun) / usable_cores()
        jax.profiler.stop_trace()
        engine.close(drain=False)
    return cores


def quiet() -> jax.profiler.ProfileOptions:
    """Return options without Python calls, whose recording would take longer than the measured work."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return options


def print_gaps(timeline: Timeline) -> None:
    """Print the devices' busy shares and the host's work in the gaps."""
    idle = []
    for device, spans in timeline.devices.items():
        shares = Counter[str]()
        for span in spans:
            shares[span.what] += span.seconds / timeline.seconds
        idle.append(1 - timeline.busy(device))
        told = ", ".join(f"{what} {share:.1%}" for what, share in shares.most_common())
        print(f"device {device}: {told}, idle {idle[-1]:.1%} of {timeline.seconds:.1f} s")
    runs = [span.seconds for spans in timeline.devices.values() for span in spans if span.what == "denoise"]
    print(f"{len(runs)} runs, {statistics.median(runs) * 1000:.0f} ms in the median")
    print(f"between runs and other work: {statistics.fmean(idle):.1%} of the devices' time (goal {GOAL:.0%})")
    during: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for device in timeline.devices:
        for gap in timeline.gaps(device):
            kinds[gap.what] += gap.seconds
            doing = list(timeline.meanwhile(gap))
            for span in doing:
                during[span.what] += span.seconds
            during["anything else"] += gap.seconds - sum(span.seconds for span in doing)
    for title, found in (("gaps", kinds), ("the host then", during)):
        total = sum(found.values()) or 1.0
        shares = (f"{what} {seconds / total:.0%}" for what, seconds in found.most_common(6))
        print(f"{title}: {', '.join(shares)}")


if __name__ == "__main__":
    main()
