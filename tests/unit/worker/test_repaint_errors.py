"""Unexpected errors in the loop that repaints lost files."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from recipes import recipe

from bot.domain.errors import MissingArtifact
from bot.domain.file_states import LostFile, Painter
from bot.worker import repaint
from bot.worker.given_pictures import GivenPictures
from bot.worker.model_use import ModelUse
from bot.worker.repaint import Repaint


class LostFiles:
    """The store's lost files: each is claimed once; `end_wait` of `broken` raises an unexpected error."""

    def __init__(self, *rounds: list[str], broken: str) -> None:
        self._rounds = list(rounds)
        self._broken = broken
        self.ended: dict[str, str | None] = {}

    async def claim_lost(self, lanes: object, *, limit: int, ttl: float) -> list[LostFile]:
        names = self._rounds.pop(0) if self._rounds else []
        painter = Painter(job_id="job", index=0, recipe=recipe())
        return [LostFile(name=name, painter=painter) for name in names]

    async def painter(self, name: str) -> Painter | None:
        return None

    async def end_wait(self, name: str, *, failure: str | None) -> None:
        if name == self._broken:
            raise ZeroDivisionError
        self.ended[name] = failure


class NoFiles:
    async def get(self, name: str) -> bytes:
        raise MissingArtifact(name)


async def test_an_unexpected_error_with_one_file_stops_neither_the_loop_nor_another_repaint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(repaint, "POLL_SECONDS", 0.01)
    files: Any = LostFiles(["broken.png", "beside.png"], ["later.png"], broken="broken.png")
    engine: Any = SimpleNamespace(ready_lanes=[])
    store: Any = SimpleNamespace(files=files)
    artifacts: Any = NoFiles()
    running = asyncio.create_task(
        Repaint(
            *(engine, store, artifacts), models=ModelUse(), given=GivenPictures(), retry_seconds=0.0
        ).run()
    )
    async with asyncio.timeout(20):
        while len(files.ended) < 2:  # noqa: ASYNC110 - the loop under test sets no event
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert files.ended == {"beside.png": "start_missing", "later.png": "start_missing"}
    assert "the lost file broken.png is tried again with the next lease" in caplog.text
