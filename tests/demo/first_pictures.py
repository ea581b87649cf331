"""The screenshots of the documentation: newcomers in Chromium on the sandbox's page, with the demo.

python tests/demo/first_pictures.py --write    renew docs/images

`test_first_pictures.py` takes the same steps and writes nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
from playwright.async_api import (
    Browser,
    BrowserContext,
    FilePayload,
    Locator,
    Page,
    ViewportSize,
    expect,
)

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from chromium import launched  # noqa: E402 - found by the line above
from evening import Role, alive, free_port  # noqa: E402

from bot.sandbox.server import Sandbox  # noqa: E402

IMAGES = ROOT / "docs" / "images"
PHONE, DESKTOP = ViewportSize(width=430, height=940), ViewportSize(width=1280, height=940)
COLOURS = 256  # of a palette; the files are a third as large
PATIENCE = 120_000.0  # milliseconds
STEPS = 60  # of the first grid: time for a screenshot of a preview that is nearly finished
PROMPT = "a red heart left of a blue star"
OTHER = "a green heart left of a blue star"
HEARTS = "two pink hearts"
MOON = "a large yellow moon above a small pink heart on a purple background"

Keep = Callable[[str, bytes], None]


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A page, and the function that keeps its screenshots."""

    page: Page
    keep: Keep

    async def shoot(self, name: str) -> None:
        """Take a screenshot."""
        self.keep(name, await self.page.screenshot(animations="disabled", caret="hide"))

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
    await page.get_by_role("textbox", name="Command box").press_sequentially(f"/imagine {PROMPT} variants:4 ")
    await expect(page.get_by_role("textbox", name="Command box")).to_have_value(
        f"/imagine {PROMPT} variants:4 "
    )
    await visit.shoot("first-paint-1")
    await visit.send(f"/imagine {PROMPT} variants:4 steps:{steps} seed:3")
    await shoot_while_painted(visit, "first-paint-2")
    grid = visit.message(PROMPT, button="U1")
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
            visit.keep(name, picture)
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
    larger = visit.message("160×160", button="Again")
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
    await page.get_by_label("Prompt").fill(OTHER)
    await visit.shoot("first-remix-2")
    await page.get_by_role("button", name="Submit").click()
    changed = visit.message(OTHER, button="Again")
    await changed.wait_for(timeout=PATIENCE)
    await shown(changed)
    await visit.shoot("first-remix-3")
    await remix_from(visit, changed)


async def remix_from(visit: Visit, message: Locator) -> None:
    """Paint again from a picture and a mask of a form."""
    page = visit.page
    await message.get_by_label("More").select_option("from")
    form = page.get_by_role("dialog")
    await form.get_by_label("Prompt").fill(HEARTS)
    await form.get_by_label("Start picture").set_input_files(files=picture_file("start.png", "navy"))
    await form.get_by_label("Mask", exact=True).set_input_files(files=picture_file("mask.png", "white"))
    await form.get_by_label("0.75", exact=True).check()
    await form.get_by_label("Start picture").scroll_into_view_if_needed()
    await visit.shoot("first-remix-4")
    await form.get_by_role("button", name="Submit").click()
    painted = visit.message(HEARTS, button="Again")
    await shown(painted)
    await expect(painted).to_contain_text("strength 0.75")


async def alternatives(visit: Visit) -> None:
    """Show the form of a request with alternatives, and close it."""
    await visit.send("/imagine a {red, blue, green} {star, heart} variants:2")
    form = visit.page.get_by_role("dialog")
    await form.get_by_text("Prompts: 6.").wait_for()
    visit.keep("permutations", await form.screenshot(animations="disabled", caret="hide"))
    await form.get_by_role("button", name="Cancel").click()


def picture_file(name: str, colour: str) -> FilePayload:
    """A plain picture as a file for an upload."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (128, 128), colour).save(file, "PNG")
    return {"name": name, "mimeType": "image/png", "buffer": file.getvalue()}


async def look_around(visit: Visit) -> None:
    """Show favourites, statistics and settings."""
    page = visit.page
    for words in (PROMPT, OTHER):
        message = visit.message(words, button="Again")
        await message.get_by_label("More").select_option("star")
        await page.get_by_role("article").filter(has_text="Added to your favourites").last.wait_for()
        await page.get_by_text("Dismiss").last.click()
    await visit.send("/history favourites:True")
    await shown(page.get_by_role("article").filter(has_text="Your favourites").last)
    await visit.shoot("favourites")
    await visit.send("/history")
    await shown(page.get_by_role("article").filter(has_text="Your requests").last)
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


async def shown(message: Locator) -> None:
    """Wait until the newest picture of a message is loaded and visible."""
    await message.wait_for(timeout=PATIENCE)
    await message.locator("img").last.evaluate("image => image.decode()")
    await message.page.locator("#timeline").evaluate(
        "timeline => timeline.scrollTo(0, timeline.scrollHeight)"
    )


async def see_it_all(visit: Visit) -> None:
    """Show the whole page with a grid."""
    await visit.send(f"/imagine {MOON} variants:4 seed:6")
    await shown(visit.message(MOON, button="U4"))
    await visit.shoot("sandbox")


async def arrive(
    context: BrowserContext, address: str, name: str, keep: Keep, *, patience: float = PATIENCE
) -> Visit:
    """Open the page as a member; `patience` is in milliseconds."""
    page = await context.new_page()
    page.set_default_timeout(patience)
    await page.goto(f"{address}/#{name}/art")
    await page.get_by_role("heading", name="Welcome to #art").wait_for()
    return Visit(page=page, keep=keep)


async def whole_visit(browser: Browser, address: str, keep: Keep, *, first_steps: int = STEPS) -> None:
    """Visit as Ravi on a phone, then as Mina on a desktop; `first_steps` are the steps of the first grid."""
    async with await browser.new_context(viewport=PHONE, locale="en-GB") as context:
        ravi = await arrive(context, address, "ravi", keep)
        grid = await paint(ravi, first_steps)
        alone = await pick(ravi, grid)
        await remix(ravi, alone)
        await alternatives(ravi)
        await look_around(ravi)
    async with await browser.new_context(viewport=DESKTOP, locale="en-GB") as context:
        await see_it_all(await arrive(context, address, "mina", keep))


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
            sizes = ["128x128", "160x160"]
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


def small(png: bytes) -> bytes:
    """The same picture with fewer colours."""
    file = io.BytesIO()
    picture = PIL.Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=PIL.Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


async def write(cache: Path) -> None:
    """Renew the pictures."""

    def keep(name: str, png: bytes) -> None:
        file = IMAGES / f"{name}.png"
        file.write_bytes(small(png))
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1000} kB")

    with tempfile.TemporaryDirectory() as folder:
        async with demo_of_two_sizes(Path(folder), cache) as sandbox, launched() as browser:
            await whole_visit(browser, sandbox.address, keep)


if __name__ == "__main__" and "--write" in sys.argv:
    asyncio.run(write(Path(tempfile.gettempdir()) / "sdjax-first-pictures"))
