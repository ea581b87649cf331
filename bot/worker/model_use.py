"""Which models are at work, so that a model can be replaced between two pieces of work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from sdjax_engine.request import Lane


class ModelUse:
    """Counts the work on each model; work on a model that leaves waits until others have taken its place.

    `gone` are lanes that the engine had before a change of its models, and has no more.
    """

    def __init__(self) -> None:
        self.gone: frozenset[Lane] = frozenset()
        self._leaving: frozenset[str] = frozenset()
        self._at_work: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @property
    def leaving(self) -> frozenset[str]:
        """The models that leave: new work on them waits."""
        return self._leaving

    @asynccontextmanager
    async def of(self, model: str) -> AsyncIterator[None]:
        """Count the block as work on a model; wait first while the model leaves. Blocks are not nested."""
        await self._until(lambda: model not in self._leaving)
        self._at_work[model] += 1
        try:
            yield
        finally:
            self._at_work[model] -= 1
            self._notify()

    @asynccontextmanager
    async def without(self, models: Collection[str]) -> AsyncIterator[None]:
        """Wait until the work on these models has ended; none begins in the block. One call at a time."""
        self._leaving = frozenset(models)
        try:
            await self._until(lambda: not any(self._at_work[model] for model in models))
            yield
        finally:
            self._leaving = frozenset()
            self._notify()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
