"""The pictures of the page: the queue, workers and failures of a busy bot, a case of moderators, the gallery.

`make pictures` renews them in docs/images. `test_operators_pictures.py` takes the same steps and writes
nothing.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from documented import Keep
from evening import free_port
from page_place import ART, HERE, IDS, Place, placed
from PIL import Image, ImageDraw
from playwright.async_api import Browser, Page, ViewportSize
from recipes import origin, recipe

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.domain.holds import Cause, Hold
from bot.domain.jobs import Notes
from bot.domain.levels import Level
from bot.files.artifacts import Artifacts
from bot.page.house import House
from bot.page.server import serving
from bot.sandbox.community import PEOPLE
from bot.store import Store
from bot.store.rows.audit import By
from sdjax_engine.request import PictureScores

VIEWS = ("queue", "workers", "failures")
OF_PEOPLE = ("case", "case-phone", "gallery", "compare")
FILES = frozenset(f"page-{view}.png" for view in (*VIEWS, *OF_PEOPLE))
SIZE = ViewportSize(width=1240, height=820)
PHONE = ViewportSize(width=390, height=844)
TTL = 600.0


async def no_notes() -> list[str]:
    return []


async def fill(store: Store) -> None:
    """Some requests that run, wait, are paused, and have failed."""
    lane = recipe().lane
    facts = {
        "ttl": TTL,
        "accelerator": "cpu",
        "version": "1.0.0",
        "ready": 1,
        "hourly": 214,
        "memory": 6 * 2**30,
    }
    await store.offers.announce("studio-worker-1", lanes=[lane], seats=4, **facts)
    await store.offers.announce("studio-worker-2", lanes=[lane], seats=4, **facts)
    for number in range(1, 3):
        person = PEOPLE[number]
        await store.jobs.enqueue(
            recipe(variants=2), origin(number, user_id=person.id, user_name=person.username)
        )
    for claim in await store.leases.claim("studio-worker-2", limit=4, ttl=TTL):
        await store.leases.fail(claim, failure="not_kept" if claim.image_id % 2 else "painting_failed")
    for number in range(3, 12):
        person = PEOPLE[number % len(PEOPLE)]
        model = "sdxl" if number == 8 else "demo"
        whose = origin(number, user_id=person.id, user_name=person.username)
        await store.jobs.enqueue(recipe(variants=2, model=model), whose)
    claims = await store.leases.claim("studio-worker-1", limit=4, ttl=TTL)
    await store.leases.heartbeat(
        {claim: 3 + 5 * number for number, claim in enumerate(claims)}, ttl=TTL, begun=claims
    )


LANDS = (
    # the words of a landscape, and the colours of its sky above and below, of its light, and of its hills
    ("a red sun over green hills", "#f6b35c", "#fbe3b0", "#d9432f", "#3c7a4b"),
    ("a white moon over blue hills, night", "#0d1533", "#2c3f78", "#f3f1e4", "#1f3a6b"),
    ("an orange sun over violet hills, evening", "#5b2a6e", "#e98a6b", "#ffc14d", "#3d2257"),
    ("a pale sun over snowy hills", "#9fc3dd", "#e8f1f6", "#fff6d6", "#f7fafc"),
    ("a red moon over dark hills", "#1c1016", "#59262c", "#c94433", "#171114"),
    ("a yellow sun over brown hills", "#7fb4d8", "#dcebdf", "#f7d33c", "#8a6239"),
)


def landscape(number: int, picture: int) -> bytes:
    """The PNG of one of LANDS; each `picture` of it has its light at another place."""
    _, above, below, light, hills = LANDS[number % len(LANDS)]
    size = 512
    sky = Image.linear_gradient("L").resize((size, size))
    drawn = Image.composite(Image.new("RGB", sky.size, below), Image.new("RGB", sky.size, above), sky)
    pen, x, y = ImageDraw.Draw(drawn), 130 + 83 * (picture + number) % 260, 130 + 47 * picture % 110
    pen.ellipse((x - 58, y - 58, x + 58, y + 58), fill=light)
    pen.ellipse((-220 + 40 * picture, 300, 330, 780), fill=hills)
    pen.ellipse((190, 350 - 20 * picture, 760, 800), fill=hills)
    png = io.BytesIO()
    drawn.save(png, "PNG")
    return png.getvalue()


async def paint(place: Place, number: int, *, pictures: int, hold: Hold | None = None) -> str:
    """A finished request in the server of the sandbox; returns its id."""
    person = PEOPLE[1 + number % 4]
    asked = recipe(prompt=LANDS[number % len(LANDS)][0], variants=pictures, seed=41 + 9 * number)
    whose = {"user_id": person.id, "user_name": person.username, "guild_id": HERE, "channel_id": ART}
    job = await place.store.jobs.enqueue(asked, origin(number + 1, **whose), hold=hold)
    notes = Notes(
        level=Level.MILD, classified=PictureScores(labels=("mild", "none"), probabilities=(0.62, 0.38))
    )
    for picture, claim in enumerate(await place.store.leases.claim("one", limit=pictures, ttl=TTL)):
        name = await place.house.artifacts.put(landscape(number, picture), ".png")
        facts = Notes() if hold is None else notes
        await place.store.leases.complete(claim, artifact=name, seconds=1.0, notes=facts)
    return job.id


async def painted(page: Page) -> None:
    """Wait until all pictures of a page are there."""
    await page.evaluate("Promise.all([...document.images].map(image => image.decode()))")


async def moderated(browser: Browser, folder: Path, keep: Keep) -> None:
    """Keep pictures of a case and of the gallery, as a moderator sees them."""
    async with placed(folder) as place, AsyncExitStack() as stack:
        ids = [await paint(place, number, pictures=2) for number in range(6)]
        await paint(place, 10, pictures=4, hold=Hold(cause=Cause.PICTURE, rule="no weapons"))
        (review,) = await place.store.reviews.waiting(HERE, limit=9)
        mina = IDS["mina"]
        await place.store.review_claims.claim(review.id, By(actor_id=mina, guild_id=HERE))
        await place.store.favourites.add(mina, ids[2])
        cookie = {"name": "sdjax-login", "value": await place.store.logins.open(mina), "url": place.url}

        async def shown(path: str, size: ViewportSize) -> Page:
            context = await stack.enter_async_context(
                await browser.new_context(
                    viewport=size, locale="en-GB", color_scheme="dark", has_touch=size is PHONE
                )
            )
            await context.add_cookies([cookie])
            page = await context.new_page()
            await page.goto(f"{place.url}/{path}")
            await painted(page)
            return page

        for name, size in (("case", SIZE), ("case-phone", PHONE)):
            page = await shown(f"wall/{review.id}", size)
            await page.locator("input[name=tile]").nth(1).check()
            await page.evaluate("scrollTo(0, 0)")
            keep(f"page-{name}.png", await page.screenshot())
        page = await shown("gallery?whose=server", SIZE)
        for picture in (f"{ids[0]}.0", f"{ids[4]}.1"):
            await page.locator(f"input[value='{picture}']").check()
        await page.evaluate("scrollTo(0, 0)")
        keep("page-gallery.png", await page.screenshot())
        await page.get_by_role("button", name="Compare two").click()
        await page.locator(".pair").wait_for()
        await painted(page)
        keep("page-compare.png", await page.screenshot())


async def visited(browser: Browser, folder: Path, keep: Keep) -> None:
    """Keep a picture of each of VIEWS, and those of OF_PEOPLE."""
    with tempfile.TemporaryDirectory(dir=folder) as people:
        await moderated(browser, Path(people), keep)
    async with AsyncExitStack() as stack:
        store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
        stack.push_async_callback(store.close)
        await fill(store)
        config, artifacts = PageConfig(port=free_port()), Artifacts(f"{folder}/artifacts")
        house = House(store=store, artifacts=artifacts, config=config, usage=UsageConfig(), notes=no_notes)
        await stack.enter_async_context(serving(house))
        context = await stack.enter_async_context(
            await browser.new_context(viewport=SIZE, locale="en-GB", color_scheme="dark")
        )
        page = await context.new_page()
        await page.goto(f"{config.url}/enter?link={await store.logins.invite()}")
        await page.locator("button.main").click()
        await page.wait_for_url(f"{config.url}/")
        for view in VIEWS:
            await page.goto(f"{config.url}/{view}")
            await page.locator("h1").wait_for()
            keep(f"page-{view}.png", await page.screenshot())
