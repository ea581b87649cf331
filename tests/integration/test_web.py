"""The pages for operators."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import shutil
import socket
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import pytest
from evening import free_port
from recipes import RECIPE
from stores import Clock

from bot.app import local_paths, monitoring
from bot.app.monitoring import NO_WORKER, BacklogReader, Notes
from bot.app.queue import CHECKED_PARTS, open_queue
from bot.config import Config
from bot.doctor import places
from bot.domain.errors import ConfigurationError
from bot.store import Store
from bot.store.queue.statistics import Backlog
from bot.telemetry.metrics import WELL, Metrics
from bot.web.connections import MOST_CONNECTIONS
from bot.web.server import Check, examine, serving


async def nothing() -> None:
    """A refresh without work."""


async def well() -> str:
    return WELL


async def ill() -> str:
    return "the disk is full"


async def test_metrics_are_refreshed_for_each_request() -> None:
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


async def test_the_backlog_is_read_at_most_once_a_second(tmp_path: Path) -> None:
    store, clock = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"), Clock()
    backlog, readings = store.jobs.backlog, 0

    async def counted() -> Backlog:
        nonlocal readings
        readings += 1
        return await backlog()

    store.jobs.backlog = counted  # type: ignore[method-assign]
    reader = BacklogReader(store.jobs, Metrics(), clock=clock)
    try:
        await asyncio.gather(*(reader.refresh() for _ in range(20)), *(reader.check() for _ in range(20)))
        assert readings == 1
        clock.now += 1.0
        assert await reader.check() == WELL
        assert readings == 2
    finally:
        await store.close()


async def test_a_silent_database_does_not_keep_the_metrics_from_prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, metrics = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"), Metrics()

    async def hangs() -> Backlog:
        await asyncio.Event().wait()
        raise AssertionError

    store.jobs.backlog = hangs  # type: ignore[method-assign]
    monkeypatch.setattr("bot.app.monitoring.PATIENCE_SECONDS", 0.05)
    assert "has not answered within" in await BacklogReader(store.jobs, metrics).check()
    assert b"sdjax_store_failures_total 1.0" in metrics.text()
    await store.close()


async def test_health_lists_each_part_and_fails_if_one_part_does() -> None:
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


async def test_a_check_that_is_added_during_a_request_disturbs_no_answer() -> None:
    checks: dict[str, Check] = {}

    async def starting() -> str:
        checks["outbox"] = well
        return WELL

    checks["store"] = starting
    assert await examine(checks) == {"store": WELL}
    assert await examine(checks) == {"store": WELL, "outbox": WELL}


@pytest.mark.parametrize(("role", "parts"), CHECKED_PARTS.items())
async def test_a_process_is_unhealthy_before_all_its_parts_are_open(
    role: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    config = Config.parse(
        {
            "queue": {
                "database": f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3",
                "artifacts": str(tmp_path / "artifacts"),
            }
        }
    )
    async with AsyncExitStack() as stack:
        queue = await open_queue(config, role, stack)
        found = await examine(queue.checks)
    assert found == {"store": WELL, "membership": WELL, **dict.fromkeys(parts, "starting")}


async def test_a_part_that_does_not_answer_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.web.server.CHECK_SECONDS", 0.05)

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


async def test_a_process_is_live_while_its_dependencies_are_unavailable() -> None:
    port, checks = free_port(), {"store": ill}
    async with (
        serving("", port, Metrics(), refresh=nothing, checks=checks),
        aiohttp.ClientSession() as people,
    ):
        assert await answer(people, port, "/livez") == (200, "live")
        assert await answer(people, port, "/readyz") == (503, "not ready")
        checks["store"] = well
        assert await answer(people, port, "/readyz") == (200, "ready")


@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer ", "Basic secret", "secret"])
async def test_a_token_guards_metrics_and_health_but_no_probe(given: str | None) -> None:
    port, headers = free_port(), {} if given is None else {"Authorization": given}
    async with (
        serving("", port, Metrics(), refresh=nothing, checks={"store": ill}, token="secret"),
        aiohttp.ClientSession(headers=headers) as people,
    ):
        for page in ("/metrics", "/health"):
            status, text = await answer(people, port, page)
            assert status == 401
            assert "the disk is full" not in text
        assert await answer(people, port, "/livez") == (200, "live")
        assert await answer(people, port, "/readyz") == (503, "not ready")


async def test_health_notes_what_is_no_fault_of_the_process(tmp_path: Path) -> None:
    port = free_port()
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'queue.sqlite3'}")
    pages = serving(
        "", port, Metrics(), refresh=nothing, checks={"a": well}, notes=Notes(Config(), store).read
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await stack.enter_async_context(pages)
        people = await stack.enter_async_context(aiohttp.ClientSession())
        status, body = await answer(people, port, "/health")
        assert (status, json.loads(body)) == (
            200,
            {"status": "well", "parts": {"a": "well"}, "notes": [NO_WORKER]},
        )
        assert (await answer(people, port, "/readyz"))[0] == 200
        await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=60)
        assert "notes" not in json.loads((await answer(people, port, "/health"))[1])


async def test_health_notes_a_disk_that_is_nearly_full_in_the_words_of_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'queue.sqlite3'}")
    config = Config.parse({"queue": {"artifacts": str(tmp_path)}})
    used = shutil.disk_usage(tmp_path)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=60)
        notes = Notes(config, store)
        assert await notes.read() == []
        monkeypatch.setattr(shutil, "disk_usage", lambda _place: used._replace(free=2**30))
        told = {finding.text async for finding in places.disks(config) if not finding.well}
        assert set(await notes.read()) == told
        assert any("only 1.0 GiB are left" in text and "free 2.0 GiB" in text for text in told)


async def test_a_disk_that_hangs_holds_one_thread_and_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(local_paths, "nearest", lambda _path: hanging.wait() and Path("/"))
    monkeypatch.setattr(monitoring, "PATIENCE_SECONDS", 0.1)
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'queue.sqlite3'}")
    try:
        await store.offers.announce("worker", lanes=[RECIPE.lane], seats=1, ttl=60)
        notes = Notes(Config(), store)
        for _ in range(3):
            (told,) = await notes.read()
            assert "have not answered" in told
        assert [thread.name for thread in threading.enumerate()].count("disks") == 1
    finally:
        hanging.set()
        await store.close()


async def test_the_token_opens_both_pages() -> None:
    port, headers = free_port(), {"Authorization": "Bearer secret"}
    async with (
        serving("", port, Metrics(), refresh=nothing, checks={"store": well}, token="secret"),
        aiohttp.ClientSession(headers=headers) as people,
    ):
        assert (await answer(people, port, "/metrics"))[0] == 200
        assert (await answer(people, port, "/health"))[0] == 200


async def test_a_token_that_is_no_text_is_refused_like_any_wrong_token() -> None:
    port = free_port()
    async with serving("", port, Metrics(), refresh=nothing, checks={}, token="secret"):
        head = b"GET /metrics HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer \xff\xfe\r\n\r\n"
        assert (await sent(port, head)).startswith(b"HTTP/1.1 401 ")


async def test_connections_without_a_request_keep_nobody_from_the_pages() -> None:
    port, many = free_port(), 2 * MOST_CONNECTIONS
    async with serving("", port, Metrics(), refresh=nothing, checks={"store": well}):
        ends = [
            asyncio.create_task(sent(port, b"GET /livez HTTP/1.1\r\nHost: here\r\n")) for _ in range(many)
        ]
        for ended in itertools.islice(asyncio.as_completed(ends), many - MOST_CONNECTIONS):
            assert await ended == b""
        async with aiohttp.ClientSession() as people:
            for page in ("/livez", "/readyz", "/metrics"):
                assert (await answer(people, port, page))[0] == 200
    assert await asyncio.gather(*ends) == [b""] * many


async def test_a_connection_without_a_whole_request_is_closed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bot.web.connections.REQUEST_SECONDS", 0.05)
    port = free_port()
    async with serving("", port, Metrics(), refresh=nothing, checks={}):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\n")
        with suppress(ConnectionError):
            async with asyncio.timeout(10):
                while not reader.at_eof():
                    writer.write(b"X: 1\r\n")  # a part in time, and never the last
                    await writer.drain()
                    await asyncio.sleep(0.01)
        writer.close()


async def test_a_connection_is_closed_a_while_after_its_request_in_any_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bot.web.connections.ANSWER_SECONDS", 0.05)
    port, asked = free_port(), asyncio.Event()

    async def hangs() -> None:
        asked.set()
        await asyncio.Event().wait()

    async with serving("", port, Metrics(), refresh=hangs, checks={}):
        assert await sent(port, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n") == b""
        assert asked.is_set()


async def sent(port: int, data: bytes) -> bytes:
    """Send `data`, and return the answer until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    found = b""
    async with asyncio.timeout(10):
        with suppress(ConnectionError):
            found = await reader.read()
    writer.close()
    return found


async def answer(people: aiohttp.ClientSession, port: int, page: str) -> tuple[int, str]:
    async with people.get(f"http://127.0.0.1:{port}{page}") as found:
        return found.status, await found.text()


async def test_a_port_in_use_is_a_mistake_in_the_configuration() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError) as refused:
            async with serving("", port, Metrics(), refresh=nothing, checks={}):
                pass
    assert str(refused.value) == (
        f"web.port: 127.0.0.1:{port} cannot be used: Address already in use. Give this process another port, "
        "such as by SDJAX__WEB__PORT, or 0 for none."
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(errno.EADDRNOTAVAIL, "error while attempting to bind on address ('192.0.2.7', 9090)"),
            "Cannot assign requested address. Name an address of this machine.",
        ),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "Name or service not known. Name an address of this machine.",
        ),
        (OSError("could not bind"), "could not bind. Name an address of this machine."),  # newer Pythons
        (OSError(errno.EMFILE, "too many"), "Too many open files."),
    ],
)
async def test_an_address_that_cannot_be_served_is_a_mistake_in_the_configuration(
    monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise error

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_server", refuse)  # a machine may be set to bind addresses of others
    with pytest.raises(ConfigurationError) as refused:
        async with serving("192.0.2.7", 9090, Metrics(), refresh=nothing, checks={}):
            pass
    assert str(refused.value) == f"web.host: “192.0.2.7” cannot be used: {said}"


async def test_port_0_serves_nothing() -> None:
    async with serving("", 0, Metrics(), refresh=nothing, checks={}):
        pass


async def test_a_host_that_no_machine_can_have_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"web\.host"):
        async with serving("a..localhost", 9090, Metrics(), refresh=nothing, checks={}):
            pass
