"""The pictures of a newcomer's first steps, and the film of the README: Chromium on the sandbox's page.

`make pictures` renews them in docs/images. `test_first_pictures.py` takes the same steps and
writes nothing.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import film
import PIL.Image
from documented import Keep
from evening import Role, alive, free_port
from picture_prompts import (
    ALTERNATIVES,
    LARGER,
    OTHER_PAIR,
    PAIR,
    SEED_OF_GRID,
    SIZE,
    UPLOADED,
)
from playwright.async_api import (
    Browser,
    BrowserContext,
    FilePayload,
    Locator,
    Page,
    ViewportSize,
    expect,
)

from bot.sandbox.server import Sandbox

FILES = frozenset(
    {
        "first-minute.webp",
        "first-paint-1.png",
        "first-paint-2.png",
        "first-paint-3.png",
        "first-pick-1.png",
        "first-pick-2.png",
        "first-pick-3.png",
        "first-remix-1.png",
        "first-remix-2.png",
        "first-remix-3.png",
        "first-remix-4.png",
        "permutations.png",
        "favourites.png",
        "history.png",
        "stats.png",
        "settings.png",
    }
)
PHONE = ViewportSize(width=430, height=940)
PATIENCE = 120_000.0  # milliseconds
STEPS = 60  # of the first grid: time for a screenshot of a preview that is nearly finished


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A page, and the function that keeps its screenshots."""

    page: Page
    keep: Keep

    async def shoot(self, name: str) -> None:
        """Take a screenshot."""
        self.keep(f"{name}.png", await self.page.screenshot(animations="disabled", caret="hide"))

    async def send(self, line: str) -> None:
        """Type a command and send it."""
        await self.page.get_by_role("textbox", name="Command box").fill(line)
        await self.page.keyboard.press("Enter")

    def message(self, words: str, *, button: str) -> Locator:
        """The newest message with these words and this button."""
        found = self.page.get_by_role("article").filter(has_text=words)
        return found.filter(has=self.page.get_by_role("button", name=button, exact=True)).last

    async def press(self, message: Locator, label: str) -> None:
        """Press a button of a message."""
        await message.get_by_role("button", name=label, exact=True).click()


async def paint(visit: Visit, steps: int) -> Locator:
    """Type a prompt, watch the preview, see the grid."""
    page = visit.page
    await page.get_by_role("textbox", name="Command box").press_sequentially(f"/imagine {PAIR} variants:4 ")
    await expect(page.get_by_role("textbox", name="Command box")).to_have_value(
        f"/imagine {PAIR} variants:4 "
    )
    await visit.shoot("first-paint-1")
    await visit.send(f"/imagine {PAIR} variants:4 steps:{steps} seed:{SEED_OF_GRID}")
    await shoot_while_painted(visit, "first-paint-2")
    grid = visit.message(PAIR, button="U1")
    await grid.wait_for(timeout=PATIENCE)
    await shown(grid)
    await visit.shoot("first-paint-3")
    return grid


async def shoot_while_painted(visit: Visit, name: str) -> None:
    """Take screenshots of the newest message while it has a preview; the last one is kept."""
    page, message = visit.page, visit.page.get_by_role("article").last
    # A busy machine may finish before it has time for a preview.
    finished = message.get_by_role("button", name="U1", exact=True)
    await message.get_by_alt_text("Preview").or_(finished).first.wait_for(timeout=PATIENCE)
    while "Painting" in (said := await message.inner_text()):
        picture = await page.screenshot(animations="disabled", caret="hide")
        if await message.inner_text() == said:
            visit.keep(f"{name}.png", picture)
        await expect(message).not_to_have_text(said, use_inner_text=True, timeout=PATIENCE)


async def pick(visit: Visit, grid: Locator) -> Locator:
    """Show one picture of the grid, then enlarge it."""
    await grid.get_by_role("button", name="U3", exact=True).focus()
    await visit.page.keyboard.press("Tab")
    await visit.page.keyboard.press("Shift+Tab")
    await visit.shoot("first-pick-1")
    await visit.press(grid, "U3")
    alone = visit.message("picture 3 of this grid", button="Enlarge")
    await alone.wait_for(timeout=PATIENCE)
    await shown(alone)
    await visit.shoot("first-pick-2")
    await visit.press(alone, "Enlarge")
    larger = visit.message(LARGER.replace("x", "×"), button="Again")
    await larger.wait_for(timeout=PATIENCE)
    await shown(larger)
    await visit.shoot("first-pick-3")
    return alone


async def remix(visit: Visit, alone: Locator) -> None:
    """Change a word of the prompt, and paint again."""
    page = visit.page
    button = alone.get_by_role("button", name="Remix", exact=True)
    await button.scroll_into_view_if_needed()
    await button.focus()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Shift+Tab")
    await visit.shoot("first-remix-1")
    await button.click()
    await page.get_by_label("Prompt").fill(OTHER_PAIR)
    await visit.shoot("first-remix-2")
    await page.get_by_role("button", name="Submit").click()
    changed = visit.message(OTHER_PAIR, button="Again")
    await changed.wait_for(timeout=PATIENCE)
    await shown(changed)
    await visit.shoot("first-remix-3")
    await remix_from(visit, changed)


async def remix_from(visit: Visit, message: Locator) -> None:
    """Paint again from a picture and a mask of a form."""
    page = visit.page
    await message.get_by_label("More").select_option("from")
    form = page.get_by_role("dialog")
    await form.get_by_label("Prompt").fill(UPLOADED)
    await form.get_by_label("Start picture").set_input_files(files=picture_file("start.png", "navy"))
    await form.get_by_label("Mask", exact=True).set_input_files(files=picture_file("mask.png", "white"))
    await form.get_by_label("0.75", exact=True).check()
    await form.get_by_label("Start picture").scroll_into_view_if_needed()
    await visit.shoot("first-remix-4")
    await form.get_by_role("button", name="Submit").click()
    painted = visit.message(UPLOADED, button="Again")
    await shown(painted)
    await expect(painted).to_contain_text("strength 0.75")


async def alternatives(visit: Visit) -> None:
    """Show the form of a request with alternatives, and close it."""
    await visit.send(f"/imagine {ALTERNATIVES} variants:2")
    form = visit.page.get_by_role("dialog")
    await form.get_by_text("Prompts: 6.").wait_for()
    visit.keep("permutations.png", await form.screenshot(animations="disabled", caret="hide"))
    await form.get_by_role("button", name="Cancel").click()


def picture_file(name: str, colour: str) -> FilePayload:
    """A plain picture as a file for an upload."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (64, 64), colour).save(file, "PNG")
    return {"name": name, "mimeType": "image/png", "buffer": file.getvalue()}


async def look_around(visit: Visit) -> None:
    """Show favourites, statistics and settings."""
    page = visit.page
    for words in (PAIR, OTHER_PAIR):
        message = visit.message(words, button="Again")
        await message.get_by_label("More").select_option("star")
        await page.get_by_role("article").filter(has_text="Added to your favourites").last.wait_for()
        await page.get_by_text("Dismiss").last.click()
    await visit.send("/history favourites:True")
    await shown(pictured(page, "Your favourites"))
    await visit.shoot("favourites")
    await visit.send("/history")
    await shown(pictured(page, "Your requests"))
    await visit.shoot("history")
    await visit.send("/stats")
    await page.get_by_role("article").filter(has_text="Painted for you").last.wait_for()
    await visit.shoot("stats")
    await visit.send("/settings")
    await page.get_by_label("Settings", exact=True).fill("variants 2, steps 30")
    await page.get_by_role("button", name="Submit").click()
    await page.get_by_role("article").filter(has_text="Saved.").last.wait_for()
    await visit.send("/settings")
    await page.get_by_text("In effect now").wait_for()
    await visit.shoot("settings")


def pictured(page: Page, words: str) -> Locator:
    """The newest message with a picture and these words, in this case of letters."""
    return page.get_by_role("article").filter(has_text=re.compile(words)).filter(has=page.locator("img")).last


async def shown(message: Locator) -> None:
    """Wait until the newest picture of a message is loaded and visible."""
    await message.wait_for(timeout=PATIENCE)
    await message.locator("img").last.evaluate("image => image.decode()")
    await message.page.locator("#timeline").evaluate(
        "timeline => timeline.scrollTo(0, timeline.scrollHeight)"
    )


async def arrive(
    context: BrowserContext,
    address: str,
    name: str,
    keep: Keep,
    *,
    channel: str = "art",
    patience: float = PATIENCE,
) -> Visit:
    """Open the page of a channel as a member; `patience` is in milliseconds."""
    page = await context.new_page()
    page.set_default_timeout(patience)
    await page.goto(f"{address}/#{name}/{channel}")
    await page.get_by_role("heading", name=f"Welcome to #{channel}").wait_for()
    return Visit(page=page, keep=keep)


async def whole_visit(
    browser: Browser, address: str, keep: Keep, *, first_steps: int = STEPS, film_steps: int = film.STEPS
) -> None:
    """Visit as Ravi on a phone, then film Mina in a wide window; the steps are of the first grid of each."""
    async with await browser.new_context(viewport=PHONE, locale="en-GB") as context:
        ravi = await arrive(context, address, "ravi", keep)
        grid = await paint(ravi, first_steps)
        alone = await pick(ravi, grid)
        await remix(ravi, alone)
        await alternatives(ravi)
        await look_around(ravi)
    async with await browser.new_context(viewport=film.SIZE, locale="en-GB") as context:
        mina = await arrive(context, address, "mina", keep, channel="general")
        keep("first-minute.webp", await film.filmed(mina.page, steps=film_steps))


@asynccontextmanager
async def demo_of_two_sizes(folder: Path, cache: Path, *, steps: int | None = None) -> AsyncIterator[Sandbox]:
    """Run a sandbox and the bot, which paints in two sizes, in `steps` where a request names none."""
    async with Sandbox() as sandbox:
        port = free_port()
        (folder / "token").write_text(sandbox.token)
        config = folder / "run.toml"
        config.write_text(
            f"""
            [discord]
            api_url = {json.dumps(sandbox.api_url)}
            gateway_url = {json.dumps(sandbox.gateway_url)}
            token_file = {json.dumps(str(folder / "token"))}
            [[models]]
            name = "demo"
            checkpoint = "demo"
            sizes = {json.dumps([SIZE, LARGER])}
            {f"num_inference_steps = {steps}" if steps else ""}
            [engine]
            cache_dir = {json.dumps(str(cache))}
            [queue]
            database = {json.dumps(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")}
            artifacts = {json.dumps(str(folder / "artifacts"))}
            [provenance]
            folder = {json.dumps(str(folder / "provenance"))}
            [web]
            port = {port}
            """
        )
        bot = Role(name="run", role="run", config=config, port=port, forked=True)
        async with alive([bot]):
            yield sandbox
