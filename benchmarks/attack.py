"""The cost of an attack with costly pictures, for the bot and for other people; `faults.py attack` runs it.

A front runs as a shipped process on a sandbox. One person has the largest allowed number of waiting requests.
This person then sends commands at the same time, each with a PNG of side × side pixels in a few hundred kB,
and each is refused. Another person sends a small picture at the same moment. Measured: processor time and
memory of the front and its children until all are answered, the other person's wait until the picture is
queued, and the files that remain of the refused commands; all of it with and without the attack.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
import psutil
from conditions import Stolen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from evening import Role, alive, write_role  # noqa: E402 - found by the line above

from bot.sandbox.client import Member  # noqa: E402
from bot.sandbox.server import Sandbox  # noqa: E402

SAMPLED_SECONDS = 0.01
ANSWERED_SECONDS = 120.0
LOADING = 1 << 7
MIB = 1 << 20


def png(side: int) -> bytes:
    """Return a transparent picture: many pixels in a small file."""
    file = io.BytesIO()
    PIL.Image.new("RGBA", (side, side), (200, 30, 30, 128)).save(file, "PNG", compress_level=6)
    return file.getvalue()


@dataclass(kw_only=True)
class ResourceUse:
    """The resources that a process and its children have used."""

    processor_seconds: float = 0.0
    peak_bytes: int = 0


@contextlib.asynccontextmanager
async def measured(pid: int) -> AsyncIterator[ResourceUse]:
    """Measure the use of a process and its children until the context ends; memory counts from the start."""
    process, used = psutil.Process(pid), ResourceUse()
    before, had = processor_seconds(process), resident(process)

    async def sample() -> None:
        while True:
            used.peak_bytes = max(used.peak_bytes, resident(process) - had)
            await asyncio.sleep(SAMPLED_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield used
    finally:
        sampling.cancel()
        await asyncio.gather(sampling, return_exceptions=True)
        used.processor_seconds = processor_seconds(process) - before


def processor_seconds(process: psutil.Process) -> float:
    """Return the processor seconds of a process and of its children that have ended."""
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def resident(process: psutil.Process) -> int:
    """Return the resident memory of a process and of its children."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total


async def answered(member: Member, interaction: str) -> None:
    """Wait until the answer to a command has text."""

    def is_answer(message: dict[str, object]) -> bool:
        about = message.get("interaction_metadata")
        return (
            isinstance(about, dict)
            and about.get("id") == interaction
            and not int(str(message["flags"])) & LOADING
        )

    await member.wait_for_message(is_answer, timeout=ANSWERED_SECONDS)


async def wait_of(member: Member, picture: bytes) -> float:
    """Return the seconds from a command with a picture until it is queued."""
    began = time.monotonic()
    await answered(member, await member.imagine(prompt="a tree", image=picture))
    return time.monotonic() - began


async def attack(member: Member, picture: bytes, commands: int) -> None:
    """Send all commands at the same time, and wait until the last is refused."""

    async def one(number: int) -> None:
        await answered(member, await member.imagine(prompt=f"attack {number}", image=picture))

    await asyncio.gather(*(one(number) for number in range(commands)))


async def round_of(folder: Path, *, commands: int, costly: bytes) -> None:
    """Print the figures of one round."""
    async with Sandbox() as sandbox:
        role = write_role(folder, "front", sandbox, cache=folder / "cache")
        text = role.config.read_text()
        role.config.write_text(text.replace("max_waiting_per_user = 100000", "max_waiting_per_user = 1"))
        async with (
            alive([role]),
            Member(sandbox.address, "Omar") as omar,
            Member(sandbox.address, "Ravi") as ravi,
        ):
            await answered(omar, await omar.imagine(prompt="waits"))
            files = len(kept(folder))
            async with measured(pid_of(role)) as used:
                attacking = asyncio.create_task(attack(omar, costly, commands))
                await asyncio.sleep(0.05)  # the attack starts first
                wait = await wait_of(ravi, png(64))
                await attacking
            left = len(kept(folder)) - files - 2  # the other person's picture and its mask
        print(
            f"{commands} commands: {used.processor_seconds:.2f} s of processor time, "
            f"{used.peak_bytes / MIB:.0f} MiB more memory, another person waits {wait:.2f} s, "
            f"{left} files stay"
        )


def pid_of(role: Role) -> int:
    if role.process is None:
        raise RuntimeError(f"{role.name} does not run")
    return role.process.process.pid


def kept(folder: Path) -> list[Path]:
    return list((folder / "artifacts").rglob("*.png"))


async def attacked(folder: Path, *, commands: int, side: int) -> None:
    """Run the control and the attack, each with its own queue."""
    costly, stolen = png(side), Stolen()
    print(f"a PNG of {len(costly) / 1000:.0f} kB with {side**2 / 1e6:.1f} million pixels")
    for count in (0, commands):
        place = folder / str(count)
        place.mkdir()
        await round_of(place, commands=count, costly=costly)
    print(f"load {psutil.getloadavg()[0]:.1f}, {stolen.share():.0%} of the processors' time stolen")
