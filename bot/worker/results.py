"""Painted pictures: judged, kept as files, and recorded in the queue."""

from __future__ import annotations

import functools
import os

from bot.domain.jobs import Notes, Showing
from bot.files import Artifacts, Files
from bot.process.threads import Threads
from bot.store import Store
from bot.store.rows.device_time import WorkerClass
from bot.store.rows.hashes import NO_HASHES, Hashes
from bot.worker.ends import Ends
from bot.worker.held_image import HeldImage
from bot.worker.judging import Judging, KnownPictures
from bot.worker.repaint import PNG, metadata_of
from sdjax_engine.images import encode_png
from sdjax_engine.request import Image


class Results:
    """Records painted pictures by `ends`; `judging` and `known` decide how they are shown."""

    def __init__(
        self, store: Store, artifacts: Artifacts, *, judging: Judging, known: KnownPictures, ends: Ends
    ) -> None:
        self._leases = store.leases
        self._files = Files(store.files, artifacts)
        self._judging = judging
        self._known = known
        self._ends = ends
        self._threads = Threads("pictures", most=os.cpu_count() or 1)

    async def record(self, held: HeldImage, image: Image, worker_class: WorkerClass) -> None:
        """Keep the picture, and record how it is shown. A withheld picture is not kept, only its scores."""
        claim = held.claim
        held.stages.enter("judge")
        judged = self._judging.judge(claim, image, held.most_open)
        known = await self._known.look_up(claim, image.pixels)
        showing = Showing.WITHHOLD if known.blocked else judged.showing
        withheld = showing is Showing.WITHHOLD
        artifact = None if withheld else await self._keep(held, image)
        notes = Notes(
            prompt=image.prompt,
            negative_prompt=image.negative_prompt,
            safety=image.safety,
            classified=image.classified,
            level=judged.level,
            known=known.blocked,
            int8=image.int8,
        )
        hashes = NO_HASHES if withheld else Hashes(result=known.hash, given=held.given_hashes)
        complete = functools.partial(
            self._leases.complete,
            claim,
            artifact=artifact,
            seconds=image.seconds,
            pace=held.pace,
            notes=notes,
            showing=showing,
            hashes=hashes,
            worker_class=worker_class,
        )
        event = "withheld" if withheld else "painted"
        await self._ends.record(held, lambda spent: complete(spent=spent), event)

    async def _keep(self, held: HeldImage, image: Image) -> str:
        extra = metadata_of(held.claim.job_id)
        held.stages.enter("encode")
        png = await self._threads.run(encode_png, image.pixels, image.request, extra=extra, int8=image.int8)
        held.stages.enter("keep")
        return await self._ends.persistently(lambda: self._files.keep(png, PNG))
