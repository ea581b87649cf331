"""Progress: edits the messages of active jobs as their place and their steps change, within a rate.

An edit that is not due, or that would wait for another edit, is dropped: a later edit shows the newer state.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from bot.delivery.content import MessageContent
from bot.delivery.pictures import PictureFile, preview_file, thumbnail
from bot.delivery.refusals import DeliveryDelayed
from bot.delivery.render import render, with_preview
from bot.delivery.sender import Sender
from bot.domain.errors import DeliveryRefused, MissingArtifact, StoreUnavailable, UnknownJob
from bot.domain.jobs import Job, Showing, State
from bot.files.artifacts import Artifacts
from bot.process.threads import Threads
from bot.provenance.signing import Signing
from bot.store.people.preferences import PREVIEWS, owners_at
from bot.store.store import Store
from bot.telemetry.tracing import about
from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
PAINTING_SECONDS = 1.5  # between edits of one message
PREVIEW_SECONDS = 3.0  # between edits of one message with a preview
CHANNEL_SECONDS = 1.0  # between previews in one channel
WAITING_SECONDS = 5.0
FOLLOWED = 50  # jobs, in fair order, and as many that wait in a pause
EDITS_AT_ONCE = 5
EDITS_A_TICK = 10  # 20 a second, of Discord's global limit of 50 a second
UNANNOUNCED_SECONDS = 5.0  # an older job without a message lost its first answer in a restart


@dataclass(kw_only=True)
class _Shown:
    """What a message showed last, and when it was edited.

    `wants_previews` is None until the preferences have been read. `finished` are small files of the pictures
    that are finished, by the names of their own files.
    """

    content: MessageContent | None = None
    preview: PictureFile | None = None
    at: float = 0.0
    wants_previews: bool | None = None
    finished: dict[str, bytes] = field(default_factory=dict)


class MessageLocks:
    """A lock for each job's message: its holder alone edits the message, so progress never covers a result.

    A lock is deleted when no task holds it or waits for it.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, job_id: str) -> asyncio.Lock:
        """Return the lock to hold while reading the job's state and editing its message."""
        lock = self._locks.get(job_id)
        if lock is None:
            lock = self._locks[job_id] = asyncio.Lock()
        return lock


class Progress:
    """Shows the progress of the jobs of `front` in their own messages.

    `fronts` returns the number of fronts: together they send no more edits than one alone. `signing`
    draws the label on previews.
    """

    def __init__(
        self,
        store: Store,
        artifacts: Artifacts,
        sender: Sender,
        message_locks: MessageLocks,
        *,
        front: str,
        clock: Callable[[], float],
        fronts: Callable[[], int] = lambda: 1,
        signing: Signing | None = None,
    ) -> None:
        self._store = store
        self._artifacts = artifacts
        self._front = front
        self._fronts = fronts
        self._signing = signing or Signing()
        self._sender = sender
        self._message_locks = message_locks
        self._clock = clock
        self._shown: dict[str, _Shown] = {}
        self._unreachable: set[str] = set()
        self._preview_at: dict[int, float] = {}  # when a channel got its last preview
        self._threads = Threads("previews", most=1)
        self._editing: set[asyncio.Task[None]] = set()

    async def announce(self, job: Job) -> None:
        """Show a new job in the answer to its interaction, and store the message's id with the job.

        The front calls this once after `enqueue` instead of editing the answer itself: this edit holds the
        message's lock, so it never covers a result. A failed edit is not retried: the next progress edit
        or the result shows the job.
        """
        await self._edit(job.id)

    async def run(self) -> None:
        """Follow the active jobs until cancelled."""
        try:
            while True:
                await self._tick()
                await asyncio.sleep(TICK_SECONDS)
        finally:
            for task in self._editing:
                task.cancel()
            await asyncio.gather(*self._editing, return_exceptions=True)

    async def _tick(self) -> None:
        try:
            jobs = await self._followed()
        except StoreUnavailable as error:
            log.error("the progress of jobs cannot be read: %s", error)
            return
        self._forget_all_but(jobs)
        share = max(1, EDITS_A_TICK // self._fronts())
        room = min(share, EDITS_AT_ONCE - len(self._editing))
        for job in [job for job in jobs if self._due(job)][: max(room, 0)]:
            task = asyncio.create_task(self._edit(job.id), name=f"progress {job.id}")
            self._editing.add(task)
            task.add_done_callback(self._editing.discard)

    async def _followed(self) -> list[Job]:
        """Return the jobs to show, and adopt jobs whose front has gone."""
        jobs = await self._store.jobs.active(front=self._front, paused=False, limit=FOLLOWED)
        jobs += await self._store.jobs.active(front=self._front, paused=True, limit=FOLLOWED)
        left = [job.id for job in jobs if job.origin.front is None]
        adopted = await self._store.deliveries.adopt(self._front, left) if left else set()
        return [job for job in jobs if job.origin.front == self._front or job.id in adopted]

    def _due(self, job: Job) -> bool:
        if (
            job.id in self._unreachable
            or self._message_locks.of(job.id).locked()
            or not self._sender.can_edit(job)
        ):
            return False
        now = self._clock()
        if job.message_id is None and 0 <= now - job.created_at < UNANNOUNCED_SECONDS:
            return False
        shown = self._shown.get(job.id)
        if shown is None:
            return True
        if shown.preview is not None:
            channel_at = self._preview_at.get(job.origin.channel_id, float("-inf"))
            return now - shown.at >= PREVIEW_SECONDS and now - channel_at >= CHANNEL_SECONDS
        painting = job.state is State.RUNNING
        return now - shown.at >= (PAINTING_SECONDS if painting else WAITING_SECONDS)

    async def _edit(self, job_id: str) -> None:
        """Edit one message if it would change; an error affects this job only."""
        with about(job_id):
            try:
                async with self._message_locks.of(job_id):
                    await self._edit_locked(job_id)
            except DeliveryRefused as error:
                log.info("the message is not followed any more: %s", error.outcome)
                self._unreachable.add(job_id)
            except (DeliveryDelayed, StoreUnavailable, UnknownJob) as error:
                log.info("the progress is not shown this time: %s", error)
            except Exception:
                log.exception("the progress could not be shown")

    async def _edit_locked(self, job_id: str) -> None:
        job = await self._store.jobs.get(job_id)
        if job.state.final or job.origin.front != self._front:
            return  # the outbox shows the end; another front shows its own jobs
        position = await self._store.positions.of(job_id)
        texts = Texts.for_locale(job.origin.locale)
        content = render(job, position, texts)
        shown = self._shown.setdefault(job_id, _Shown())
        preview = await self._preview(job, shown) if job.state is State.RUNNING else None
        if preview is not None:
            content = with_preview(content, job, texts)
        before, shown.content, shown.at = (shown.content, shown.preview), None, self._clock()
        if before != (content, preview):
            message_id = await self._send(job, content, preview, shown)
            if job.message_id is None:
                await self._store.jobs.set_message(job_id, message_id)
        shown.content, shown.preview = content, preview

    async def _send(
        self, job: Job, content: MessageContent, preview: PictureFile | None, shown: _Shown
    ) -> int:
        """Edit the message; after a refused file it gets no more previews."""
        if preview is None:
            return await self._sender.edit(job, content)
        self._preview_at[job.origin.channel_id] = self._clock()
        try:
            return await self._sender.edit(job, content, [preview])
        except DeliveryRefused as error:
            shown.wants_previews, shown.preview = False, None
            raise DeliveryDelayed(f"the preview is refused: {error.outcome}") from error

    async def _preview(self, job: Job, shown: _Shown) -> PictureFile | None:
        """Return the previews of a job's images as one file; None without any, or where they are off."""
        if shown.wants_previews is None:
            origin = job.origin
            if origin.policy.get("previews") is False:
                shown.wants_previews = False
                return None
            owners = owners_at(user_id=origin.user_id, channel_id=origin.channel_id, guild_id=origin.guild_id)
            shown.wants_previews = await self._store.preferences.nearest(PREVIEWS, *owners) is not False
        wanted = (
            shown.wants_previews and job.hold is None
        )  # held pictures are not shown while they are painted
        previews = await self._store.previews.of(job.id) if wanted else {}
        if wanted:
            previews |= await self._finished(job, shown)
        if not previews:
            return None
        width, height = job.recipe.picture_size
        size = {"count": len(job.images), "width": width, "height": height}
        draw = functools.partial(self._signing.draw, modified=job.recipe.modifies)
        return await self._threads.run(functools.partial(preview_file, previews, **size, draw=draw))

    async def _finished(self, job: Job, shown: _Shown) -> dict[int, bytes]:
        """Return small files of the finished pictures that are shown openly, by the images' indexes."""
        found = {}
        for image in job.images:
            if image.artifact is None or image.showing is not Showing.SHOW:
                continue
            if image.artifact not in shown.finished:
                try:
                    picture = await self._artifacts.get(image.artifact)
                except (MissingArtifact, StoreUnavailable):  # its last preview stays
                    continue
                shown.finished[image.artifact] = await self._threads.run(thumbnail, picture)
            found[image.index] = shown.finished[image.artifact]
        return found

    def _forget_all_but(self, jobs: Sequence[Job]) -> None:
        active = {job.id for job in jobs}
        self._shown = {key: shown for key, shown in self._shown.items() if key in active}
        self._unreachable &= active
        oldest = self._clock() - CHANNEL_SECONDS
        self._preview_at = {channel: at for channel, at in self._preview_at.items() if at > oldest}
