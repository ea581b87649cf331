"""Copies of a deleted result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from recipes import job_of

from bot.domain.jobs import Job, State
from bot.front.results.removal import remove_copies

DEPTH = 3000  # beyond Python's limit of calls in each other


@pytest.mark.parametrize("depth", [3, DEPTH])
async def test_copies_of_copies_go_before_the_copies_however_many_they_are(depth: int) -> None:
    deleted: list[str] = []

    async def copies(job_id: str) -> list[Job]:
        number = int(job_id)
        below = (number + 1, number + 1_000_000) if number < depth else ()
        return [copy_of(each) for each in below]

    async def delete_result(job_id: str, *, user_id: int | None) -> list[str]:
        deleted.append(job_id)
        return [f"{job_id}.png"]

    async def drop(_names: list[str]) -> None:
        """Drop nothing."""

    store = SimpleNamespace(
        jobs=SimpleNamespace(copies=copies), deliveries=SimpleNamespace(delete_result=delete_result)
    )
    services = SimpleNamespace(store=store, files=SimpleNamespace(drop=drop))
    interaction = cast("Any", SimpleNamespace(client=SimpleNamespace(services=services)))
    await remove_copies(interaction, copy_of(0))
    assert len(deleted) == 2 * depth
    places = {job_id: place for place, job_id in enumerate(deleted)}
    assert all(places[str(number + 1)] < places[str(number)] for number in range(1, depth))


def copy_of(number: int) -> Job:
    """A job without a message."""
    return cast("Job", SimpleNamespace(id=str(number), message_id=None, origin=job_of(State.DONE).origin))
