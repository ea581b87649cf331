"""Whether jobs survive kills, and how fast interactions are answered while the engine is saturated.

    python benchmarks/faults.py kills [--kills 200] [--seed 1] [--pause 0.5] [--longest 4]
    python benchmarks/faults.py starved [--bursts 3] [--commands 20]
    python benchmarks/faults.py attack [--commands 8] [--side 7050]
    python benchmarks/faults.py attackers [--attackers nobody idle slow …] [--seconds 20]
    python benchmarks/faults.py acknowledgement [--seconds 20] [--rate 50] [--processes run apart nice]

`kills`: a front and a worker run as shipped processes on a sandbox, with people who type, press and cancel.
One or both are killed with SIGKILL at random moments: while they start, while they work, while results
arrive. First answers to interactions are lost on the way to Discord or back. Afterwards every accepted job
must be delivered exactly once, and no acknowledged request may be lost. `starved`: bursts of commands reach a
front whose file threads hang. The bursts are so far apart that each needs a new look-up of Discord's name.
`shared`: name look-ups use the hanging threads too; `own`: they have their own threads; `control`: nothing
hangs. Measured from the interaction's creation to the first answer's arrival. `attack`: a person whose cap is
reached sends commands at the same time, each with a PNG of side × side pixels in a few hundred kB. Measured:
the front's processor time and memory, and another person's wait, with a control. `attackers`: each attacks a
front of its own: `idle` connections to its web port, `slow` hosts of embedded pictures, pictures with many
`scans`; or one member asks for words that a server's own `terms`, AutoMod `patterns`, or styles and `lists`
make costly. Measured: how soon others are acknowledged, and their pictures queued. `acknowledgement`:
commands arrive at a fixed rate, for more pictures than the engine can paint. Measured in the sandbox, from
the interaction's creation to the first answer's arrival, with the whole bot in one process (`run`), with a
front and a worker (`apart`), and with the worker at nice 10 (`nice`). The sandbox and the people run in
another process on the same processors.

The queue is SQLite in a temporary folder inside --folder (default: here).
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attack import ATTACKERS, attacked, evening
from conditions import print_conditions
from percentiles import percentile

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from evening import Killer, Role, alive, losing, typing, write_role  # noqa: E402 - found by the line above
from evening_audit import ACCEPTED_SECONDS, Audit, audit, drained, dropped, real_violations  # noqa: E402

from bot.sandbox.client import Member  # noqa: E402
from bot.sandbox.server import Sandbox  # noqa: E402
from bot.store import Store  # noqa: E402

SATURATING = {"steps": 20, "variants": 1}
BACKLOG = 12  # requests of nine pictures that wait before the first command is timed
DRAIN_SECONDS = 600.0
WARM_SECONDS = 3.0
NAME_SECONDS = 16.0  # longer than connections and addresses are kept by aiohttp

# The shipped command; on SIGUSR1 as many calls hang as each thread pool has threads.
HANGING = """
import asyncio, signal, threading
import aiohttp
import bot.front.client
from bot.files.artifacts import Artifacts
kind, open_artifacts = "{kind}", Artifacts.__init__
if kind == "shared":
    bot.front.client.Resolver = aiohttp.ThreadedResolver
def hang(loop, artifacts):
    wait = threading.Event().wait
    for _ in range(40):
        if kind == "shared":
            loop.run_in_executor(None, wait)
        elif kind == "own":
            hanging.append(loop.create_task(artifacts._threads.run(wait)))
hanging = []
def opened(self, *args, **options):
    open_artifacts(self, *args, **options)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, hang, loop, self)
Artifacts.__init__ = opened
from bot.cli.main import main
main()
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("kills", "starved", "attack", "attackers", "acknowledgement"))
    parser.add_argument("--folder", default=".", type=Path)
    parser.add_argument("--checkpoint", default="demo")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between a person's actions")
    parser.add_argument("--longest", type=float, default=4.0, help="seconds of work before a kill, at most")
    parser.add_argument("--loss", type=float, default=1.0, help="seconds between two lost answers, about")
    parser.add_argument("--bursts", type=int, default=3)
    parser.add_argument("--commands", type=int, default=0, help="in one burst (20), of an attack (8)")
    parser.add_argument("--side", type=int, default=7050, help="pixels of the costly picture on each side")
    parser.add_argument("--attackers", nargs="+", choices=ATTACKERS, default=list(ATTACKERS))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=50.0, help="commands a second")
    parser.add_argument("--processes", nargs="+", default=["run", "apart", "nice"])
    return parser.parse_args()


def tell_seconds(values: Sequence[float]) -> str:
    """Return median, 99th percentile and maximum, in seconds, as text."""
    if not values:
        return "never measured"
    p50, p99 = statistics.median(values), percentile(values, 99)
    return f"median {p50:.2f} s, p99 {p99:.2f} s, longest {max(values):.2f} s ({len(values)})"


async def kills(options: argparse.Namespace, folder: Path) -> bool:
    """Run the evening; return whether nothing was lost or doubled."""
    async with Sandbox() as sandbox:
        common = {"cache": folder / "cache", "checkpoint": options.checkpoint}
        roles = [write_role(folder, name, sandbox, **common) for name in ("front", "worker")]
        began = time.monotonic()
        async with alive(roles) as operator, Member(sandbox.address, "Mina") as mina:
            store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
            try:
                async with (
                    typing(sandbox, seed=options.seed, pause=options.pause) as people,
                    losing(sandbox, seed=options.seed, pause=options.loss) as lost,
                ):
                    killer = Killer(roles, operator, sandbox, seed=options.seed)
                    await killer.kill(options.kills, longest_pause=options.longest)
                evening = time.monotonic() - began
                await asyncio.sleep(ACCEPTED_SECONDS)
                await drained(store, seconds=DRAIN_SECONDS)
                found = await audit(store, mina, people, worker_kills=roles[1].kills)
                found.mistakes += await dropped(store, people, roles[0].killed_at)
            finally:
                await store.close()
        tell_kills(roles, killer, found, seconds=evening)
        complaints = [*found.mistakes, *real_violations(sandbox.violations)]
        for complaint in complaints:
            print(f"WRONG: {complaint}")
        used = sum((person.used for person in people), Counter())
        print(f"people used {dict(used)}; first answers lost {dict(lost)}")
        return not complaints


def tell_kills(roles: Sequence[Role], killer: Killer, found: Audit, *, seconds: float) -> None:
    """Print the events of the evening and its result."""
    by_role = ", ".join(f"{role.name} {role.kills}" for role in roles)
    print(
        f"{sum(killer.moments.values())} moments {dict(killer.moments)} in {seconds:.0f} s; kills: {by_role}"
    )
    print(
        f"{found.asked} requests: {found.failed} told at once that nobody answers, {found.unanswered} "
        "promised an answer by a process that died before it accepted them"
    )
    accepted = sum(found.jobs.values())
    print(f"{accepted} accepted {dict(found.jobs)}, delivered {dict(found.outcomes)}")
    share = found.twice / max(1, found.claims)
    print(
        f"{found.pictures} pictures from {found.claims} claims; "
        f"{found.twice} begun for nothing ({share:.1%}), each once for one kill of its worker"
    )
    print(f"{found.given_up} images were failed, with a sentence, because their worker was killed twice")
    for role in roles:
        print(f"{role.name} well again after a kill: {tell_seconds(role.recoveries)}")


async def starved(options: argparse.Namespace, folder: Path) -> bool:
    """Time the answers with and without hanging files; return whether own threads lose no answer."""
    waits = {}
    for kind in ("control", "shared", "own"):
        place = folder / kind
        place.mkdir()
        waits[kind] = await _answered_in_bursts(options, place, kind)
        answered = [wait for wait in waits[kind] if wait is not None]
        print(
            f"{kind:>8}: {len(waits[kind])} commands, {len(waits[kind]) - len(answered)} never acknowledged; "
            f"{tell_milliseconds(answered)}"
        )
    return None not in waits["own"]


async def attack(options: argparse.Namespace, folder: Path) -> bool:
    """Print the cost of refused commands with costly pictures, and a control."""
    await attacked(folder, commands=options.commands or 8, side=options.side)
    return True


async def attackers(options: argparse.Namespace, folder: Path) -> bool:
    """Print what other people wait beside each attacker."""
    await evening(folder, attackers=options.attackers, seconds=options.seconds)
    return True


async def _answered_in_bursts(options: argparse.Namespace, place: Path, kind: str) -> list[float | None]:
    async with Sandbox() as sandbox:
        sandbox._core.world.address = sandbox.address.replace("127.0.0.1", "localhost")
        program = ("-c", HANGING.format(kind=kind))
        front = write_role(place, "front", sandbox, cache=place, program=program)
        async with alive([front]), Member(sandbox.address, "Mina") as mina:
            if front.process is not None:
                front.process.process.send_signal(signal.SIGUSR1)
            commands = options.commands or 20
            for number in range(options.bursts):
                await asyncio.sleep(NAME_SECONDS)
                calls = (
                    mina.imagine(prompt="a red circle", seed=number * commands + each)
                    for each in range(commands)
                )
                await asyncio.gather(*calls)
            await asyncio.sleep(WARM_SECONDS + 1.0)
            return sandbox.acknowledgement_seconds


async def acknowledgement(options: argparse.Namespace, folder: Path) -> bool:
    """Time the answers in each arrangement of processes; return whether all are within half a second."""
    good = True
    for processes in options.processes:
        place = folder / processes
        place.mkdir()
        p99 = await _acknowledged(options, place, folder / "cache", processes)
        good = good and p99 <= 0.5
    return good


async def _acknowledged(options: argparse.Namespace, place: Path, cache: Path, processes: str) -> float:
    async with Sandbox() as sandbox:
        names = ("run",) if processes == "run" else ("front", "worker")
        roles = [
            write_role(place, name, sandbox, cache=cache, checkpoint=options.checkpoint) for name in names
        ]
        async with alive(roles) as operator, Member(sandbox.address, "Mina") as mina:
            if processes == "nice" and roles[-1].process is not None:
                os.setpriority(os.PRIO_PROCESS, roles[-1].process.process.pid, 10)
                _renice_threads(roles[-1].process.process.pid)
            for _ in range(BACKLOG):
                await mina.imagine(prompt="a red circle", steps=50, variants=9)
            await asyncio.sleep(WARM_SECONDS)
            before = len(sandbox.acknowledgement_seconds)
            await send(mina, rate=options.rate, seconds=options.seconds)
            await asyncio.sleep(WARM_SECONDS)
            waits = sandbox.acknowledgement_seconds[before:]
            stalls = [await role.metrics(operator) for role in roles]
        answered = [wait for wait in waits if wait is not None]
        print(
            f"{processes:>5}: {len(waits)} commands, {len(waits) - len(answered)} never acknowledged; "
            f"{tell_milliseconds(answered)}"
        )
        for role, counted in zip(roles, stalls, strict=True):
            longest = counted["sdjax_loop_longest_stall_seconds"] * 1e3
            print(
                f"       {role.name}: {counted['sdjax_loop_stalls_total']:.0f} stalls over 250 ms "
                f"(longest {longest:.0f} ms), {counted['process_cpu_seconds_total']:.0f} s of processor time"
            )
        return percentile([math.inf if wait is None else wait for wait in waits], 99)


def _renice_threads(pid: int) -> None:
    """Set the priority of every thread: on Linux each thread has its own, and new threads inherit it."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), 10)


async def send(member: Member, *, rate: float, seconds: float) -> None:
    """Send commands at fixed times, without waiting for answers."""
    began = time.monotonic()
    calls: set[asyncio.Task[str]] = set()
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        calls.add(asyncio.create_task(member.imagine(prompt="a red circle", seed=number, **SATURATING)))
    await asyncio.gather(*calls)


def tell_milliseconds(values: Sequence[float]) -> str:
    """Return median, 95th and 99th percentile and maximum, in milliseconds, as text."""
    if not values:
        return "no answer at all"
    p50, p95, p99 = (percentile(values, percent) * 1e3 for percent in (50, 95, 99))
    return f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms, longest {max(values) * 1e3:.0f} ms"


def main() -> None:
    """Print the conditions, then the figures; the exit status is 1 if a goal is missed."""
    options = arguments()
    works = {
        "kills": kills,
        "starved": starved,
        "attack": attack,
        "attackers": attackers,
        "acknowledgement": acknowledgement,
    }
    work = works[options.what]
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="faults-benchmark-") as made:
        print_conditions("jax", "discord.py", "pillow", "sqlalchemy", "aiosqlite")
        print(
            f"load {os.getloadavg()[0]:.1f}; checkpoint {options.checkpoint} at 64x64, 2 seats on each of 2"
        )
        sys.exit(0 if asyncio.run(work(options, Path(made).absolute())) else 1)


if __name__ == "__main__":
    main()
