"""The sweep: deletes old or excess results, old jobs and orphaned files, in small transactions."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.config import RetentionConfig
from bot.domain.errors import StoreUnavailable
from bot.domain.time_units import DAY_SECONDS
from bot.files import Artifacts, Files
from bot.files.erasure import forget
from bot.store.store import Store

log = logging.getLogger(__name__)

DUTY = "sweep"
SWEEP_SECONDS = 300.0
DUTY_SECONDS = 3 * SWEEP_SECONDS  # after this time without a sweep, another process takes the duty
LISTING_SECONDS = DAY_SECONDS  # the search of the whole folder, and of all persons
YOUNG_SECONDS = 3600.0  # a younger file may belong to a job that is being stored
ROWS_PER_TRANSACTION = 50  # files or jobs
TOKENS_PER_TRANSACTION = 500
SESSIONS_PER_TRANSACTION = 10  # each with its votes and numbered pictures

Choose = Callable[[], Awaitable[Collection[str]]]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much is kept, in seconds and bytes; infinity means without a bound."""

    file_seconds: float = math.inf
    file_bytes: float = math.inf
    job_seconds: float = math.inf
    left_seconds: float = math.inf
    audit_seconds: float = math.inf
    usage_seconds: float = math.inf


def bounds_of(config: RetentionConfig) -> Bounds:
    """Return the bounds of a configuration."""
    return Bounds(
        file_seconds=config.picture_days * DAY_SECONDS or math.inf,
        file_bytes=config.pictures_gib * 2**30 or math.inf,
        job_seconds=config.job_days * DAY_SECONDS or math.inf,
        left_seconds=config.left_server_days * DAY_SECONDS or math.inf,
        audit_seconds=config.audit_days * DAY_SECONDS or math.inf,
        usage_seconds=config.usage_days * DAY_SECONDS or math.inf,
    )


class Sweeper:
    """Keeps `artifacts` and the rows of `store` within `bounds`, which may change.

    Every process may run a sweeper: the store gives the duty to one process at a time.
    """

    def __init__(
        self, store: Store, artifacts: Artifacts, bounds: Bounds, *, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._artifacts = artifacts
        self._files = Files(store.files, artifacts)
        self.bounds = bounds
        self._clock = clock
        self._name = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._orphans_after = 0.0
        self._listed_at = -math.inf

    async def run(self) -> None:
        """Sweep every `SWEEP_SECONDS` while this process has the duty, until cancelled."""
        while True:
            try:
                if await self._on_duty():
                    await self.sweep()
            except StoreUnavailable as error:
                log.error("the sweep is postponed: %s", error)
            except Exception:
                log.exception("the sweep is postponed: unexpected error")
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Apply every bound once."""
        now = self._clock()
        if now >= self._listed_at + LISTING_SECONDS:
            await self._list_files()
            await self._forget_idle()
            self._listed_at = now
        await self._drop(
            lambda: self._store.retention.unfinished_deletions(limit=ROWS_PER_TRANSACTION),
            "left by a process that died",
        )
        await self._drop_old(now)
        await self._drop_too_many(now)
        await self._forget(now)
        await self._forget_tokens(now)
        await self._forget_records(now)
        await self._store.moderation.lapse()
        await self._end_reviews(now)
        await self._store.charges.lapse()
        await self._store.logins.lapse()
        await self._forget_servers(now)
        await self._drop_orphans(now)

    async def _on_duty(self) -> bool:
        return await self._store.retention.take_duty(DUTY, holder=self._name, ttl=DUTY_SECONDS)

    async def _until_none(self, step: Callable[[], Awaitable[object]]) -> None:
        """Repeat a step while it finds something, and this process has the duty."""
        while await self._on_duty() and await step():
            pass

    async def _list_files(self) -> None:
        """Tell the store of files that it does not know, and delete partial files.

        The next search for orphans then covers all files.
        """
        self._orphans_after = 0.0
        swept = await self._artifacts.sweep_parts()
        if swept:
            log.info("%d partial files deleted, left by killed writes", swept)
        async for found in self._artifacts.listing():
            names = sorted(found)
            for start in range(0, len(names), ROWS_PER_TRANSACTION):
                few = names[start : start + ROWS_PER_TRANSACTION]
                await self._store.retention.note_files({name: found[name] for name in few})

    async def _drop_old(self, now: float) -> None:
        before = now - max(self.bounds.file_seconds, YOUNG_SECONDS)
        if math.isfinite(before):
            await self._drop(
                lambda: self._store.retention.drop_files(before=before, limit=ROWS_PER_TRANSACTION), "too old"
            )

    async def _drop_too_many(self, now: float) -> None:
        most = self.bounds.file_bytes
        if math.isinf(most):
            return

        excess = await self._store.retention.kept_bytes() - int(most)

        async def oldest() -> Collection[str]:
            nonlocal excess
            if excess <= 0:
                return []
            freed = await self._store.retention.drop_files(
                before=now - YOUNG_SECONDS, limit=ROWS_PER_TRANSACTION, most_bytes=excess
            )
            excess -= sum(freed.values())
            return freed

        await self._drop(oldest, "over the bound on their size")

    async def _forget(self, now: float) -> None:
        before = now - self.bounds.job_seconds
        if not math.isfinite(before):
            return
        forgotten = 0
        while await self._on_duty():
            jobs, names = await self._store.retention.forget_jobs(before=before, limit=ROWS_PER_TRANSACTION)
            forgotten += jobs
            await self._files.drop(names)
            if not jobs:  # deleting these jobs may have freed jobs that they started from
                break
        if forgotten:
            log.info("%d old jobs forgotten", forgotten)
        sessions = self._store.sessions
        await self._until_none(lambda: sessions.forget(before=before, limit=SESSIONS_PER_TRANSACTION))

    async def _forget_tokens(self, now: float) -> None:
        """Delete the tokens of expired interactions."""
        retention = self._store.retention
        await self._until_none(lambda: retention.forget_tokens(before=now, limit=TOKENS_PER_TRANSACTION))

    async def _forget_idle(self) -> None:
        """Delete the places in the fair order of persons without jobs."""
        after: int | None = 0
        while after is not None and await self._on_duty():
            after = await self._store.retention.forget_idle(after=after, limit=TOKENS_PER_TRANSACTION)

    async def _forget_records(self, now: float) -> None:
        """Delete old rows of the log, and add up the devices' time of old months without the persons."""
        moderation, times = self._store.moderation, self._store.device_time
        before = now - self.bounds.audit_seconds
        if math.isfinite(before):
            await self._until_none(lambda: moderation.forget(before=before, limit=TOKENS_PER_TRANSACTION))
        if math.isfinite(folded := now - self.bounds.usage_seconds):
            await self._until_none(lambda: times.fold(before=datetime.fromtimestamp(folded, UTC).date()))

    async def _end_reviews(self, now: float) -> None:
        """End reviews whose time is over; forget refused prompts, and ended reviews as old as old jobs."""
        reviews = self._store.reviews
        await self._until_none(lambda: reviews.expire(limit=ROWS_PER_TRANSACTION))
        # Without a bound on jobs, `before` is -inf: ended reviews stay, refused prompts are forgotten.
        before = now - self.bounds.job_seconds
        await self._until_none(lambda: reviews.forget(before=before, limit=ROWS_PER_TRANSACTION))

    async def _forget_servers(self, now: float) -> None:
        """Delete the jobs of servers that removed the bot longer ago than the bound."""
        before = now - self.bounds.left_seconds
        if not math.isfinite(before):
            return
        for guild_id in await self._store.erasure.departed(before=before):
            forgotten = await forget(self._store.erasure, self._files, guild_id=guild_id)
            log.info("%d jobs forgotten of server %d, which removed the bot", forgotten, guild_id)

    async def _drop_orphans(self, now: float) -> None:
        """Delete orphaned files among the files announced since the last complete search."""
        after, before = self._orphans_after, now - YOUNG_SECONDS
        complete = await self._drop(
            lambda: self._store.retention.drop_orphans(
                after=after, before=before, limit=ROWS_PER_TRANSACTION
            ),
            "of no job",
        )
        if complete:
            self._orphans_after = before

    async def _drop(self, choose: Choose, why: str) -> bool:
        """Delete the files that `choose` returns until it returns none, or none of them can be deleted.

        Returns whether `choose` returned none.
        """
        dropped, more = 0, True
        while more and await self._on_duty():
            names = await choose()
            deleted = await self._files.drop(names) if names else 0
            dropped += deleted
            more = bool(names)
            if more and not deleted:
                break
        if dropped:
            log.info("%d files deleted: %s", dropped, why)
        return not more
