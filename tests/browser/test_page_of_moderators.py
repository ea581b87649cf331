"""The page in a real browser, as moderators see it: login with Discord, and the wall of reviews."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from page_place import HERE, IDS, MODERATES, Place, placed
from page_tools import DESKTOP, PHONE
from playwright.async_api import Browser, Page, ViewportSize, expect

from bot.domain.holds import Outcome
from bot.domain.jobs import Showing
from bot.page.members import FRESH_SECONDS
from bot.store.rows.audit import By
from bot.store.rows.reviews import Review

pytestmark = pytest.mark.asyncio(loop_scope="session")
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


class People:
    """Opens pages as members of the sandbox; a fault on any of them is kept."""

    def __init__(self, place: Place, chromium: Browser) -> None:
        self.place = place
        self.faults: list[str] = []
        self._chromium = chromium

    async def page(self, member: str = "", *, size: tuple[int, int] = DESKTOP, **options: Any) -> Page:
        """A page in a browser of its own; with `member`, this person has logged in with Discord."""
        viewport = ViewportSize(width=size[0], height=size[1])
        context = await self._chromium.new_context(viewport=viewport, **options)
        self.place.stack.push_async_callback(context.close)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda line: self.faults.append(line.text) if line.type == "error" else None)
        if member:
            await page.goto(f"{self.place.url}/enter")
            await page.locator("a[href='/discord']").click()
            await page.get_by_role("button", name=member).click()
            await page.locator("nav").wait_for()
        return page

    async def check(self, page: Page) -> None:
        """Find no violation of accessibility, and nothing wider than the screen."""
        await page.add_script_tag(content=AXE)
        found = await page.evaluate(
            "async () => (await axe.run()).violations.map(v => [v.id, v.nodes[0].html])"
        )
        assert found == [], page.url
        width = page.viewport_size["width"] if page.viewport_size else 0
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, page.url


@pytest_asyncio.fixture(loop_scope="session")
async def people(tmp_path: Path, chromium: Browser) -> AsyncIterator[People]:
    async with placed(tmp_path) as place:
        people = People(place, chromium)
        yield people
        assert people.faults == []


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
async def test_a_login_with_discord_leads_into_the_page(people: People, script: bool) -> None:
    page = await people.page("Mina", java_script_enabled=script)
    await expect(page.get_by_role("link", name="The Studio")).to_be_visible()
    await page.get_by_role("link", name="The Studio").click()
    await page.get_by_role("button", name="The Studio").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Queue")


@pytest.mark.parametrize(("size", "locale"), [(DESKTOP, "en-GB"), (PHONE, "ar")], ids=["desktop", "phone"])
async def test_the_pages_of_a_login_are_accessible(
    people: People, size: tuple[int, int], locale: str
) -> None:
    job_id = await people.place.paint(1, variants=2, prompt="a red fox at night")
    page = await people.page("Omar", size=size, locale=locale, bypass_csp=True)
    marks = f"picture={job_id}.0&picture={job_id}.1"
    for path in ("enter", "servers", "gallery?whose=me", "gallery?whose=server", "queue"):
        await page.goto(f"{people.place.url}/{path}")
        await people.check(page)
    for marked in (marks, "", f"{marks}&picture={job_id}.1&picture={job_id}.2"):
        await page.goto(f"{people.place.url}/gallery/compare?{marked}")
        await people.check(page)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
async def test_pictures_are_starred_compared_and_downloaded(people: People, script: bool) -> None:
    place = people.place
    fox, cat = await place.paint(1, variants=2, prompt="a fox"), await place.paint(2, prompt="a cat")
    page = await people.page("Omar", java_script_enabled=script)
    await page.goto(f"{place.url}/gallery?whose=server")
    await page.get_by_role("button", name=f"Add request {cat} to your favourites").click()
    await expect(page.get_by_role("button", name=f"Remove request {cat} ")).to_be_visible()
    await page.get_by_role("checkbox", name=f"Mark picture {fox}-1").check()
    await page.get_by_role("checkbox", name=f"Mark picture {cat}-1").check()
    await page.get_by_role("button", name="Compare two").click()
    await expect(page.locator("mark")).to_have_text(["cat", "fox"])
    await page.get_by_role("link", name="Back to the gallery").click()
    await page.get_by_role("checkbox", name="Only my favourites").check()
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_role("img", name="a fox")).to_have_count(0)
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download").click()
    with zipfile.ZipFile(await (await download.value).path()) as archive:
        assert archive.namelist() == [f"{cat}-1.png"]


async def hold(place: Place, *numbers: int, **whose: Any) -> list[Review]:
    """Held pictures, and their reviews in the order of their times."""
    for number in numbers:
        await place.paint(number, Showing.HOLD, **whose)
    return await place.store.reviews.waiting(HERE, limit=50)


async def test_a_case_is_decided_with_the_keyboard_alone(people: People) -> None:
    place = people.place
    first, second, _ = await hold(place, 1, 2, 3)
    page = await people.page("Mina")
    await page.goto(f"{place.url}/wall")
    await page.keyboard.press("n")
    await page.wait_for_url(f"{place.url}/wall/{first.id}")
    picture = page.locator(".tiles img")
    assert "blur" in await picture.evaluate("image => getComputedStyle(image).filter")
    await page.keyboard.down("v")
    assert await picture.evaluate("image => getComputedStyle(image).filter") == "none"
    await page.keyboard.up("v")
    assert "blur" in await picture.evaluate("image => getComputedStyle(image).filter")
    await page.keyboard.press("r")
    await page.keyboard.type("no logos, and not a word about snow")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{place.url}/wall/{second.id}?last={first.id}")
    rejected = await place.store.reviews.get(first.id, HERE)
    assert (rejected.outcome, rejected.decided_by) == (Outcome.REJECTED, IDS["mina"])
    assert rejected.reason == "no logos, and not a word about snow"
    await page.keyboard.press("a")
    await page.wait_for_url(f"**/wall/*?last={second.id}")
    assert (await place.store.reviews.get(second.id, HERE)).outcome is Outcome.SHOWN
    await page.keyboard.press("u")
    await page.wait_for_url(f"{place.url}/wall")
    held = [each.job_id for each in await place.store.reviews.waiting(HERE, limit=9)]
    assert second.job_id in held


async def test_keys_can_be_switched_off(people: People) -> None:
    (review,) = await hold(people.place, 1)
    page = await people.page("Mina")
    await page.goto(f"{people.place.url}/wall/{review.id}")
    await page.keyboard.press("c")
    await page.get_by_label("Single keys work").uncheck()
    await page.keyboard.press("a")
    await page.reload()
    await expect(page.get_by_label("Single keys work")).not_to_be_checked()
    assert (await people.place.store.reviews.get(review.id, HERE)).outcome is None


async def test_two_moderators_at_once_judge_different_cases(people: People) -> None:
    place = people.place
    first, second = await hold(place, 1, 2)
    place.sandbox.employ("wei", *MODERATES)
    mina, wei = await people.page("Mina"), await people.page("Wei", locale="en-GB")
    for page, review in ((mina, first), (wei, second)):
        await page.goto(f"{place.url}/wall")
        await page.keyboard.press("n")
        await page.wait_for_url(f"{place.url}/wall/{review.id}")
        await expect(page.locator(".tiles")).to_be_visible()
    await wei.goto(f"{place.url}/wall/{first.id}")
    await expect(wei.get_by_text("Another moderator looks at this.")).to_be_visible()
    await expect(wei.locator(".tiles")).to_have_count(0)
    await expect(wei.get_by_role("button", name="Approve")).to_have_count(0)
    await mina.keyboard.press("a")
    await expect(wei.get_by_text("approved")).to_be_visible()


async def test_a_case_disappears_from_an_open_page_with_the_role(people: People) -> None:
    place = people.place
    (review,) = await hold(place, 1)
    place.sandbox.employ("wei", *MODERATES)
    page = await people.page("Wei", locale="en-GB")
    await page.goto(f"{place.url}/wall/{review.id}")
    await page.keyboard.press("c")
    await expect(page.locator(".tiles")).to_be_visible()
    place.sandbox.employ("wei")
    place.time.now += FRESH_SECONDS
    await expect(page.get_by_text("You may not see this any more")).to_be_visible(timeout=15_000)
    await expect(page.locator(".tiles")).to_be_hidden()
    await page.goto(f"{place.url}/wall/{review.id}")
    await expect(page.get_by_text("This is not for you")).to_be_visible()
    people.faults.clear()  # Chromium logs the status 403


async def test_one_bad_picture_of_four_is_rejected_without_script(people: People) -> None:
    place = people.place
    (review,) = await hold(place, 1, variants=4)
    page = await people.page("Mina", java_script_enabled=False)
    await page.goto(f"{place.url}/wall/{review.id}")
    await page.get_by_role("button", name="Look at this").click()
    await page.get_by_label("Show the pictures").check()
    picture = page.locator(".tiles img").first
    assert await picture.evaluate("image => getComputedStyle(image).filter") == "none"
    await page.get_by_label("Mark picture 2").check()
    await page.get_by_label("Reason").first.fill("a logo")
    await page.get_by_role("button", name="Reject").click()
    await page.wait_for_url(f"{place.url}/wall?last={review.id}")
    job = await place.store.jobs.get(review.job_id or "")
    assert [image.showing for image in job.images] == [
        Showing.SHOW,
        Showing.WITHHOLD,
        Showing.SHOW,
        Showing.SHOW,
    ]


@pytest.mark.parametrize(
    ("size", "locale", "scheme"),
    [(DESKTOP, "en-GB", "light"), (PHONE, "ar", "dark")],
    ids=["desktop", "phone"],
)
async def test_the_wall_is_accessible(
    people: People, size: tuple[int, int], locale: str, scheme: Any
) -> None:
    place = people.place
    (review,) = await hold(place, 1, variants=4)
    await place.paint(1, Showing.HOLD)
    job = await place.store.jobs.get(await place.paint(1))
    await place.store.reports.add(job.id, IDS["omar"], guild_id=HERE, reason="ugly <b>")
    page = await people.page("Mina", size=size, locale=locale, color_scheme=scheme, bypass_csp=True)
    for path in ("wall", f"wall/{review.id}"):
        await page.goto(f"{place.url}/{path}")
        await people.check(page)
    await page.locator("[data-key=c]").click()
    await people.check(page)


@pytest.mark.parametrize(("size", "locale"), [(DESKTOP, "en-GB"), (PHONE, "ko")], ids=["desktop", "phone"])
async def test_a_rule_is_tried_and_saved_with_the_keyboard_alone(
    people: People, size: tuple[int, int], locale: str
) -> None:
    place = people.place
    for number, prompt in enumerate(("a knife", "a spoon"), start=1):
        await place.paint(number, prompt=prompt)
    await place.store.known.block(7, By(actor_id=IDS["mina"], guild_id=HERE))
    page = await people.page("Mina", size=size, locale=locale, bypass_csp=True)
    await page.goto(f"{place.url}/blocked")
    await people.check(page)
    await page.goto(f"{place.url}/rules")
    await page.locator("input[name=name]").focus()
    await page.keyboard.type("knives")
    for _ in range(3):
        await page.keyboard.press("Tab")
    await page.keyboard.type("knife")
    for _ in range(2):
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/rules/try?server=*")
    await expect(page.get_by_role("cell", name="a knife")).to_be_visible()
    await people.check(page)
    await page.locator("form.rule button:not(.main)").focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{place.url}/rules?saved=knives")
    await people.check(page)
    assert [rule.name for rule in await place.store.prompt_rules.of(HERE)] == ["knives"]
