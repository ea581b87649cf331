"""The shipped command as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from forked import Forked, forks

ROOT = Path(__file__).parents[1]
START_SECONDS = 200.0
END_SECONDS = 60.0
BOT = ("-m", "bot")
START = """
from bot.cli.main import main
main()
"""
SLOW_DEVICES = (
    Path(__file__).with_name("slow_devices.py").read_text()
    + """
slow = slow_devices(0.3)
slow.__enter__()
"""
)
"""Makes each run of the devices take at least 0.3 s, so that a few cheap steps take long."""

SLOW_BOT = ("-c", SLOW_DEVICES + START)
"""The arguments of Python for the shipped command on slow devices."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The exit status and the standard error of a finished process."""

    status: int
    err: str


@dataclass(frozen=True, kw_only=True)
class Bot:
    """A process of the bot; its standard error goes to a file, since a full pipe would stop it."""

    process: asyncio.subprocess.Process | Forked
    err: Path


def write_config(
    folder: Path,
    *,
    api_url: str,
    gateway_url: str,
    checkpoint: Path,
    cache: Path,
    token: str = "a-token",
    discord: str = "",
    engine: str = "",
    database: str | None = None,
    artifacts: Path | None = None,
) -> Path:
    """A configuration file in `folder`, as an operator would write it.

    The process knows the sandbox from it alone. `discord` and `engine` are further keys of these sections.
    The queue and the pictures are in the folder too, unless `database` or `artifacts` names another place.
    """
    database = database or f"sqlite+aiosqlite:///{folder}/queue.sqlite3"
    (folder / "token").write_text(token)
    file = folder / "config.toml"
    file.write_text(
        f"""
        [discord]
        api_url = {json.dumps(api_url)}
        gateway_url = {json.dumps(gateway_url)}
        token_file = {json.dumps(str(folder / "token"))}
        {discord}
        [[models]]
        name = "tiny"
        checkpoint = {json.dumps(str(checkpoint))}
        sizes = ["64x64"]
        num_inference_steps = 4
        [engine]
        seats_per_device = 2
        cpu_devices = 2
        cache_dir = {json.dumps(str(cache))}
        {engine}
        [queue]
        database = {json.dumps(database)}
        artifacts = {json.dumps(str(artifacts or folder / "artifacts"))}
        max_waiting_per_user = 1000
        [limits]
        requests_per_minute = 0
        """
    )
    return file


def in_tests(program: str) -> str:
    """Return the source of a program that imports modules of the tests."""
    return f"import sys\nsys.path.insert(0, {str(ROOT / 'tests')!r})\n{program}"


async def start(
    *arguments: str,
    err: Path,
    folder: Path | None = None,
    out: int | None = None,
    program: Sequence[str] = BOT,
    forked: bool = False,
) -> Bot:
    """Start `sdjax-bot` with these arguments, in `folder`; `out` is where its standard output goes.

    `program` are the arguments of Python: the bot itself, or another program. A forked process cannot restart
    itself; its program begins after the imports of the bot.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if forked and hasattr(os, "pidfd_open"):  # of Linux
        source = START if program == BOT else program[-1]
        begun = forks(ROOT).fork(source, arguments, err=err, environment=environment, folder=folder, out=out)
        return Bot(process=await asyncio.wrap_future(begun), err=err)
    with err.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *program, *arguments),
            cwd=folder,
            env=environment,
            stdout=out,
            stderr=file,
        )
    return Bot(process=process, err=err)


async def end(bot: Bot, number: signal.Signals | None = None) -> Ended:
    """Send the signal, if any, and wait for the end."""
    if number is not None and bot.process.returncode is None:
        bot.process.send_signal(number)
    async with asyncio.timeout(END_SECONDS if number else START_SECONDS):
        status = await bot.process.wait()
    return Ended(status=status, err=bot.err.read_text())


async def finished(config: Path, *, forked: bool = True) -> Ended:
    """Run the bot to its own end."""
    err = config.with_suffix(".err")
    return await end(await start("run", "--config", str(config), err=err, forked=forked))


@asynccontextmanager
async def running(
    config: Path, *, role: str = "run", name: str = "", program: Sequence[str] = BOT, forked: bool = True
) -> AsyncIterator[Bot]:
    """The bot as a process of this role, killed at the end if it still runs.

    `name` distinguishes its error file from those of other processes with the same configuration.
    """
    err = config.with_suffix(f".{name}.err" if name else ".err")
    bot = await start(role, "--config", str(config), err=err, program=program, forked=forked)
    try:
        yield bot
    finally:
        if bot.process.returncode is None:
            bot.process.kill()
            await bot.process.wait()


def sentences(err: str) -> Sequence[str]:
    """The lines on stderr that are no log."""
    return [line for line in err.splitlines() if line.startswith("sdjax-bot: ")]
