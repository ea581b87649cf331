"""The audit after an evening: every accepted job was delivered exactly once, and nothing is left."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from evening import Message, Person, interaction_of, is_final, is_of_job

from bot.domain.jobs import State
from bot.sandbox.client import Member
from bot.store import Store
from bot.store.tables.outbox import outbox
from bot.store.tables.queue import images, jobs

# The last words of the violation that a request causes if it is lost with its front before it is accepted.
DIED = "deferred and never answered within 15 min"
ACCEPTED_SECONDS = 10.0  # in which a living front accepts or refuses a request


@dataclass(kw_only=True)
class Audit:
    """The result of an audit; `mistakes` must be empty."""

    mistakes: list[str] = field(default_factory=list)
    jobs: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    pictures: int = 0
    claims: int = 0
    deaths: int = 0
    given_up: int = 0
    asked: int = 0
    failed: int = 0
    unanswered: int = 0

    @property
    def twice(self) -> int:
        """The number of restarts of images after a worker's death."""
        return self.deaths


async def painted(store: Store, least: int, *, seconds: float) -> None:
    """Wait until at least `least` jobs are done."""
    done = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.state == State.DONE)
    async with asyncio.timeout(seconds):
        while True:
            async with store.shared.database.read() as connection:
                if (await connection.execute(done)).scalar_one() >= least:
                    return
            await asyncio.sleep(0.1)


async def drained(store: Store, *, seconds: float) -> None:
    """Wait until no image waits or runs and no delivery is due."""
    async with asyncio.timeout(seconds):
        while not await _is_empty(store):  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.1)


async def _is_empty(store: Store) -> bool:
    backlog = await store.jobs.backlog()
    return not (backlog.waiting or backlog.running or backlog.undelivered)


async def audit(store: Store, member: Member, people: Sequence[Person], *, worker_kills: int) -> Audit:
    """Compare the messages that people see with the store."""
    found = Audit()
    rows, of_job = await _read(store)
    left = {message["id"]: message for message in await member.messages()}
    messages: dict[str, list[Message]] = defaultdict(list)
    for message in left.values():
        messages[interaction_of(message)].append(message)
    for row in rows:
        found.jobs[row.state.value] += 1
        found.outcomes[row.outcome or "none"] += 1
        shown = {each["id"]: each for each in messages[str(row.interaction_id)] if is_of_job(each)}
        # The result is in a new message if the first message's id was not stored and its token has expired.
        if str(row.message_id) in left:
            shown[str(row.message_id)] = left[str(row.message_id)]
        _check_job(row, list(shown.values()), found)
        for each in shown:
            left.pop(each, None)
        for image in of_job[row.id]:
            _check_image(image, row, worker_kills, found)
    _check_people(people, {str(row.interaction_id) for row in rows}, found)
    strange = [each for each in left.values() if is_of_job(each)]
    found.mistakes += [f"message {each['id']} shows a job that is not its own" for each in strange]
    return found


async def _read(store: Store) -> tuple[list[Any], dict[str, list[Any]]]:
    columns = (jobs.c.id, jobs.c.interaction_id, jobs.c.state, outbox.c.outcome, jobs.c.message_id)
    async with store.shared.database.read() as connection:
        with_delivery = (
            sa.select(*columns)
            .join(outbox, outbox.c.job_id == jobs.c.id, isouter=True)
            .order_by(jobs.c.created_at)
        )
        rows = list(await connection.execute(with_delivery))
        of_job: dict[str, list[Any]] = defaultdict(list)
        for image in await connection.execute(sa.select(images)):
            of_job[image.job_id].append(image)
    return rows, of_job


def _check_job(row: Any, shown: list[Message], found: Audit) -> None:
    name = f"job {row.id} ({row.state.value}, {row.outcome})"
    if not row.state.final:
        found.mistakes.append(f"{name} has not ended")
    if row.outcome is None:
        found.mistakes.append(f"{name} was not delivered")
    if len(shown) != 1:
        found.mistakes.append(f"{name} has {len(shown)} messages")
        return
    (message,) = shown
    if not is_final(message):
        found.mistakes.append(f"{name} still shows {message['components']}")
    pictures = [each["filename"] for each in message["attachments"]]
    if row.state is State.DONE and (len(pictures) != 1 or not pictures[0].startswith(row.id)):
        found.mistakes.append(f"{name} shows {pictures}")
    if row.message_id is not None and str(row.message_id) != message["id"]:
        found.mistakes.append(f"{name} was noted at another message")


def _check_image(image: Any, row: Any, worker_kills: int, found: Audit) -> None:
    found.pictures += image.state is State.DONE
    found.claims += image.fencing_token
    found.deaths += image.leases_lost
    found.given_up += image.failure == "worker_died"
    if not image.state.final:
        found.mistakes.append(f"image {image.id} of {row.id} is still held")
    again = max(0, image.fencing_token - 1)
    if again > image.leases_lost or image.leases_lost > worker_kills:
        found.mistakes.append(
            f"image {image.id} was claimed {image.fencing_token} times for {image.leases_lost} lost leases"
        )


def _check_people(people: Sequence[Person], stored: set[str], found: Audit) -> None:
    for person in people:
        person.read()
        found.asked += len(person.asked)
        found.failed += len(person.failed & person.asked - stored)
        found.unanswered += len(person.asked - person.failed - stored)
        found.mistakes += [
            f"{interaction} was said to be queued and is not" for interaction in person.promised - stored
        ]


def real_violations(violations: Sequence[str]) -> list[str]:
    """Return the sandbox's violations without those that a kill causes."""
    return [each for each in violations if not each.endswith(DIED)]


async def dropped(store: Store, people: Sequence[Person], deaths: Sequence[float]) -> list[str]:
    """Return requests that became no job although no front died while it could have handled them.

    `deaths` are the times of the fronts' deaths, by the clock of the people's requests.
    """
    rows, _ = await _read(store)
    stored = {str(row.interaction_id) for row in rows}
    return [
        f"{interaction} was acknowledged and became no job"
        for person in people
        for interaction in person.asked - person.failed - stored
        if not any(0.0 <= death - person.asked_at[interaction] <= ACCEPTED_SECONDS for death in deaths)
    ]
