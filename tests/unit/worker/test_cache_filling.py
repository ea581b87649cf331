"""One worker fills a shared cache folder while the others wait."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any, cast

import pytest

from bot.config import Config
from bot.worker import cache_filling
from bot.worker.cache_filling import cache_key, wait_for_cache
from sdjax_engine.engine import Engine


class Warming:
    """An engine that is ready once a test says so."""

    def __init__(self) -> None:
        self.ready = False

    def wait_until_ready(self, _timeout: float) -> bool:
        return self.ready


def filled(folder: Path) -> list[str]:
    return [file.name for file in folder.glob("filled-*")]


def lock_modes(folder: Path) -> list[int]:
    return [stat.S_IMODE(file.stat().st_mode) for file in folder.glob("filling-*")]


def configured(folder: Path, **engine: Any) -> Config:
    return Config.parse({"engine": {"cache_dir": str(folder), "cache_wait": True, **engine}})


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_filling, "POLL_SECONDS", 0.01)


async def test_the_second_worker_waits_until_everything_is_compiled(tmp_path: Path) -> None:
    config, engine = configured(tmp_path), Warming()
    first = await wait_for_cache(config)
    second = asyncio.create_task(wait_for_cache(config))
    first.follow(cast("Engine", engine))
    assert not (await asyncio.wait({second}, timeout=0.1))[0], "the first one still compiles"
    engine.ready = True
    async with asyncio.timeout(10):
        await (await second).close()
        third = await wait_for_cache(config)
    assert filled(tmp_path) == [f"filled-{cache_key(config)}"]
    await third.close()
    await first.close()


async def test_a_worker_that_ends_before_it_is_done_leaves_the_turn_to_the_next(tmp_path: Path) -> None:
    config = configured(tmp_path)
    first = await wait_for_cache(config)
    first.follow(cast("Engine", Warming()))
    second = asyncio.create_task(wait_for_cache(config))
    await first.close()
    async with asyncio.timeout(10):
        await (await second).close()
    assert filled(tmp_path) == []


async def test_a_worker_does_not_wait_for_ever_for_one_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_filling, "LONGEST_WAIT", 0.05)
    first = await wait_for_cache(configured(tmp_path))
    async with asyncio.timeout(10):
        await (await wait_for_cache(configured(tmp_path))).close()
    await first.close()


async def test_the_turn_is_open_to_the_group_of_a_folder_that_a_group_shares(tmp_path: Path) -> None:
    turn = await wait_for_cache(configured(tmp_path, cache_group=True))
    assert lock_modes(tmp_path) == [0o660]
    await turn.close()


async def test_nobody_waits_for_a_folder_of_another_configuration_or_without_the_key(tmp_path: Path) -> None:
    first = await wait_for_cache(configured(tmp_path))
    async with asyncio.timeout(10):
        for other in (configured(tmp_path, accelerator="tpu"), configured(tmp_path, cache_wait=False)):
            await (await wait_for_cache(other)).close()
    await first.close()


async def test_a_folder_that_cannot_be_used_stops_no_worker(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "cache", Path("/proc/sdjax")):
        await (await wait_for_cache(configured(folder))).close()
