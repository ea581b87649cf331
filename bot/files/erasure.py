"""Deletes everything that is stored of one person or of one server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from bot.domain.jobs import Job
from bot.files import Files
from bot.store.people.erasure import Erasure

log = logging.getLogger(__name__)

JOBS_AT_ONCE = 25


async def _leave_alone(_jobs: Sequence[Job]) -> None:
    """The default of `first`: do nothing with the jobs."""


async def forget(
    rows: Erasure,
    files: Files,
    *,
    user_id: int | None = None,
    guild_id: int | None = None,
    first: Callable[[Sequence[Job]], Awaitable[None]] = _leave_alone,
) -> int:
    """Delete all that is stored of one person or of one server, and the files; return how many jobs.

    Other people's copies of a person's pictures go too. In the audit log a number replaces the person; the
    log of a server stays.

    `first` is called with some jobs at a time before their rows go, so that a deletion that was interrupted
    can be repeated; not with jobs that this version cannot read. Raises StoreUnavailable.
    """
    forgotten, oldest = set[str](), ""

    async def erase(job_ids: Sequence[str]) -> None:
        await first(await rows.readable(job_ids))
        await files.drop(await rows.erase(job_ids, unless_copied=user_id is not None))

    while job_ids := await rows.job_ids_of(user_id=user_id, guild_id=guild_id, limit=JOBS_AT_ONCE):
        while user_id is not None and (copies := await rows.copies_of(job_ids, limit=JOBS_AT_ONCE)):
            await erase(copies)
        await erase(job_ids)
        forgotten.update(job_ids)
        oldest = job_ids[-1]
    await rows.erase_preferences(user_id=user_id, guild_id=guild_id)
    if user_id is not None:
        await rows.erase_share(user_id)
        await rows.erase_acts(user_id)
    # After restoring an older backup, the operator deletes again what these lines say. They name no person:
    # the job tells its person only where the job is back.
    whose = f"server {guild_id}" if user_id is None else f"the person of job {oldest}"
    log.info("everything of %s is deleted", whose if oldest or user_id is None else "a person without jobs")
    return len(forgotten)
