"""The operators' page over HTTP: who may, from where, and what it answers."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from evening import free_port
from page_site import PUBLIC, Site, enqueue, no_notes, shown, site
from PIL import Image
from recipes import origin, recipe
from stores import TTL, Clock
from yarl import URL

from bot.config import Config
from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.domain.errors import ConfigurationError
from bot.domain.jobs import Showing, State
from bot.files.artifacts import Artifacts
from bot.page import queue, well
from bot.page.entrance import TRIES, TRY_SECONDS, Entrance
from bot.page.guard import Guard
from bot.page.house import House
from bot.page.renderer import MOST_KEPT, STILL_SECONDS, Renderer, View
from bot.page.rights import Right
from bot.page.server import MOST_STREAMS, VIEWS, serving
from bot.store import Store
from bot.store.operations.gallery import Found, Search
from bot.store.operations.logins import Login
from bot.store.rows.audit import Act
from bot.store.tables.queue import jobs
from bot.texts.catalogue import LANGUAGES
from bot.web.connections import Connections

__all__ = ["site"]
PATHS = ["/" if view.name == "well" else f"/{view.name}" for view in VIEWS]


@pytest.mark.parametrize(
    "path", [*PATHS, "/jobs/abc", "/pictures/abc/0", "/live/", "/live/queue", "/live/jobs/abc", "/nowhere"]
)
async def test_a_stranger_sees_the_entrance_and_nothing_of_the_queue(site: Site, path: str) -> None:
    await enqueue(site.store)
    async with site.stranger.get(f"{site.url}{path}") as answer:
        assert answer.status == 401
        text = await answer.text()
    assert "sdjax-bot page-link" in text
    assert "<table" not in text


@pytest.mark.parametrize("path", ["/jobs/{job}/cancel", "/deliveries/1/send"])
async def test_a_stranger_changes_nothing(site: Site, path: str) -> None:
    job_id = await enqueue(site.store)
    address = site.url + path.format(job=job_id)
    async with site.stranger.post(address, headers={"Origin": site.url}) as answer:
        assert answer.status == 401
    assert (await site.store.jobs.get(job_id)).state is State.WAITING


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://elsewhere.example"},
    ],
)
async def test_another_page_changes_nothing_with_the_operators_cookie(
    site: Site, headers: dict[str, str]
) -> None:
    job_id = await enqueue(site.store)
    async with site.operator.post(f"{site.url}/jobs/{job_id}/cancel", headers=headers) as answer:
        assert answer.status == 403
    assert (await site.store.jobs.get(job_id)).state is State.WAITING


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "127.0.0.1.elsewhere.example", "bot.example.org.evil", "a b", ""]
)
async def test_a_name_that_is_not_ours_opens_nothing(site: Site, host: str) -> None:
    async with site.operator.get(f"{site.url}/queue", headers={"Host": host}) as answer:
        assert answer.status in (400, 421)
        assert "<table" not in await answer.text()


async def test_every_answer_forbids_frames_foreign_scripts_and_copies(site: Site) -> None:
    for browser, path in (
        (site.operator, "/"),
        (site.stranger, "/"),
        (site.operator, "/nowhere"),
        (site.operator, "/enter"),
    ):
        async with browser.get(f"{site.url}{path}") as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


async def test_the_cookie_of_the_public_address_needs_encryption(site: Site) -> None:
    link = await site.store.logins.invite()
    headers = {"Host": PUBLIC, "Origin": f"https://{PUBLIC}"}
    request = site.stranger.post(
        f"{site.url}/enter", data={"link": link}, headers=headers, allow_redirects=False
    )
    async with request as answer:
        assert answer.status == 303, await answer.text()
        cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-")
    for word in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
        assert word in cookie
    assert "Domain" not in cookie


async def test_a_link_opens_one_session(site: Site) -> None:
    link = await site.store.logins.invite()
    for status in (200, 401):
        answering = site.stranger.post(f"{site.url}/enter", data={"link": link}, headers={"Origin": site.url})
        async with answering as answer:
            assert (answer.status, "older than ten minutes" in await answer.text()) == (
                401,
                status == 401,
            ) or status == 200


async def test_each_view_answers_in_four_languages_and_escapes_what_people_write(site: Site) -> None:
    job_id = await enqueue(site.store)
    for path in [*PATHS, f"/jobs/{job_id}"]:
        for language in ("en", "ko", "zh-CN", "ar"):
            async with site.operator.get(
                f"{site.url}{path}", headers={"Accept-Language": language}
            ) as answer:
                text = await answer.text()
            assert answer.status == 200
            assert f'<html lang="{language[:2]}"' in text
            assert ('dir="rtl"' in text) == (language == "ar")
            assert "<b>red</b>" not in text
    assert "&lt;b&gt;red&lt;/b&gt;" in text


@pytest.mark.parametrize(
    "query",
    [
        "person=abc",
        "person=" + "9" * 400,
        "person=" + "9" * 19,
        f"server={2**63}",
        "before=" + "9" * 19,
        "server=-1",
        "model=%00",
        "state=%F0%9F%98%80",
        "person=%D9%A3",
        "x=" + "y" * 4000,
    ],
)
async def test_any_address_gets_an_answer(site: Site, query: str) -> None:
    await enqueue(site.store)
    for path in PATHS:
        async with site.operator.get(f"{site.url}{path}?{query}") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("job", ["unknown", "x" * 3000, "%00", "😀"])
async def test_an_unknown_request_is_said_to_be_gone(site: Site, job: str) -> None:
    async with site.operator.get(f"{site.url}/jobs/{job}") as answer:
        assert answer.status == 404
        assert "There is nothing here" in await answer.text()
    async with site.operator.post(f"{site.url}/jobs/{job}/cancel", headers={"Origin": site.url}) as answer:
        assert answer.status == 404


async def paint(site: Site, color: str, showing: Showing = Showing.SHOW) -> str:
    """A finished request of one picture of this colour."""
    png = io.BytesIO()
    Image.new("RGB", (640, 480), color).save(png, "PNG")
    job_id = (await site.store.jobs.enqueue(recipe(prompt=f"a {color} wall"), origin(hash(color) % 2**31))).id
    (claim,) = await site.store.leases.claim("one", limit=1, ttl=TTL)
    name = await site.house.artifacts.put(png.getvalue(), ".png")
    await site.store.leases.complete(claim, artifact=name, seconds=1.0, showing=showing)
    return job_id


async def test_pictures_are_shown_to_the_operator_alone_and_held_ones_to_nobody(site: Site) -> None:
    shown_id, held_id = await paint(site, "red"), await paint(site, "blue", Showing.HOLD)
    text = await shown(site, "/gallery?words=red", shown_id)
    assert held_id not in text
    async with site.operator.get(f"{site.url}/pictures/{shown_id}/0?small") as answer:
        assert answer.content_type == "image/webp"
        assert answer.headers["Cache-Control"] == "no-store"
        with Image.open(io.BytesIO(await answer.read())) as picture:
            assert picture.size == (320, 240)
    async with site.operator.get(f"{site.url}/pictures/{shown_id}/0") as answer:
        assert answer.content_type == "image/png"
    for path in (
        f"{held_id}/0",
        f"{shown_id}/1",
        f"{shown_id}/-1",
        f"{shown_id}/{'9' * 50}",
        f"{shown_id}/%D9%A3",
    ):
        async with site.operator.get(f"{site.url}/pictures/{path}") as answer:
            assert answer.status == 404, path
    async with site.stranger.get(f"{site.url}/pictures/{shown_id}/0") as answer:
        assert answer.status == 401


async def test_a_cancelled_request_is_in_the_audit_log(site: Site) -> None:
    job_id = await enqueue(site.store)
    async with site.operator.post(f"{site.url}/jobs/{job_id}/cancel", headers={"Origin": site.url}) as answer:
        assert answer.status == 200
        assert "cancelled" in await answer.text()
    assert (await site.store.jobs.get(job_id)).state is State.CANCELLED
    (entry,) = await site.store.moderation.entries(21, limit=9)
    assert (entry.act, entry.actor_id, entry.after) == (Act.CANCEL, 0, {"job": job_id})
    await shown(site, "/audit", job_id)


async def test_the_first_page_says_what_is_wrong_and_what_to_do(site: Site) -> None:
    await enqueue(site.store)
    text = await shown(site, "/", "No worker paints demo")
    assert "No front is connected to Discord" in text
    await site.store.offers.announce("one", lanes=[recipe().lane], seats=4, ttl=TTL)
    await shown(site, "/", "No worker paints", there=False)


async def test_the_first_page_says_what_to_do_about_a_part_that_is_ill(site: Site) -> None:
    async def ill() -> str:
        return "not connected to Discord's gateway"

    async def noted() -> list[str]:
        return ["only 1.0 GiB are left beside /srv: free 2.0 GiB."]

    house = replace(site.house, checks={"gateway": ill}, notes=noted)
    for language, remedy in (("en", "The bot connects by itself"), ("ko", "봇이 스스로 다시 연결합니다")):
        facts = await well.read(house, {})
        text = Renderer(house).render("well.html", language, **facts)
        assert "not connected to Discord&#39;s gateway" in text
        assert remedy in text
        assert "free 2.0 GiB" in text
        assert "sdjax-bot doctor" in text


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_first_screen_with_its_files_is_under_60_kilobytes(site: Site, language: str) -> None:
    await enqueue(site.store)
    async with site.operator.get(f"{site.url}/", headers={"Accept-Language": language}) as answer:
        first = await answer.read()
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', first.decode())
    assert len(files) == 3
    size = len(first)
    for file in files:
        async with site.operator.get(f"{site.url}{file}") as answer:
            size += len(await answer.read())
    assert size < 60_000


async def test_a_stream_sends_what_has_changed_and_ends_with_the_session(site: Site) -> None:
    async with site.operator.get(f"{site.url}/live/queue") as stream:
        assert stream.content_type == "text/event-stream"
        job_id = await enqueue(site.store)
        read = b""
        async with asyncio.timeout(20):
            while job_id.encode() not in read:
                read += await stream.content.readany()
            async with site.operator.post(
                f"{site.url}/leave", headers={"Origin": site.url}, allow_redirects=False
            ) as answer:
                assert answer.status == 303
            while await stream.content.readany():
                pass
    async with site.operator.get(f"{site.url}/queue") as answer:
        assert answer.status == 401


async def test_streams_beyond_the_most_are_refused_and_the_page_still_answers(site: Site) -> None:
    async with AsyncExitStack() as stack:
        pool = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=site.operator.cookie_jar
        )
        operator = await stack.enter_async_context(pool)
        for _ in range(MOST_STREAMS):
            stream = await stack.enter_async_context(operator.get(f"{site.url}/live/workers"))
            assert stream.status == 200
        async with operator.get(f"{site.url}/live/workers") as refused:
            assert refused.status == 503
        async with operator.get(f"{site.url}/workers") as answer:
            assert answer.status == 200


async def test_streams_whose_browsers_are_gone_make_room_for_others(site: Site) -> None:
    for _ in range(MOST_STREAMS):
        async with site.operator.get(f"{site.url}/live/") as stream:
            assert stream.status == 200
    async with asyncio.timeout(20):
        while True:
            async with site.operator.get(f"{site.url}/live/") as stream:
                if stream.status == 200:
                    return
            await asyncio.sleep(0.1)


async def test_a_stream_begins_with_the_middle_of_the_page(site: Site) -> None:
    """A change between the page and its stream, or while nobody looked, is shown."""
    async with site.operator.get(f"{site.url}/queue") as answer:
        assert "No request waits" in await answer.text()
    job_id = await enqueue(site.store)
    await shown(site, "/queue", job_id)
    async with site.operator.get(f"{site.url}/live/queue") as stream:
        async with asyncio.timeout(20):
            read = b""
            while job_id.encode() not in read:
                read += await stream.content.readany()


async def test_the_stream_of_an_unknown_request_is_not_found(site: Site) -> None:
    async with asyncio.timeout(20), site.operator.get(f"{site.url}/live/jobs/unknown") as answer:
        assert answer.status == 404
        assert "There is nothing here" in await answer.text()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=a", b"without one"),
        ("application/x-www-form-urlencoded; charset=none", b"link=a"),
        ("application/x-www-form-urlencoded; charset=utf-7", b"link=%2B2AA-&language=%2B2AA-"),
        ("application/x-www-form-urlencoded; charset=unicode_escape", b"link=%5Cud800"),
        ("application/x-www-form-urlencoded", b"link=\xff"),
    ],
)
@pytest.mark.parametrize("path", ["/enter", "/language"])
async def test_a_strangers_body_that_is_no_form_is_a_bad_request(
    site: Site, kind: str, body: bytes, path: str
) -> None:
    headers = {"Origin": site.url, "Content-Type": kind}
    async with site.stranger.post(f"{site.url}{path}", data=body, headers=headers) as answer:
        assert answer.status == 400


@pytest.mark.parametrize("job_id", ["%00", "a%00", "%EF%BF%BD", "x" * 17])
async def test_an_id_that_no_request_can_have_is_not_looked_up(
    site: Site, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes no null character: its error would count as an outage of the queue."""
    looked_up: list[object] = []
    monkeypatch.setattr(site.store.jobs, "get", looked_up.append)
    for path in (f"/jobs/{job_id}", f"/live/jobs/{job_id}", f"/pictures/{job_id}/0"):
        async with site.operator.get(URL(f"{site.url}{path}", encoded=True)) as answer:
            assert answer.status == 404
    assert looked_up == []


async def test_the_gallery_begins_anew_after_an_id_that_no_request_can_have(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_id, afters = await paint(site, "red"), []
    find = site.store.gallery.find

    async def noted(search: Search, *, after: str = "", limit: int) -> Found:
        afters.append(after)
        return await find(search, after=after, limit=limit)

    monkeypatch.setattr(site.store.gallery, "find", noted)
    async with site.operator.get(URL(f"{site.url}/gallery?after=a%00", encoded=True)) as answer:
        assert shown_id in await answer.text()
    assert afters == [""]


async def test_a_number_that_no_message_has_is_not_found(site: Site) -> None:
    address = f"{site.url}/deliveries/{2**63}/send"
    async with site.operator.post(address, headers={"Origin": site.url}) as answer:
        assert answer.status == 404


async def test_a_request_of_a_newer_version_is_not_found(site: Site) -> None:
    job_id = await enqueue(site.store)
    async with site.store.shared.database.write() as connection:
        await connection.execute(sa.update(jobs).values(recipe={"sampler": "newer"}))
    async with site.operator.post(f"{site.url}/jobs/{job_id}/cancel", headers={"Origin": site.url}) as answer:
        assert answer.status == 404


async def test_addresses_that_find_nothing_are_forgotten(site: Site) -> None:
    renderer = Renderer(site.house)

    async def read(_house: House, _query: Mapping[str, str]) -> dict[str, Any]:
        raise web.HTTPNotFound

    view = View(name="job", read=read, right=Right.QUEUE, keys=("job",))
    gc.collect()
    before = len(gc.get_objects())
    for number in range(20 * MOST_KEPT):
        with pytest.raises(web.HTTPNotFound):
            await renderer.fragment(view, {"job": str(number)}, "en")
    gc.collect()
    assert len(gc.get_objects()) - before < 20 * MOST_KEPT


async def test_a_filter_looks_at_the_whole_queue(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST_JOBS", 2)
    for number in (1, 2, 3):
        await enqueue(site.store, number)
    last = (await site.store.jobs.enqueue(recipe(model="other"), origin(4))).id
    async with site.operator.get(f"{site.url}/queue") as answer:
        text = re.sub(r"[\u2066-\u2069]", "", await answer.text())
    assert last not in text
    assert "Only the first 2 requests" in text
    async with site.operator.get(f"{site.url}/queue?model=other") as answer:
        text = re.sub(r"[\u2066-\u2069]", "", await answer.text())
    assert last in text
    assert "Only the first" not in text


async def test_a_view_is_read_once_for_all_its_viewers_and_again_when_something_has_changed(
    site: Site,
) -> None:
    now, reads = 0.0, 0

    async def read(_house: House, _query: Mapping[str, str]) -> dict[str, Any]:
        nonlocal reads
        reads += 1
        return {"trouble": "nothing", "words": "", "path": "/", "viewer": None}

    renderer = Renderer(site.house, clock=lambda: now)
    view = View(name="trouble", read=read, right=Right.OPERATIONS)

    async def reads_at(at: float) -> int:
        nonlocal now
        now = at
        await asyncio.gather(*(renderer.fragment(view, {}, "en") for _ in range(10)))
        return reads

    assert await reads_at(0.0) == 1
    assert await reads_at(0.5) == 1
    await reads_at(1.0)  # what SQLite's files showed may not have been readable yet
    still = reads
    assert await reads_at(2.0) == still
    await enqueue(site.store)
    assert await reads_at(3.0) == still + 1
    first = (await renderer.fragment(view, {}, "en")).event
    assert await reads_at(3.0 + STILL_SECONDS) > still + 1
    assert (await renderer.fragment(view, {}, "en")).event is first


@pytest.mark.parametrize(("seconds", "shown"), [(0.01, 0.7), (0.06, 2.1), (9.0, 4.2)])
async def test_a_view_that_takes_long_to_read_is_shown_the_longer(
    site: Site, seconds: float, shown: float
) -> None:
    now, reads = 0.0, 0

    async def read(_house: House, _query: Mapping[str, str]) -> dict[str, Any]:
        nonlocal now, reads
        reads += 1
        now += seconds
        return {"trouble": "nothing", "words": "", "path": "/", "viewer": None}

    renderer = Renderer(site.house, clock=lambda: now)
    view = View(name="trouble", read=read, right=Right.OPERATIONS)
    await renderer.fragment(view, {}, "en")
    await enqueue(site.store)
    for passed, wanted in ((shown - 0.05, 1), (0.1, 2)):
        now += passed
        await renderer.fragment(view, {}, "en")
        assert reads == wanted


async def test_strangers_who_try_secrets_reach_the_database_a_few_times_a_second(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up, now = 0, 0.0
    logins = site.store.logins
    session = await logins.enter(await logins.invite()) or ""
    entrance = Entrance(logins, Guard(site.house.config, Connections()), clock=lambda: now)

    async def come(secret: str) -> Login | None:
        headers = {"Host": "localhost", "Cookie": f"sdjax-login={secret}"}
        return await entrance.who(make_mocked_request("GET", "/queue", headers=headers))

    assert await come(session) is not None
    find = logins.find

    async def counted(secret: str) -> Login | None:
        nonlocal looked_up
        looked_up += 1
        return await find(secret)

    monkeypatch.setattr(logins, "find", counted)
    for seconds in (0.0, TRY_SECONDS):
        now, looked_up = seconds, 0
        for number in range(2 * TRIES):
            assert await come(f"guess {number}") is None
        assert TRIES - 1 <= looked_up <= TRIES
        assert await come(session) is not None
        request = make_mocked_request("POST", "/enter", headers={"Host": "localhost"})
        assert await entrance.enter(request, await logins.invite()) is not None


async def test_an_outage_of_the_database_is_told_on_the_page(site: Site) -> None:
    await site.store.close()
    async with site.operator.get(f"{site.url}/queue") as answer:
        assert answer.status == 503
        assert "The queue cannot be read" in await answer.text()


async def test_an_outage_tells_a_stranger_nothing_of_the_database(site: Site, tmp_path: Path) -> None:
    await site.store.close()
    headers = {"Cookie": "sdjax-login=guess"}
    for browser, told in ((site.operator, True), (site.stranger, False)):
        given = headers if browser is site.stranger else {}
        async with browser.get(f"{site.url}/queue", headers=given) as answer:
            assert answer.status == 503
            text = await answer.text()
        assert "The queue cannot be read" in text
        assert (str(tmp_path) in text) == told


@pytest.mark.parametrize(
    "path",
    [
        "//elsewhere.example",
        "/\\elsewhere.example",
        "/\t/elsewhere.example",
        "/\r\nX: y",
        "https://elsewhere.example",
        "\\\\x",
    ],
)
async def test_the_choice_of_a_language_leads_to_no_other_host(site: Site, path: str) -> None:
    form = {"language": "ko", "path": path}
    address, headers = f"{site.url}/language", {"Origin": site.url}
    async with site.stranger.post(address, data=form, headers=headers, allow_redirects=False) as answer:
        assert answer.headers["Location"] == "/"


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ({"port": 8090, "host": "0.0.0.0"}, "page.address"),
        ({"port": 8090, "host": "0.0.0.0", "address": "http://bot.example.org"}, "https://host"),
        ({"port": 8090, "address": "https://bot.example.org/path"}, "without a path"),
        ({"port": 8090, "address": "https://bot.example.org?a=b"}, "without a path"),
        ({"port": 8090, "address": "https://bot.example.org/#a"}, "without a path"),
        ({"port": 8090, "address": "https://a:b@bot.example.org"}, "without a path"),
        ({"port": 70000}, "page.port"),
    ],
)
def test_a_page_that_others_could_read_on_the_way_is_refused(section: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        Config.parse({"page": section})


async def test_a_host_that_no_machine_can_have_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3", clock=Clock())
        stack.push_async_callback(store.close)
        config = PageConfig(port=free_port(), host="a..localhost")
        artifacts = Artifacts(str(tmp_path / "artifacts"))
        house = House(store=store, artifacts=artifacts, config=config, usage=UsageConfig(), notes=no_notes)
        with pytest.raises(ConfigurationError, match=r"page\.host"):
            await stack.enter_async_context(serving(house))


def test_the_scripts_of_others_are_those_that_their_packages_hold() -> None:
    folder = resources.files("bot.page").joinpath("static")
    told = folder.joinpath("VENDORED.md").read_text(encoding="utf-8")
    for file in folder.iterdir():
        if file.name.endswith(".js") and file.name != "keys.js":
            assert f"`{file.name}` | {hashlib.sha256(file.read_bytes()).hexdigest()} |" in told
