"""An evening on the sandbox: people who type and press, shipped processes that are killed at random.

Used by a test with a few kills and by `benchmarks/faults.py` with hundreds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from processes import BOT, Bot, start
from results import labels, text_of

from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.server import Sandbox

Message = dict[str, Any]
PEOPLE = ("Mina", "Ravi", "Omar")  # their locale is English: buttons are found by their English labels
OPEN_AT_ONCE = 5  # active requests per person
FORGOTTEN_SECONDS = 12.0  # after which a person no longer counts a request as open
START_SECONDS = 120.0
HEARD_SECONDS = 4.0  # Discord's client says after 3 s that nobody has answered
WAYS_TO_LOSE = ("rest_5xx", "lose_answers", "drop_requests", "drop_answers", "hang_answers")
POLL_SECONDS = 0.02


given: set[int] = set()  # ports; the system may give one again before a process listens there


def free_port() -> int:
    """Return a port that is free now, and another at each call."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    given_before = port in given
    given.add(port)
    return free_port() if given_before else port


@dataclass(kw_only=True)
class Role:
    """One shipped process that a supervisor restarts.

    `name` is the process's name, `role` the command of the command line, `program` the arguments of Python.
    A `forked` process starts quickly: the bot is imported before its program begins.
    """

    name: str
    role: str
    program: Sequence[str] = BOT
    config: Path
    port: int
    forked: bool = False
    process: Bot | None = None
    lives: int = 0
    kills: int = 0
    killed_at: list[float] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)

    async def start(self) -> None:
        """Start the process; each life has its own log file."""
        self.lives += 1
        err = self.config.with_name(f"{self.name}-{self.lives}.err")
        how: dict[str, Any] = {"program": self.program, "forked": self.forked}
        self.process = await start(self.role, "--config", str(self.config), err=err, **how)

    async def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.process.send_signal(signal.SIGKILL)
            await process.process.wait()

    async def health(self, people: aiohttp.ClientSession) -> dict[str, Any] | None:
        """Return /health, or None without an answer; fails if the process has ended by itself."""
        if self.process is not None and self.process.process.returncode is not None:
            raise AssertionError(f"{self.name} has ended:\n{self.process.err.read_text()[-4000:]}")
        try:
            async with people.get(f"http://127.0.0.1:{self.port}/health") as page:
                found: dict[str, Any] = await page.json()
                return found
        except aiohttp.ClientError:
            return None

    async def well(self, people: aiohttp.ClientSession, *, seconds: float = START_SECONDS) -> None:
        """Wait until every part is well."""
        async with asyncio.timeout(seconds):
            while not await self.is_well(people):  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(POLL_SECONDS)

    async def unwell(self, people: aiohttp.ClientSession, *, seconds: float = START_SECONDS) -> None:
        """Wait until a part is not well; /health may repeat an answer for a second."""
        async with asyncio.timeout(seconds):
            while await self.is_well(people):  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(POLL_SECONDS)

    async def is_well(self, people: aiohttp.ClientSession) -> bool:
        """Return whether every part is well now."""
        health = await self.health(people)
        return health is not None and health["status"] == "well"

    async def metrics(self, people: aiohttp.ClientSession) -> dict[str, float]:
        """Return the metrics by name with labels."""
        async with people.get(f"http://127.0.0.1:{self.port}/metrics") as page:
            lines = (await page.text()).splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def logs(self) -> str:
        """Return the logs of all lives."""
        lives = range(1, self.lives + 1)
        return "".join(self.config.with_name(f"{self.name}-{life}.err").read_text() for life in lives)


def write_role(
    folder: Path,
    role: str,
    sandbox: Sandbox,
    *,
    cache: Path,
    checkpoint: str = "demo",
    name: str = "",
    database: str = "",
    program: Sequence[str] = BOT,
    forked: bool = False,
) -> Role:
    """Return a role with its own configuration; roles in one folder share the queue."""
    name = name or role
    port = free_port()
    (folder / "token").write_text("a-token")
    config = folder / f"{name}.toml"
    config.write_text(
        f"""
        [discord]
        api_url = {json.dumps(sandbox.api_url)}
        gateway_url = {json.dumps(sandbox.gateway_url)}
        token_file = {json.dumps(str(folder / "token"))}
        [[models]]
        name = "painter"
        checkpoint = {json.dumps(checkpoint)}
        sizes = ["64x64"]
        num_inference_steps = 8
        guidance_scale = 2.2
        sampler = "ddim"
        [engine]
        seats_per_device = 2
        cpu_devices = 2
        cache_dir = {json.dumps(str(cache))}
        [queue]
        database = {json.dumps(database or f"sqlite+aiosqlite:///{folder}/queue.sqlite3")}
        artifacts = {json.dumps(str(folder / "artifacts"))}
        lease_seconds = 5.0
        max_waiting_per_user = 100000
        max_waiting = 100000
        server_share = 1.0
        kept_share = 0.0
        [limits]
        requests_per_minute = 0
        server_requests_per_minute = 0
        [web]
        port = {port}
        """
    )
    return Role(name=name, role=role, program=program, config=config, port=port, forked=forked)


@contextlib.asynccontextmanager
async def alive(roles: Sequence[Role]) -> AsyncIterator[aiohttp.ClientSession]:
    """Start all roles and wait until they are well; end all of them at the end."""
    try:
        async with aiohttp.ClientSession() as people:
            for role in roles:
                await role.start()
            for role in roles:
                await role.well(people)
            yield people
    finally:
        for role in roles:
            await role.kill()


class Person:
    """Types /imagine, presses Again and Vary under pictures, and sometimes cancels."""

    def __init__(self, member: Member, chance: random.Random) -> None:
        self._member = member
        self._chance = chance
        self._read = 0
        self._open: dict[str, float] = {}
        self.shown: dict[str, Message] = {}  # the newest version of each message
        self.asked: set[str] = set()  # interactions that may create a job
        self.asked_at: dict[str, float] = {}
        self.promised: set[str] = set()  # the interactions whose message showed a queued job
        self.failed: set[str] = set()  # the interactions that the bot did not answer
        self.used: Counter[str] = Counter()

    async def live(self, *, pause: float) -> None:
        """Act for ever, on average every `pause` seconds."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.8) * pause)
            self.read()
            with contextlib.suppress(RefusedByClient):
                await self._act()

    async def _act(self) -> None:
        dice = self._chance.random()
        if dice < 0.2 and (message := self._pick("Cancel")):
            self.used["Cancel"] += 1
            await self._member.press(message, "Cancel")
        elif len(self._open) >= OPEN_AT_ONCE:
            return
        elif dice < 0.45 and (message := self._pick("Again", "Vary")):
            label = self._chance.choice([name for name in ("Again", "Vary") if name in labels(message)])
            self.used[label] += 1
            self._note(await self._member.press(message, label))
        else:
            self.used["imagine"] += 1
            wish = {"steps": self._chance.randint(4, 24), "variants": self._chance.randint(1, 3)}
            self._note(await self._member.imagine(prompt="a red circle on a white background", **wish))

    def _note(self, interaction: str) -> None:
        self.asked.add(interaction)
        self._open[interaction] = self.asked_at[interaction] = time.monotonic()

    def _pick(self, *wanted: str) -> Message | None:
        found = [
            message
            for message in self.shown.values()
            if set(wanted) & set(labels(message)) and self._mine(message)
        ]
        return self._chance.choice(found[-20:]) if found else None

    def _mine(self, message: Message) -> bool:
        return interaction_of(message) in self.asked

    def read(self) -> None:
        """Read the events since the last call."""
        events = self._member.events[self._read :]
        self._read += len(events)
        for event in events:
            data = event["data"]
            if event["type"] in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
                self._see(data)
            elif event["type"] == "INTERACTION_FAILED":
                self.failed.add(data["interaction_id"])
                self._open.pop(data["interaction_id"], None)
        long_ago = time.monotonic() - FORGOTTEN_SECONDS
        self._open = {each: at for each, at in self._open.items() if at > long_ago}

    def _see(self, message: Message) -> None:
        self.shown[message["id"]] = message
        interaction = interaction_of(message)
        if interaction in self.asked and is_of_job(message):
            self.promised.add(interaction)
            if is_final(message):
                self._open.pop(interaction, None)


def interaction_of(message: Message) -> str:
    """Return the id of the interaction that a message answers, or an empty text."""
    return str((message.get("interaction_metadata") or {}).get("id", ""))


def is_of_job(message: Message) -> bool:
    """Return whether a message shows a job: every such message has the prompt."""
    return "a red circle" in text_of(message)


def is_final(message: Message) -> bool:
    """Return whether a message shows an ended job."""
    return is_of_job(message) and "Cancel" not in labels(message)


@contextlib.asynccontextmanager
async def typing(sandbox: Sandbox, *, seed: int, pause: float) -> AsyncIterator[list[Person]]:
    """Run people until the block ends; they can still read afterwards, with `Person.read`."""
    async with contextlib.AsyncExitStack() as stack:
        people = []
        for number, name in enumerate(PEOPLE):
            member = await stack.enter_async_context(Member(sandbox.address, name))
            people.append(Person(member, random.Random(seed * 100 + number)))
        lives = [asyncio.create_task(person.live(pause=pause)) for person in people]
        try:
            yield people
        finally:
            for life in lives:
                life.cancel()
            ended = await asyncio.gather(*lives, return_exceptions=True)
            for each in ended:
                if isinstance(each, Exception):
                    raise each
            await asyncio.sleep(HEARD_SECONDS)  # they see the answers to their last requests


@contextlib.asynccontextmanager
async def losing(sandbox: Sandbox, *, seed: int, pause: float) -> AsyncIterator[Counter[str]]:
    """Lose first answers to interactions, as requests or as responses, about one every `pause` seconds."""
    chance, used = random.Random(seed), Counter[str]()

    async def lose() -> None:
        while True:
            await asyncio.sleep(chance.uniform(0.2, 1.8) * pause)
            way = chance.choice(WAYS_TO_LOSE)
            used[way] += 1
            sandbox.misbehave(**{way: 1, "on": "/callback"})

    losses = asyncio.create_task(lose())
    try:
        yield used
    finally:
        losses.cancel()
        await asyncio.gather(losses, return_exceptions=True)
        sandbox.misbehave(**dict.fromkeys(WAYS_TO_LOSE, 0))


class Killer:
    """Kills roles at random moments: while they start, while they work, and when results arrive."""

    def __init__(self, roles: Sequence[Role], people: aiohttp.ClientSession, sandbox: Sandbox, *, seed: int):
        self._roles = roles
        self._people = people
        self._sandbox = sandbox
        self._chance = random.Random(seed)
        self.moments: Counter[str] = Counter()

    async def kill(self, times: int, *, longest_pause: float) -> None:
        """Kill `times` times one role or all roles together, and restart them at once."""
        waiting: set[asyncio.Task[None]] = set()
        for _ in range(times):
            moment = self._chance.choice(("start", "work", "work", "delivery"))
            await self._wait_for(moment, longest_pause)
            several = len(self._roles) > 1 and self._chance.random() < 0.25
            doomed = list(self._roles) if several else [self._chance.choice(self._roles)]
            self.moments[moment] += 1
            for role in doomed:
                await role.kill()
                role.kills += 1
                role.killed_at.append(time.monotonic())
                await role.start()
                task = asyncio.create_task(self._recovered(role, role.lives, time.monotonic()))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)

    async def _recovered(self, role: Role, life: int, since: float) -> None:
        """Record the seconds until the role is well again, unless it is killed before."""
        while role.lives == life:
            if role.process is not None and await role.is_well(self._people):
                role.recoveries.append(time.monotonic() - since)
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_for(self, moment: str, longest_pause: float) -> None:
        if moment == "start":
            await asyncio.sleep(self._chance.uniform(0.0, min(3.0, longest_pause)))
            return
        for role in self._roles:
            await role.well(self._people)
        if moment == "delivery":
            await self._next_picture(longest_pause)
            await asyncio.sleep(self._chance.uniform(0.0, 0.05))
        else:
            await asyncio.sleep(self._chance.uniform(0.0, longest_pause))

    async def _next_picture(self, seconds: float) -> None:
        """Return when a person sees a picture, or after `seconds`."""
        async with Member(self._sandbox.address, "Mina") as onlooker:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    seen = 0
                    while not any(shows_picture(event) for event in onlooker.events[seen:]):
                        seen = len(onlooker.events)
                        await asyncio.sleep(0.005)


def shows_picture(event: Message) -> bool:
    """Whether an event brings a picture."""
    return event["type"] == "MESSAGE_UPDATE" and bool(event["data"].get("attachments"))
