"""All checks for one role."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bot.config import Config
from bot.doctor import database, painting, places, versions
from bot.doctor.discord_side import DiscordSide
from bot.doctor.findings import Check, Finding, run

DEVICE_SECONDS, DISCORD_SECONDS = 90.0, 30.0
CHECKPOINT_SECONDS = DEVICE_SECONDS + 180.0  # includes the wait for the check of the devices


async def examine(
    config: Config,
    file: Path | None,
    *,
    files: Sequence[Path] = (),
    role: str = "both",
    channels: Sequence[int] = (),
) -> AsyncIterator[Finding]:
    """Yield what a start in this role ("front", "worker" or "both") would meet; change nothing.

    `file` is the configuration's, if any; `files` are those that variables of the environment name.
    `channels` are the ids of channels in which the bot needs its permissions.
    """
    checks = [
        Check(part="database", find=partial(database.look, config.queue.database)),
        Check(part=places.PICTURES, find=partial(places.pictures, config.queue.artifacts)),
        Check(part=places.DISK, find=partial(places.disks, config)),
        Check(part=places.MODES, find=partial(places.modes, config, file, files)),
        Check(part="versions", find=versions.look),
        Check(part=places.FILES, find=partial(places.files, config, front=role != "worker")),
        Check(part=places.TRACES, find=partial(places.traces, config)),
    ]
    async with AsyncExitStack() as stack:
        if role != "worker":
            side = DiscordSide(config)
            stack.push_async_callback(side.close)
            looks: list[Callable[[], AsyncIterator[Finding]]] = [
                side.token,
                side.gateway,
                *(partial(side.channel, each) for each in channels),
                side.commands,
            ]
            checks += [Check(part="discord", find=look, seconds=DISCORD_SECONDS) for look in looks]
        if role != "front":
            # One after the other: a TPU belongs to one process.
            turn = asyncio.Lock()
            seconds = {painting.DEVICES: DEVICE_SECONDS, painting.CHECKPOINTS: CHECKPOINT_SECONDS}
            checks += [
                Check(part=part, find=partial(_in_turn, turn, config, part), seconds=limit)
                for part, limit in seconds.items()
            ]
        async for finding in run(checks):
            yield finding


async def _in_turn(turn: asyncio.Lock, config: Config, part: str) -> AsyncIterator[Finding]:
    async with turn:
        async for finding in painting.in_process(config, part):
            yield finding
