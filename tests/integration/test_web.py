"""The pages for operators."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from bot.errors import ConfigurationError
from bot.metrics import WELL, Metrics
from bot.web.server import serving


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


async def nothing() -> None:
    """Nothing is to be read first."""


async def well() -> str:
    return WELL


async def ill() -> str:
    return "the disk is full"


async def test_metrics_are_read_when_somebody_asks() -> None:
    metrics, port = Metrics(), free_port()

    async def refresh() -> None:
        metrics.store.waiting.set(7)

    async with (
        serving("", port, metrics, refresh=refresh, checks={}),
        aiohttp.ClientSession() as people,
        people.get(f"http://127.0.0.1:{port}/metrics") as page,
    ):
        assert page.content_type == "text/plain"
        assert "sdjax_images_waiting 7.0" in await page.text()


async def test_health_names_each_part_and_is_bad_when_one_is() -> None:
    port, checks = free_port(), {"store": well, "outbox": well}
    async with (
        serving("", port, Metrics(), refresh=nothing, checks=checks),
        aiohttp.ClientSession() as people,
    ):
        async with people.get(f"http://127.0.0.1:{port}/health") as page:
            assert (page.status, await page.json()) == (
                200,
                {"status": "well", "parts": {"store": "well", "outbox": "well"}},
            )
        checks["store"] = ill
        async with people.get(f"http://127.0.0.1:{port}/health") as page:
            assert page.status == 503
            assert (await page.json())["parts"] == {"store": "the disk is full", "outbox": "well"}


async def test_a_part_that_does_not_answer_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.web.health.CHECK_SECONDS", 0.05)

    async def hangs() -> str:
        await asyncio.Event().wait()
        return WELL

    port = free_port()
    async with (
        serving("", port, Metrics(), refresh=nothing, checks={"engine": hangs}),
        aiohttp.ClientSession() as people,
        people.get(f"http://127.0.0.1:{port}/health") as page,
    ):
        assert page.status == 503
        assert "no answer" in (await page.json())["parts"]["engine"]


async def test_a_port_that_is_taken_is_a_mistake_in_the_configuration() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigurationError, match=r"web\.port"),
    ):
        async with serving("", taken.getsockname()[1], Metrics(), refresh=nothing, checks={}):
            pass


async def test_port_0_serves_nothing() -> None:
    async with serving("", 0, Metrics(), refresh=nothing, checks={}):
        pass
