"""The cost of attacks for the bot and for others: `faults.py attack` and `faults.py attackers` run this.

`attacked`: a front runs as a shipped process on a sandbox. One person has the largest allowed number of
waiting requests. This person then sends commands at the same time, each with a PNG of side × side pixels in a
few hundred kB, and each is refused. Another person sends a small picture at the same moment. Measured:
processor time and memory of the front and its children until all are answered, the other person's wait until
the picture is queued, and the files that remain of the refused commands; all with and without the attack.

`evening`: each of ATTACKERS attacks a front of its own for a while. Meanwhile Mina sends commands with words,
and Wei with a small picture. Measured: how soon Mina is acknowledged, and how soon Wei's picture is queued.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import aiohttp
import PIL.Image
import psutil
from aiohttp import web
from conditions import Stolen
from percentiles import percentile

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from evening import Role, alive, write_role  # noqa: E402 - found by the line above
from hostile_words import HOSTILE  # noqa: E402

from bot.domain.errors import BotError  # noqa: E402
from bot.sandbox.client import InteractionFailed, Member  # noqa: E402
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


ASKED_SECONDS = 0.3  # between two commands of Mina
SENT_SECONDS = 10.0  # between two pictures of Wei: six a minute are allowed
FILES = 1024  # the limit of open files that most systems give a process
HALF_REQUESTS = 1100
SCANS = 900
SIDE = 5000
FEW_FILES = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from bot.cli.main import main
main()
"""
NAMES = ("Ravi", "Omar", "Yuna")  # of those who attack


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What an attacker has: the server, the front with its port, and three accounts."""

    sandbox: Sandbox
    front: Role
    accounts: Sequence[Member]


Attacker = Callable[[Scene], Awaitable[None]]
"""Attacks until it is cancelled."""


async def nobody(_scene: Scene) -> None:
    """The control."""
    await asyncio.Event().wait()


async def idle_connections(scene: Scene) -> None:
    """Hold connections to the web port, each with half a request; each that is closed is opened again."""

    async def hold() -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(5.0):
                    reader, writer = await asyncio.open_connection("127.0.0.1", scene.front.port)
                try:
                    writer.write(b"GET /livez HTTP/1.1\r\nHost: here\r\n")
                    await reader.read()
                finally:
                    writer.close()
            await asyncio.sleep(1.0)

    await asyncio.gather(*(hold() for _ in range(HALF_REQUESTS)))


async def slow_hosts(scene: Scene) -> None:
    """Use "Use this recipe" on a message whose four pictures come a byte a second from another host."""
    bot = {"Authorization": f"Bot {scene.sandbox.token}"}
    channel = (await scene.accounts[0].state())["channels"][0]["id"]
    embeds = [{"image": {"url": f"{scene.sandbox.address}/external/{number}.png"}} for number in range(4)]
    async with (
        aiohttp.ClientSession(headers=bot) as session,
        session.post(
            f"{scene.sandbox.api_url}/channels/{channel}/messages", json={"embeds": embeds}
        ) as posted,
    ):
        message = await posted.json()

    async def use(member: Member) -> None:
        with contextlib.suppress(InteractionFailed, TimeoutError):
            await answered(member, await member.menu(message, "Use this recipe"))

    await _again_and_again(scene, use)


async def many_scans(scene: Scene) -> None:
    """Send a JPEG with many scans that Pillow calls an MPO."""
    costly = as_mpo(_with_scans(SIDE, SCANS))

    async def send(member: Member) -> None:
        with contextlib.suppress(InteractionFailed, TimeoutError):
            await answered(member, await member.imagine(prompt="a tree", image=costly))

    await _again_and_again(scene, send)


async def hostile_terms(scene: Scene) -> None:
    """Ask for words that are stretched forms of all words in long phrases of a rule."""
    await _words(scene, "terms")


async def hostile_patterns(scene: Scene) -> None:
    """Ask for words that keep every place of thirty AutoMod patterns alive."""
    await _words(scene, "patterns")


async def hostile_lists(scene: Scene) -> None:
    """Ask for a style of many places around many words of a list."""
    await _words(scene, "expansion")


async def _words(scene: Scene, kind: str) -> None:
    async with Member(scene.sandbox.address, "Mina") as moderator:
        await HOSTILE[kind].prepare(scene.sandbox, moderator)

        async def send(member: Member) -> None:
            with contextlib.suppress(InteractionFailed, TimeoutError):
                await HOSTILE[kind].send(member)

        await _again_and_again(replace(scene, accounts=[scene.accounts[0]] * 4), send)


async def _again_and_again(scene: Scene, act: Callable[[Member], Awaitable[None]]) -> None:
    async def go_on(member: Member) -> None:
        while True:
            await act(member)
            await asyncio.sleep(0.5)

    await asyncio.gather(*map(go_on, scene.accounts))


ATTACKERS: Mapping[str, Attacker] = MappingProxyType(
    {
        "nobody": nobody,
        "idle": idle_connections,
        "slow": slow_hosts,
        "scans": many_scans,
        "terms": hostile_terms,
        "patterns": hostile_patterns,
        "lists": hostile_lists,
    }
)


def _with_scans(side: int, scans: int) -> bytes:
    """Return a progressive JPEG whose last scan is repeated: a decoder passes over all pixels for each."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (side, side), (200, 30, 30)).save(file, "JPEG", quality=50, progressive=True)
    data = file.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * scans + data[-2:]


def as_mpo(data: bytes) -> bytes:
    """Return the JPEG with the segment that makes it the first of two pictures in one file."""
    file, small = io.BytesIO(), PIL.Image.new("RGB", (8, 8))
    small.save(file, "MPO", save_all=True, append_images=[small])
    begin = file.getvalue().index(b"\xff\xe2")
    length = int.from_bytes(file.getvalue()[begin + 2 : begin + 4])
    return data[:2] + file.getvalue()[begin : begin + 2 + length] + data[2:]


class SlowHosts(Sandbox):
    """A sandbox whose proxy passes on the slowness of other hosts: a byte a second."""

    def _add_routes(self, app: web.Application) -> None:
        app.router.add_get("/external/{rest:.*}", self._trickle)
        super()._add_routes(app)

    async def _trickle(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(1.0)


@dataclass(kw_only=True)
class Waits:
    """Seconds of Mina until she was acknowledged, and of Wei until a picture was queued; failures."""

    acknowledged: list[float] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)
    failed: int = 0


async def _ask(mina: Member, sandbox: Sandbox, waits: Waits, seconds: float) -> None:
    asked: list[str] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        asked.append(await mina.imagine(prompt=f"a tree {len(asked)}"))
        await asyncio.sleep(ASKED_SECONDS)
    await asyncio.sleep(3.0)  # later answers are refused by Discord
    for each in asked:
        found = sandbox._core.interactions.get(int(each))
        if found is None or found.acknowledged_at is None:
            waits.failed += 1
        else:
            waits.acknowledged.append(found.acknowledged_at - found.created_at)


async def _send(wei: Member, waits: Waits, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while (began := time.monotonic()) < ends:
        try:
            waits.queued.append(await wait_of(wei, png(64)))
        except (InteractionFailed, TimeoutError, BotError):
            waits.failed += 1
        await asyncio.sleep(max(0.0, began + SENT_SECONDS - time.monotonic()))


async def evening(folder: Path, *, attackers: Sequence[str], seconds: float) -> None:
    """Print the waits of others beside each attacker."""
    for name in attackers:
        place = folder / name
        place.mkdir()
        async with contextlib.AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(SlowHosts())
            program = ("-c", FEW_FILES)
            front = write_role(place, "front", sandbox, cache=folder / "cache", program=program)
            await stack.enter_async_context(alive([front]))
            mina, wei, *accounts = [
                await stack.enter_async_context(Member(sandbox.address, each))
                for each in ("Mina", "Wei", *NAMES)
            ]
            scene, waits = Scene(sandbox=sandbox, front=front, accounts=accounts), Waits()
            attacking = asyncio.create_task(ATTACKERS[name](scene))  # type: ignore[arg-type]
            await asyncio.sleep(1.0)
            await asyncio.gather(_ask(mina, sandbox, waits, seconds), _send(wei, waits, seconds))
            if attacking.done():
                attacking.result()
            attacking.cancel()
            await asyncio.gather(attacking, return_exceptions=True)
            lines = len(front.logs().splitlines())
        print(
            f"{name:>8}: acknowledged {_told(waits.acknowledged)}; a picture queued {_told(waits.queued)}; "
            f"{waits.failed} without an answer; {lines} lines of log",
            flush=True,
        )


def _told(waits: Sequence[float]) -> str:
    if not waits:
        return "never"
    p50, p99, longest = statistics.median(waits), percentile(waits, 99), max(waits)
    return f"p50 {p50:.3f} s, p99 {p99:.3f} s, longest {longest:.3f} s ({len(waits)})"
