"""The files that one request passes, in the order in which it first reaches them.

    python benchmarks/walk.py engine [--list]
    python benchmarks/walk.py imagine [--list]

`engine`: one prompt from `Engine.submit` to its pixels, on the demo checkpoint, after another prompt has
warmed the engine. `imagine`: one /imagine from the interaction's arrival to the message that shows the job in
the queue, in the shipped front on a sandbox, with SQLite.

A stop is a function of the package when it is called for the first time. The figures:

    functions     stops
    files         files that hold a stop
    changes       stops in another file than the stop before
    turns back    changes to a file that was visited and left before
    re-entries    functions called in a file that is further up in the same call stack: a callable handed
                  down and called back

Properties and nested functions count as functions; comprehensions do not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "integration")]

from serving import serving  # noqa: E402 - found by the line above

from bot.config import Config, ModelConfig  # noqa: E402
from bot.files.artifacts import Artifacts  # noqa: E402
from bot.sandbox.client import Member  # noqa: E402
from bot.sandbox.server import Sandbox  # noqa: E402
from bot.store import Store  # noqa: E402
from sdjax_engine.config import EngineConfig, ModelSpec  # noqa: E402
from sdjax_engine.engine import Engine  # noqa: E402
from sdjax_engine.request import Request  # noqa: E402

INVOKER = "CommandTree-invoker"
"""The task in which discord.py answers a command."""

IDLE_SECONDS = 0.5  # for the engine to finish its loop after the answer
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


@dataclass(kw_only=True)
class Walk:
    """The first calls of a package's functions, in order; `follow` records them while it is entered."""

    package: Path
    left_out: tuple[str, ...] = ()
    counts: Callable[[], bool] = lambda: True
    stops: dict[CodeType, None] = field(default_factory=dict)
    entries: dict[CodeType, None] = field(default_factory=dict)
    recording: bool = False

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Record; threads that were started within `watched` are recorded too."""
        self.recording = True
        try:
            yield
        finally:
            self.recording = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record this thread and threads that are started meanwhile."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self.recording or event != "call" or not self._is_ours(code) or not self.counts():
            return
        self.stops.setdefault(code)
        if code not in self.entries and self._reenters(frame):
            self.entries[code] = None

    def _is_ours(self, code: CodeType) -> bool:
        path = code.co_filename
        if code.co_name in COMPREHENSIONS or not path.startswith(f"{self.package}/"):
            return False
        return not any(part in path for part in self.left_out)

    def _reenters(self, frame: FrameType) -> bool:
        """Whether the file of `frame` is further up in the stack than the file that called it."""
        here, caller = frame.f_code.co_filename, frame.f_back
        files = []
        while caller is not None:
            if self._is_ours(caller.f_code):
                files.append(caller.f_code.co_filename)
            caller = caller.f_back
        return bool(files) and files[0] != here and here in files

    @property
    def files(self) -> list[str]:
        """The file of each stop."""
        return [str(Path(code.co_filename).relative_to(ROOT)) for code in self.stops]

    def figures(self) -> dict[str, int]:
        """Return the figures by their names in this module's docstring."""
        visits = [file for file, _ in itertools.groupby(self.files)]
        return {
            "functions": len(self.stops),
            "files": len(set(visits)),
            "changes": len(visits) - 1,
            "turns back": len(visits) - len(set(visits)),
            "re-entries": len(self.entries),
        }

    def report(self, *, every_stop: bool) -> None:
        """Print the figures, the files by the number of visits, and the stops themselves if wanted."""
        print(", ".join(f"{count} {name}" for name, count in self.figures().items()))
        visits = [file for file, _ in itertools.groupby(self.files)]
        for file in sorted(dict.fromkeys(visits), key=visits.count, reverse=True):
            print(f"{visits.count(file):4}  {file}")
        if every_stop:
            for code, file in zip(self.stops, self.files, strict=True):
                print(f"{file:44}  {code.co_qualname}{'  (re-entry)' if code in self.entries else ''}")


def engine_walk() -> Walk:
    """Follow one prompt through a warm engine on the demo checkpoint."""
    offer = ModelConfig().offer
    config = EngineConfig(models=(ModelSpec(offer=offer, source="demo"),), cpu_devices=1, seats_per_device=2)
    request = Request(
        prompt="",
        seed=1,
        num_inference_steps=offer.num_inference_steps,
        guidance_scale=offer.guidance_scale,
        sampler=offer.sampler,
        height=offer.sizes[0][1],
        width=offer.sizes[0][0],
        model=offer.model,
    )
    return submit_walk(lambda: Engine.open(config, report=lambda _: None), request)


def submit_walk(open_engine: Callable[[], Engine], request: Request) -> Walk:
    """Follow one prompt with the settings of `request` through an engine that another prompt has warmed."""
    walk = Walk(package=ROOT / "sdjax_engine")
    with walk.watched(), open_engine() as engine:
        engine.wait_until_ready()
        engine.submit(replace(request, prompt="a blue star", seed=1)).result()
        time.sleep(IDLE_SECONDS)
        with walk.follow():
            engine.submit(replace(request, prompt="a red heart left of a blue star", seed=2)).result()
    return walk


async def imagine_walk() -> Walk:
    """Follow one command through the front."""

    answering = contextvars.ContextVar("answering", default=False)

    def counts() -> bool:
        if not answering.get():
            try:
                task = asyncio.current_task()
            except RuntimeError:
                return False
            if task is None or task.get_name() != INVOKER:
                return False
            answering.set(True)  # tasks that this one starts inherit it
        return True

    walk = Walk(package=ROOT / "bot", left_out=("/bot/sandbox/",), counts=counts)
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
        artifacts = Artifacts(f"{folder}/artifacts")
        async with (
            Sandbox() as sandbox,
            serving(sandbox, store, artifacts, Config()),
            Member(sandbox.address, "Mina") as mina,
        ):
            await mina.message_of(await mina.imagine(prompt="a blue star"))
            with walk.watched(), walk.follow():
                await mina.message_of(await mina.imagine(prompt="a red heart left of a blue star"))
        await store.close()
    return walk


def main() -> None:
    """Print one walk."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("walk", choices=("engine", "imagine"))
    parser.add_argument("--list", action="store_true", help="every stop, in order")
    arguments = parser.parse_args()
    walk = engine_walk() if arguments.walk == "engine" else asyncio.run(imagine_walk())
    walk.report(every_stop=arguments.list)


if __name__ == "__main__":
    main()
