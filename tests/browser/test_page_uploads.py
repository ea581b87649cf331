"""Files of a command in the page: chosen, dropped, pasted, removed; and menus in messages."""

from __future__ import annotations

import base64
import re
from io import BytesIO

import pytest
from page_tools import DESKTOP, PHONE, OpenPage, box, messages
from PIL import Image
from playwright.async_api import FileChooser, FilePayload, Locator, Page, expect
from small_bot import PageBot

from bot.sandbox.server import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

# Scripts cannot put files into the clipboard or a drag, so the event of the paste or drop is created.
DELIVER = """([kind, name, type, data]) => {
    const transfer = new DataTransfer();
    const bytes = typeof data === "number"
        ? new Uint8Array(data)
        : Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes], name, { type }));
    const options = { bubbles: true, cancelable: true };
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: transfer })
        : new DragEvent(kind, { ...options, dataTransfer: transfer });
    document.querySelector("#timeline").dispatchEvent(event);
    return event.defaultPrevented;
}"""


def png(size: tuple[int, int] = (24, 16)) -> bytes:
    data = BytesIO()
    Image.new("RGB", size, "red").save(data, "PNG")
    return data.getvalue()


def picked(name: str) -> FilePayload:
    return FilePayload(name=name, mimeType="image/png", buffer=png())


def files(page: Page) -> Locator:
    return page.get_by_role("list", name="Files to send").get_by_role("listitem")


async def choose(page: Page, by: Locator, *chosen: FilePayload) -> None:
    """Choose files; return when the page has them and the input has the focus again."""
    async with page.expect_file_chooser() as opened:
        await by.click()
    await (await opened.value).set_files(list(chosen))
    await expect(box(page)).to_be_focused()


async def deliver(page: Page, kind: str, name: str, *, size: int | None = None) -> bool:
    """Paste or drop a picture, or a file of zeros; return whether the page takes it."""
    data = base64.b64encode(png()).decode() if size is None else size
    return bool(await page.evaluate(DELIVER, [kind, name, "image/png", data]))


def ignore(_: FileChooser) -> None:
    """Leave a file chooser to the test."""


def attach(page: Page) -> Locator:
    return page.get_by_role("button", name="Attach a file")


@pytest.mark.parametrize(("size", "touch"), [(DESKTOP, False), (PHONE, True)])
async def test_a_picture_is_chosen_shown_and_sent(
    open_page: OpenPage, bot: PageBot, sandbox: Sandbox, size: tuple[int, int], touch: bool
) -> None:
    page = await open_page(size=size, has_touch=touch, is_mobile=touch)
    await box(page).fill("/retouch a red sun ")
    chip = page.get_by_role("group", name="Options").get_by_role("button", name="image")
    await choose(page, chip, picked("a long holiday name " * 4 + ".png"))
    await expect(files(page)).to_contain_text("24 × 16")
    await expect(files(page).locator("img")).to_be_visible()
    await expect(box(page)).to_be_focused()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    await page.keyboard.press("Enter")
    await expect(messages(page).last).to_contain_text("Retouched")
    await expect(files(page)).to_have_count(0)
    ((who, asked),) = bot.heard
    assert (who, asked["prompt"], [*asked["files"].values()]) == ("mina", "a red sun", [png()])
    assert sandbox.violations == []


async def test_a_file_is_chosen_with_keys_alone_and_its_name_leaves_the_text(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    page.on("filechooser", ignore)  # from here on file choosers wait for the test
    await box(page).press_sequentially("/retouch a sun mask: ")
    await expect(page.get_by_role("option", name="Choose a file …")).to_have_attribute(
        "aria-selected", "true"
    )
    async with page.expect_file_chooser() as opened:
        await page.keyboard.press("Enter")
    await (await opened.value).set_files(picked("mask.png"))
    page.remove_listener("filechooser", ignore)
    await expect(files(page)).to_contain_text("mask.png")
    await expect(box(page)).to_have_value("/retouch a sun ")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Shift+Tab")
    await expect(page.get_by_role("button", name="Take mask.png out of mask")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(files(page)).to_have_count(0)
    await expect(box(page)).to_be_focused()


async def test_a_removed_file_is_not_sent_and_a_required_file_is_asked_for(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await box(page).fill("/retouch a sun")
    await choose(page, attach(page), picked("first.png"), picked("second.png"))
    await expect(files(page)).to_have_count(2)
    await page.get_by_role("button", name="Take first.png out of image").click()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("image is needed: What to start from")
    assert bot.heard == []

    await choose(
        page, page.get_by_role("alert").get_by_role("button", name="Choose a file"), picked("third.png")
    )
    await expect(page.get_by_role("alert")).to_be_hidden()
    await page.keyboard.press("Enter")
    await expect(messages(page).last).to_contain_text("Retouched")
    assert bot.heard[0][1]["files"].keys() == {"third.png", "second.png"}


async def test_a_pasted_and_a_dropped_picture_fill_the_right_options(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await box(page).fill("a red sun")
    assert await deliver(page, "paste", "pasted.png")
    await expect(box(page)).to_have_value("/retouch a red sun")
    assert await deliver(page, "dragover", "dropped.png")
    await expect(page.locator("body")).to_have_class("dropping")
    assert await deliver(page, "drop", "dropped.png")
    await expect(page.locator("body")).not_to_have_class("dropping")
    await expect(files(page)).to_contain_text(["pasted.png", "dropped.png"])
    await deliver(page, "drop", "third.png")
    await expect(page.get_by_role("alert")).to_have_text(
        "/retouch takes no more files: third.png is left out."
    )
    await page.keyboard.press("Enter")
    await expect(messages(page).last).to_contain_text("Retouched")
    assert bot.heard[0][1]["files"].keys() == {"pasted.png", "dropped.png"}


async def test_files_stay_with_the_command_they_were_given_to(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await box(page).fill("/say a word")
    await deliver(page, "drop", "a.png")
    await expect(page.get_by_role("alert")).to_have_text("/say takes no file.")
    await box(page).fill("/retouch ")
    await deliver(page, "drop", "a.png")
    await expect(files(page)).to_have_count(1)
    await box(page).fill("/retou")
    await expect(files(page)).to_have_count(1)
    await box(page).fill("/say a word")
    await expect(files(page)).to_have_count(0)


async def test_a_file_over_the_limit_is_refused_at_the_input(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await box(page).fill("/retouch a sun")
    await deliver(page, "drop", "huge.png", size=20 * 1024**2 + 1024**2 // 2)
    await expect(page.get_by_role("alert")).to_have_text("huge.png has 20.5 MiB, a file may have 20 MiB.")
    await expect(files(page)).to_have_count(0)
    await box(page).fill("/retouch a sun image: a.png")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("image takes a file: choose it")


async def test_a_file_of_another_type_is_not_offered_and_refused_at_the_input(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await box(page).fill("/retouch a sun ")
    chip = page.get_by_role("group", name="Options").get_by_role("button", name="image")
    await choose(page, chip, picked("A Sun.PNG"))
    await expect(page.locator("#picker")).to_have_attribute("accept", re.compile(r"^\.png,.*\.webp"))
    await deliver(page, "drop", "notes.txt", size=3)
    await expect(page.get_by_role("alert")).to_have_text("notes.txt is not of a type that mask takes: image.")
    await expect(files(page)).to_have_count(1)
    assert bot.heard == []


async def test_a_menu_in_a_message_is_answered_once_for_each_choice(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page("ravi")
    await box(page).fill("/retouch a sun")
    await choose(page, attach(page), picked("a.png"))
    await page.keyboard.press("Enter")
    menu = page.get_by_role("combobox", name="Choose a variant")
    await expect(menu.get_by_role("option")).to_have_text(
        ["Choose a variant", "🎲 Variant 1 · Seed 7", "🎲 Variant 2 · Seed 8", "🎲 Variant 3 · Seed 9"]
    )
    await menu.select_option("Variant 2")
    answer = messages(page).last
    await expect(answer).to_contain_text("Ravi chose from a menu")
    await expect(answer).to_contain_text("You chose Variant 2")
    await expect(page.locator(".busy")).to_have_count(0)
    assert bot.heard[1:] == [("ravi", ["Variant 2"])]
    await expect(menu).to_have_value("")  # the bot has edited the message: the same choice is one again
    await menu.focus()
    for key in ("ArrowDown", "ArrowUp", "ArrowUp", "Enter"):
        await page.keyboard.press(key)
    await expect(messages(page).last).to_contain_text("You chose Variant 1")
    await expect(menu).to_have_value("")
    for key in ("Space", "ArrowDown", "ArrowDown", "Enter"):
        await page.keyboard.press(key)
    await expect(messages(page).last).to_contain_text("You chose Variant 2")
    assert bot.heard[2:] == [("ravi", ["Variant 1"]), ("ravi", ["Variant 2"])]
