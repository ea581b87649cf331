"""Five members do anything at random, forged presses among it: each act is answered, and nothing breaks."""

from __future__ import annotations

import asyncio
import contextlib
import random

import numpy as np
import pytest
from random_acts import Acts, random_members
from recipes import recipe
from serving import Served, serving

from bot.config import Config
from bot.domain.errors import StaleLease
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import CHANNELS, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.images import encode_png

SEED, ACTS, CALMED = 5, 220, 40
PATIENCE = 60.0  # a busy machine decodes files and paints what waits
MODELS = [{"name": name, "sizes": ["64x64"], "num_inference_steps": 4} for name in ("painter", "inker")]
CONFIG = {
    "models": MODELS,
    "limits": {"requests_per_minute": 0, "server_requests_per_minute": 0, "files_per_minute": 0},
    "queue": {"max_waiting_per_user": 2000, "server_share": 1.0},
}
FILES = (
    encode_png(np.zeros((64, 64, 3), np.uint8), recipe(prompt="a boat").request(0)),
    b"no picture",
    b"\x89PNG\r\n\x1a\n" + b"x" * 50,
)


async def test_random_acts_are_each_answered_and_leave_no_error(
    sandbox: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    acts, chance = Acts(), random.Random(SEED)
    async with (
        serving(sandbox, store, artifacts, Config.parse(CONFIG)) as served,
        random_members(sandbox, seed=SEED, files=FILES, acts=acts) as members,
        Member(sandbox.address, "Mina") as mina,
    ):
        painting = asyncio.create_task(_paint(served))
        for number in range(ACTS):
            if number % CALMED == 0:
                await _calm(mina)
            await chance.choice(members).act()
        await _calm(mina)
        async with asyncio.timeout(PATIENCE):
            while not await _is_quiet(served):  # noqa: ASYNC110 - other tasks' transactions set no event
                await asyncio.sleep(0.05)
        painting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await painting
        [family] = served.bot.services.metrics.refusals.collect()
        reasons = {each.labels["reason"] for each in family.samples}
        every = sandbox._core.interactions._by_id.values()
        silent = [(each.kind, each.name, each.data) for each in every if each.acknowledged is None]
    assert silent == []
    assert reasons & {"unforeseen", "store_unavailable"} == set()
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
    assert len(every) > ACTS // 2


async def _paint(served: Served) -> None:
    while True:
        with contextlib.suppress(StaleLease):  # the person has cancelled the image
            await served.paint_one()
        await asyncio.sleep(0.02)


async def _calm(mina: Member) -> None:
    """Undo blocks and pauses, which would refuse most acts."""
    for channel in CHANNELS:
        await mina.use("moderate resume", channel=channel.name)
    await mina.use("moderate resume", where="server")
    for person in PEOPLE:
        await mina.use("moderate unblock", member=str(person.id))


async def _is_quiet(served: Served) -> bool:
    """Whether every interaction is answered, and every request has ended and was delivered."""
    core = served.sandbox._core
    waiting = [
        each for each in core.interactions._by_id.values() if each.acknowledged is None and not each.failed
    ]
    thinking = [message for message in core.world.messages.values() if message.flags & 128]
    backlog = await served.store.jobs.backlog()
    return not (waiting or thinking or backlog.waiting or backlog.running or backlog.undelivered)
