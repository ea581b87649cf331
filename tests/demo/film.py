"""The film of the README: a member types a prompt, picks one of four pictures, and changes a word of it."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field

import PIL.Image
from picture_prompts import CHANGED, OTHER_PAIR, PAIR, SEED_OF_FILM
from playwright.async_api import Locator, Page, ViewportSize, expect

SIZE = ViewportSize(width=800, height=760)
PATIENCE = 120_000.0
STEPS = 100  # of the film's grid: time for several previews
QUALITY = 60  # of WebP, 0 to 100
MOST_PREVIEWS = 8  # a slow machine has more
POINTER = """
() => {
  const pointer = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  pointer.id = "pointer";
  pointer.setAttribute("viewBox", "0 0 24 24");
  Object.assign(pointer.style, {position: "fixed", width: "30px", zIndex: 2147483647, pointerEvents: "none",
                                margin: 0, padding: 0, border: 0, background: "none", overflow: "visible"});
  const arrow = document.createElementNS("http://www.w3.org/2000/svg", "path");
  arrow.setAttribute("d", "M2 1v18l4.6-4.4 3 7 3.4-1.5-3-6.8H16z");
  Object.assign(arrow.style, {fill: "white", stroke: "black", strokeWidth: "1.4"});
  pointer.append(arrow);
  document.documentElement.append(pointer);
}
"""
MOVE = """
([x, y]) => {
  const pointer = document.getElementById("pointer"), form = document.querySelector("dialog[open]");
  (form ?? document.documentElement).append(pointer);  // a form covers everything that is outside it
  Object.assign(pointer.style, {left: `${x}px`, top: `${y}px`});
}
"""

SELECT = """
(box, word) => {
  const at = box.value.indexOf(word);
  box.focus();
  box.setSelectionRange(at, at + word.length);
}
"""


@dataclass(kw_only=True)
class Film:
    """Frames of a page, each with the milliseconds that it is shown, and a drawn pointer."""

    page: Page
    frames: list[tuple[bytes, int]] = field(default_factory=list)
    pointer: tuple[float, float] = (520.0, 700.0)

    async def take(self, milliseconds: int) -> None:
        """Take a frame that is shown this long."""
        picture = await self.page.screenshot(animations="disabled", caret="hide")
        self.frames.append((picture, milliseconds))

    async def point(self, target: Locator) -> None:
        """Move the pointer to the middle of an element, in a few frames."""
        await target.scroll_into_view_if_needed()
        place = await target.bounding_box()
        assert place is not None
        x, y = self.pointer
        to = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        for part in (0.15, 0.5, 0.85, 1.0):
            self.pointer = x + (to[0] - x) * part, y + (to[1] - y) * part
            await self.page.mouse.move(*self.pointer)
            await self.page.evaluate(MOVE, self.pointer)
            await self.take(70)

    async def click(self, target: Locator) -> None:
        """Point at an element, and click it."""
        await self.point(target)
        await self.take(350)
        await self.page.mouse.click(*self.pointer)

    async def type(self, words: str, *, letters: int) -> None:
        """Type words, a frame for every few letters."""
        for start in range(0, len(words), letters):
            await self.page.keyboard.type(words[start : start + letters])
            await self.take(90)

    def encoded(self) -> bytes:
        """The film as an animated WebP that begins again at its end."""
        pictures = [PIL.Image.open(io.BytesIO(picture)).convert("RGB") for picture, _ in self.frames]
        file = io.BytesIO()
        pictures[0].save(
            file,
            "WEBP",
            save_all=True,
            append_images=pictures[1:],
            duration=[milliseconds for _, milliseconds in self.frames],
            loop=0,
            quality=QUALITY,
            method=6,
        )
        return file.getvalue()


async def filmed(page: Page, *, steps: int = STEPS) -> bytes:
    """Take all steps of the film on the page of a channel without messages."""
    film = Film(page=page)
    await page.evaluate(POINTER)
    await page.evaluate(MOVE, film.pointer)
    grid = await painted(film, steps)
    await film.click(grid.get_by_role("button", name="U2", exact=True))
    alone = await finished(film, "picture 2 of this grid")
    await film.take(1500)
    await changed(film, alone)
    return film.encoded()


async def painted(film: Film, steps: int) -> Locator:
    """Type a prompt, watch the previews, and see the grid."""
    await film.take(700)
    box = film.page.get_by_role("textbox", name="Command box")
    await film.click(box)
    await film.type(f"/imagine {PAIR} ", letters=3)
    await film.type("variants:4 ", letters=4)
    await film.take(500)
    await box.fill(f"/imagine {PAIR} variants:4 steps:{steps} seed:{SEED_OF_FILM}")
    await film.page.keyboard.press("Enter")
    message = film.page.get_by_role("article").filter(has_text=PAIR).last
    await message.wait_for(timeout=PATIENCE)
    last = message.get_by_role("button", name="U1", exact=True)
    first = len(film.frames)
    while not await last.is_visible():
        said = await message.inner_text()
        await film.take(350)
        await expect(message).not_to_have_text(said, use_inner_text=True, timeout=PATIENCE)
    previews = film.frames[first:]
    film.frames[first:] = previews[:: math.ceil(len(previews) / MOST_PREVIEWS) or 1]
    grid = await finished(film, PAIR)
    await grid.locator("img").last.scroll_into_view_if_needed()
    await film.take(1800)
    return grid


async def changed(film: Film, alone: Locator) -> None:
    """Change one word in the form of a picture's Remix, and see the new picture."""
    await film.click(alone.get_by_role("button", name="Remix", exact=True))
    form = film.page.get_by_role("dialog")
    words = form.get_by_label("Prompt")
    await words.wait_for()
    await film.take(600)
    await words.evaluate(
        SELECT,
        CHANGED[0],
    )
    await film.take(500)
    await film.type(CHANGED[1], letters=2)
    await film.click(form.get_by_role("button", name="Submit"))
    await finished(film, OTHER_PAIR)
    await film.take(2600)


async def finished(film: Film, words: str) -> Locator:
    """The newest finished message with these words, its picture loaded and in view."""
    again = film.page.get_by_role("button", name="Again", exact=True)
    message = film.page.get_by_role("article").filter(has_text=words).filter(has=again).last
    await message.wait_for(timeout=PATIENCE)
    await message.locator("img").last.evaluate("image => image.decode()")
    await film.page.locator("#timeline").evaluate("timeline => timeline.scrollTo(0, timeline.scrollHeight)")
    return message
