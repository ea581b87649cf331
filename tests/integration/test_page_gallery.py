"""The gallery of the page over HTTP: what it finds, favourites, two pictures compared, archives."""

from __future__ import annotations

import asyncio
import io
import re
import zipfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest
from page_place import ART, ELSEWHERE, IDS, MODS, Place, placed
from yarl import URL

from bot.page import pictures
from bot.page.members import FRESH_SECONDS
from bot.page.pictures import LEFT_OUT
from bot.sandbox.permissions import Permission
from sdjax_engine.request import SecondPass, Variation


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path) as place:
        yield place


async def member(place: Place) -> aiohttp.ClientSession:
    """A browser of Ravi, who may read the channels of the server."""
    place.sandbox.employ("ravi", Permission.VIEW_CHANNEL, Permission.READ_MESSAGE_HISTORY)
    return await place.browser(IDS["ravi"])


async def text_of(browser: aiohttp.ClientSession, url: URL | str) -> str:
    async with browser.get(url) as answer:
        assert answer.status == 200
        return re.sub(r"[\u2066-\u2069]", "", await answer.text())


async def archive(browser: aiohttp.ClientSession, url: URL | str) -> dict[str, bytes]:
    """The files of an archive by their names."""
    async with browser.get(url) as answer:
        assert (answer.status, answer.content_type) == (200, "application/zip")
        assert "attachment" in answer.headers["Content-Disposition"]
        data = await answer.read()
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        return {name: found.read(name) for name in found.namelist()}


async def file_of(place: Place, job_id: str, index: int = 0) -> bytes:
    name = (await place.store.jobs.get(job_id)).images[index].artifact
    assert name is not None
    return await place.house.artifacts.get(name)


async def test_the_gallery_is_searched_by_channel_seed_level_and_day(place: Place) -> None:
    browser, job_id = await place.as_("moderator"), await place.paint(1)
    seed = (await place.store.jobs.get(job_id)).images[0].seed
    today = datetime.now(UTC).date()
    tomorrow = today + timedelta(days=1)
    for query, there in (
        (f"seed={seed}", True),
        (f"seed={seed + 1}", False),
        ("seed=x", False),
        (f"channel={ART}", True),
        (f"channel={MODS}", False),
        ("level=none", True),
        ("level=mild", False),
        (f"since={today}&until={tomorrow}", True),
        (f"since={tomorrow}", False),
        (f"until={today - timedelta(days=1)}", False),
        ("since=9999-12-31&until=9999-12-31", False),
        ("since=x&until=2026-99-99&level=x", True),
    ):
        text = await text_of(browser, f"{place.url}/gallery?whose=server&{query}")
        assert (job_id in text) == there, query


async def test_a_star_makes_a_request_a_favourite_of_its_viewer_alone(place: Place) -> None:
    browser, job_id = await member(place), await place.paint(1)
    other = await place.paint(2)
    gallery = f"{place.url}/gallery?whose=server&starred=yes"
    assert job_id not in await text_of(browser, gallery)
    star = f"{place.url}/gallery/{job_id}/star?words=wall&whose=server"
    async with browser.post(star, data={"star": "yes"}, headers={"Origin": place.url}) as answer:
        assert (answer.status, answer.url.path) == (200, "/gallery")
        assert dict(answer.url.query) == {"words": "wall", "whose": "server"}
        assert "★" in await answer.text()
    assert await place.store.favourites.of(IDS["ravi"]) == [job_id]
    text = await text_of(browser, gallery)
    assert job_id in text
    assert other not in text
    assert "★" not in await text_of(await place.as_("operator"), f"{place.url}/gallery")
    async with browser.post(star, headers={"Origin": place.url}) as answer:
        assert answer.status == 200
    assert await place.store.favourites.of(IDS["ravi"]) == []


@pytest.mark.parametrize("whose", [{"private": True}, {"guild_id": ELSEWHERE}], ids=["private", "elsewhere"])
async def test_what_a_member_may_not_see_is_no_favourite_and_not_compared_or_downloaded(
    place: Place, whose: dict[str, object]
) -> None:
    browser, hidden = await member(place), await place.paint(1, **whose)
    seen = await place.paint(2)
    async with browser.post(
        f"{place.url}/gallery/{hidden}/star", data={"star": "yes"}, headers={"Origin": place.url}
    ) as answer:
        assert answer.status == 404
    assert await place.store.favourites.of(IDS["ravi"]) == []
    marks = f"picture={hidden}.0&picture={seen}.0"
    async with browser.get(f"{place.url}/gallery/compare?{marks}") as answer:
        assert answer.status == 404
    files = await archive(browser, f"{place.url}/gallery/archive?{marks}")
    assert files == {f"{seen}-1.png": await file_of(place, seen), LEFT_OUT: f"{hidden}-1.png".encode()}
    await place.store.favourites.add(IDS["ravi"], hidden)  # by a reaction in Discord, before it was hidden
    assert hidden not in await text_of(browser, f"{place.url}/gallery?whose=server&starred=yes")


async def test_stars_comparisons_and_archives_stay_at_the_part_of_the_gallery_that_is_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, older = await place.as_("moderator"), await place.paint(1)
    after = f"after={await place.paint(2)}"
    monkeypatch.setattr(pictures, "ON_A_PAGE", 1)
    gallery = f"{place.url}/gallery?whose=server"
    assert after in await text_of(browser, gallery)
    text = await text_of(browser, f"{gallery}&{after}")
    marks = text[text.index('action="/gallery/compare"') :]
    kept = urlencode(re.findall(r'type="hidden" name="(\w+)" value="(\w+)"', marks))
    assert list(await archive(browser, f"{place.url}/gallery/archive?{kept}")) == [f"{older}-1.png"]
    (star,) = re.findall(r'formaction="(/gallery/\w+/star[^"]*)"', marks)
    origin = {"Origin": place.url}
    async with browser.post(place.url + star.replace("&amp;", "&"), headers=origin) as answer:
        assert after in answer.url.query_string
        assert older in await answer.text()
    (back,) = re.findall(
        'href="(/gallery[?][^"]*)"', await text_of(browser, f"{place.url}/gallery/compare?{kept}")
    )
    assert after in back


async def test_the_language_of_a_page_that_answers_a_form_can_be_chosen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, job_id = await member(place), await place.paint(1)
    monkeypatch.setattr("bot.store.people.favourites.MOST", 0)
    star, headers = f"{place.url}/gallery/{job_id}/star?whose=server", {"Origin": place.url}
    async with browser.post(star, data={"star": "yes"}, headers=headers) as answer:
        assert answer.status == 200
        text = await answer.text()
    assert 'role="alert"' in text
    (path,) = re.findall(r'name="path" value="([^"]*)"', text)
    form = {"language": "ko", "path": path}
    async with browser.post(f"{place.url}/language", data=form, headers=headers) as answer:
        assert (answer.status, str(answer.url)) == (200, f"{place.url}/gallery?whose=server")
        assert 'lang="ko"' in await answer.text()


async def test_the_operator_of_a_link_has_no_favourites(place: Place) -> None:
    browser, job_id = await place.browser(0), await place.paint(1)
    assert "☆" not in await text_of(browser, f"{place.url}/gallery")
    star = f"{place.url}/gallery/{job_id}/star"
    async with browser.post(star, data={"star": "yes"}, headers={"Origin": place.url}) as answer:
        assert answer.status == 404


async def test_two_pictures_are_compared_by_what_differs(place: Place) -> None:
    browser = await place.as_("moderator")
    job_id = await place.paint(1, variants=2, prompt="a red fox <i>at</i> night")
    other = await place.paint(2, prompt="a red fox at dawn")
    marks = f"picture={job_id}.1&picture={other}.0"
    text = await text_of(browser, f"{place.url}/gallery/compare?whose=server&{marks}")
    assert "<mark>night</mark>" in text
    assert "<mark>dawn</mark>" in text
    assert "<mark>red</mark>" not in text
    assert "&lt;i&gt;" in text
    assert f'src="/pictures/{job_id}/1"' in text
    assert re.findall(r'scope="row" dir="ltr">(\w+)<', text) == ["prompt", "seed"]
    assert 'href="/gallery?whose=server"' in text
    equal = await text_of(browser, f"{place.url}/gallery/compare?picture={job_id}.0&picture={other}.0")
    assert 'dir="ltr">seed<' not in equal


async def test_what_differs_is_named_as_the_options_are_in_each_language(place: Place) -> None:
    browser, job_id = await place.as_("moderator"), await place.paint(1)
    second = SecondPass(width=1024, height=1024, num_inference_steps=9, strength=0.5)
    given = {"init_image": f"aa/aa{'7' * 62}.png", "control_image": f"bb/bb{'8' * 62}.png"}
    asked = {"width": 512, "height": 768, "num_inference_steps": 7, "second_pass": second, **given}
    asked |= {
        "variations": (Variation(seed=3, strength=0.5),),
        "guidance_interval": (0.2, 0.8),
        "controlnet": "net",
    }
    other = await place.paint(1, asked=asked)
    browser.cookie_jar.update_cookies({"language": "ko"}, URL(place.url))
    marks = f"picture={job_id}.0&picture={other}.0"
    text = await text_of(browser, f"{place.url}/gallery/compare?{marks}")
    names = re.findall(r'scope="row" dir="ltr">([^<]*)<', text)
    assert {"크기", "스텝", "고해상도", "이미지", "구도", "변형", "가이던스_구간", "구도_모델"} <= set(names)
    assert not [name for name in names if name.isascii()]
    assert not {"width", "height"} & set(names)
    assert "<mark>512x768</mark>" in text
    assert "<mark>1024x1024</mark> <mark>0.5</mark> <mark>9</mark>" in text
    assert "<mark>aa/aa777777</mark>" in text
    assert "7" * 12 not in text  # the name of a file tells what is in it


@pytest.mark.parametrize(
    "marks", ["", "picture={0}.0", "picture={0}.0&picture={0}.0", "picture=%00.0&picture={0}.9"]
)
async def test_other_marks_than_two_are_a_mistake_that_is_told(place: Place, marks: str) -> None:
    browser, job_id = await place.as_("moderator"), await place.paint(1)
    address = URL(f"{place.url}/gallery/compare?{marks.format(job_id)}", encoded=True)
    assert "mark exactly two" in await text_of(browser, address)


async def test_an_archive_has_the_marked_pictures_or_all_of_the_view(place: Place) -> None:
    browser = await place.as_("moderator")
    first, second = await place.paint(1, variants=2, prompt="a fox"), await place.paint(2, prompt="a cat")
    marked = await archive(browser, f"{place.url}/gallery/archive?picture={first}.1&picture={second}.0")
    assert marked == {
        f"{first}-2.png": await file_of(place, first, 1),
        f"{second}-1.png": await file_of(place, second),
    }
    view = await archive(browser, f"{place.url}/gallery/archive?whose=server&words=fox")
    assert sorted(view) == [f"{first}-1.png", f"{first}-2.png"]
    assert await archive(browser, f"{place.url}/gallery/archive?words=zebra") == {}


async def test_an_archive_names_what_is_beyond_its_limits_or_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = await place.as_("moderator")
    ids = [await place.paint(number) for number in range(4)]
    marks = "&".join(f"picture={job_id}.0" for job_id in ids)
    monkeypatch.setattr(pictures, "MOST_PACKED", 3)
    files = await archive(browser, f"{place.url}/gallery/archive?{marks}")
    assert files[LEFT_OUT] == f"{ids[3]}-1.png".encode()
    monkeypatch.setattr(pictures, "MOST_BYTES", 1)
    files = await archive(browser, f"{place.url}/gallery/archive?{marks}")
    assert sorted(files) == sorted([f"{ids[0]}-1.png", LEFT_OUT])
    assert len(files[LEFT_OUT].split()) == 3
    monkeypatch.undo()
    name = (await place.store.jobs.get(ids[0])).images[0].artifact
    assert name is not None
    await place.house.artifacts.delete(name)
    assert (await archive(browser, f"{place.url}/gallery/archive?{marks}"))[
        LEFT_OUT
    ] == f"{ids[0]}-1.png".encode()


async def test_an_archive_is_sent_picture_by_picture_and_ends_with_the_role(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile its person gets no second one, and others do."""
    browser, other = await place.as_("moderator"), await place.as_("operator")
    ids = [await place.paint(number, channel_id=MODS) for number in range(3)]
    marks = "&".join(f"picture={job_id}.0" for job_id in ids)
    get, go_on, read = place.house.artifacts.get, asyncio.Event(), 0

    async def slow(name: str, *, tidy: bool = True) -> bytes:
        nonlocal read
        read += 1
        if read == 2:
            await go_on.wait()
        return await get(name, tidy=tidy)

    monkeypatch.setattr(place.house.artifacts, "get", slow)
    async with browser.get(f"{place.url}/gallery/archive?{marks}") as answer:
        data = await answer.content.readany()
        assert f"{ids[0]}-1.png".encode() in data  # while the second picture is not read yet
        assert "try again in a minute" in await text_of(browser, f"{place.url}/gallery/archive?{marks}")
        assert len(await archive(other, f"{place.url}/gallery/archive?{marks}")) == 3
        place.sandbox.employ("ravi")
        place.time.now += FRESH_SECONDS
        go_on.set()
        data += await answer.read()
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.namelist() == [f"{ids[0]}-1.png", f"{ids[1]}-1.png", LEFT_OUT]
        assert found.read(LEFT_OUT) == f"{ids[2]}-1.png".encode()


async def test_who_goes_in_the_middle_of_an_archive_makes_room_for_another(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, job_id = await place.as_("moderator"), await place.paint(1)
    get, go_on = place.house.artifacts.get, asyncio.Event()

    async def slow(name: str, *, tidy: bool = True) -> bytes:
        await go_on.wait()
        return await get(name, tidy=tidy)

    monkeypatch.setattr(place.house.artifacts, "get", slow)
    address = f"{place.url}/gallery/archive?picture={job_id}.0"
    async with browser.get(address):
        pass  # and closed
    go_on.set()
    async with asyncio.timeout(10):
        while True:
            async with browser.get(address) as answer:
                if answer.content_type == "application/zip":
                    break
            await asyncio.sleep(0.01)


async def test_a_browser_that_takes_nothing_of_an_archive_holds_its_place_for_seconds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, other, job_id = await place.as_("moderator"), await place.as_("operator"), await place.paint(1)
    address, size = f"{place.url}/gallery/archive?picture={job_id}.0", 32 * 2**20  # beyond every buffer

    async def large(_name: str, *, tidy: bool = True) -> bytes:
        return bytes(size)

    monkeypatch.setattr(place.house.artifacts, "get", large)
    monkeypatch.setattr("bot.page.pictures.MOST_ARCHIVES", 1)
    monkeypatch.setattr("bot.page.pictures.WAIT_SECONDS", 0.1)
    monkeypatch.setattr("bot.page.pictures.SLOWEST", size / 0.4)
    async with browser.get(address) as idle:
        assert "try again in a minute" in await text_of(other, address)
        async with asyncio.timeout(10):
            while True:
                async with other.get(address) as answer:
                    if answer.content_type == "application/zip":
                        break
                await asyncio.sleep(0.01)
        with pytest.raises(aiohttp.ClientPayloadError):
            await idle.read()


async def test_an_archive_whose_pictures_cannot_be_read_ends_with_its_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, job_id = await place.as_("moderator"), await place.paint(1)
    address = f"{place.url}/gallery/archive?picture={job_id}.0"

    async def hanging(_name: str, *, tidy: bool = True) -> bytes:
        return await asyncio.Future()

    with monkeypatch.context() as patch:
        patch.setattr(place.house.artifacts, "get", hanging)
        patch.setattr("bot.page.pictures.ARCHIVE_SECONDS", 0.1)
        async with browser.get(address) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):  # nobody takes a part for the whole
                await answer.read()
    assert list(await archive(browser, address)) == [f"{job_id}-1.png"]
