"""A process that is killed at any moment loses no job and completes none twice."""

import os
import random
import signal
import time
from pathlib import Path

import sqlalchemy as sa
from processes import end, in_tests, start
from stores import TTL, undelivered

from bot.domain.jobs import State
from bot.store import Store

BUSY = in_tests(Path(__file__).with_name("busy_process.py").read_text())
LIVES = 5
PER_LIFE = 1_000_000


async def live_and_die(url: str, life: int, lines: int, err: Path) -> list[list[str]]:
    """Run the busy process, kill it after it has printed `lines` lines, and return its output."""
    ours, its = os.pipe()
    with os.fdopen(ours) as printed:
        with os.fdopen(its, "w") as out:
            arguments = (url, str(life * PER_LIFE))
            bot = await start(*arguments, err=err, out=out.fileno(), program=("-c", BUSY), forked=True)
        said = [printed.readline() for _ in range(lines)]
        await end(bot, signal.SIGKILL)
        said += printed.readlines()
    return [line.split() for line in said if line.endswith("\n")]


async def finish_everything(store: Store) -> None:
    await store.leases.recover("worker")
    while claims := await store.leases.claim("worker", limit=50, ttl=TTL):
        for claim in claims:
            await store.leases.complete(
                claim, artifact=f"{claim.image_id}-{claim.fencing_token}", seconds=1.0
            )


async def check_file(store: Store) -> None:
    async with store.shared.database.read() as connection:
        assert (await connection.execute(sa.text("PRAGMA integrity_check"))).all() == [("ok",)]
        assert (await connection.execute(sa.text("PRAGMA foreign_key_check"))).all() == []


async def test_kills_lose_no_job_and_double_none(database_url: str, tmp_path: Path) -> None:
    moments, err = random.Random(5), tmp_path / "err"
    said = [
        words
        for life in range(LIVES)
        for words in await live_and_die(database_url, life, moments.randint(5, 60), err)
    ]
    accepted = [words[1] for words in said if words[0] == "accepted"]
    tokens = [(words[1], words[2]) for words in said if words[0] == "claimed"]
    completed = {int(words[2]): (words[1], words[3]) for words in said if words[0] == "completed"}
    assert len(accepted) >= LIVES

    store = await Store.open(database_url, clock=time.time)
    try:
        if database_url.startswith("sqlite"):
            await check_file(store)
        await finish_everything(store)
        jobs = {delivery.job.id: delivery.job for delivery in await undelivered(store, limit=100_000)}
        deliveries = len(await undelivered(store, limit=100_000))
        counts = await store.jobs.counts()
    finally:
        await store.close()

    assert set(accepted) <= set(jobs)
    assert (
        len(accepted) == len(set(accepted)) >= len(jobs) - LIVES
    )  # the last line of a life may not have been printed
    assert len(tokens) == len(set(tokens))
    assert deliveries == len(jobs) == sum(counts.values())
    assert counts[State.WAITING] == counts[State.RUNNING] == 0
    for image_id, (job_id, artifact) in completed.items():
        (image,) = [image for image in jobs[job_id].images if image.id == image_id]
        assert (image.state, image.artifact) == (State.DONE, artifact)
