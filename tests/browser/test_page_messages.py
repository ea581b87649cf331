"""The actions on a message in the page, and the language of a message."""

from __future__ import annotations

import asyncio
import time

import pytest
from page_tools import PHONE, OpenPage, box, messages, send
from playwright.async_api import expect
from small_bot import PageBot

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_moderator_deletes_a_message_and_others_cannot(open_page: OpenPage, bot: PageBot) -> None:
    ravi = await open_page("ravi")
    await send(ravi, "/say a rude word")
    await expect(messages(ravi)).to_contain_text("a rude word")
    await expect(ravi.get_by_role("button", name="Delete as a moderator")).to_have_count(0)
    mina = await open_page("mina")
    await messages(mina).first.hover()
    button = mina.get_by_role("button", name="Delete as a moderator")
    mina.once("dialog", lambda dialog: asyncio.ensure_future(dialog.dismiss()))
    await button.click()
    await expect(messages(ravi)).to_have_count(1)
    mina.once("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
    await button.click()
    await expect(messages(ravi)).to_have_count(0)


async def test_the_delete_button_is_the_last_tab_stop_of_a_message(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("mina")
    await send(page, "/imagine a moon")
    await messages(page).last.get_by_role("img").wait_for()
    stops = await messages(page).last.evaluate(
        "message => [...message.querySelectorAll('button, a')].map((each) => each.getAttribute('aria-label'))"
    )
    assert stops[-1] == "Delete as a moderator"
    assert len(stops) > 1


async def test_a_star_is_added_removed_and_counted_for_everyone(open_page: OpenPage, bot: PageBot) -> None:
    ravi, mina = await open_page("ravi"), await open_page("mina")
    await send(ravi, "/say a boat")
    await messages(ravi).first.hover()
    await ravi.get_by_role("button", name="React with a star").click()
    chip = ravi.get_by_role("button", name="⭐, 1")
    await expect(chip).to_have_attribute("aria-pressed", "true")
    await expect(ravi.get_by_role("button", name="React with a star")).to_have_count(0)
    await mina.get_by_role("button", name="⭐, 1").click()
    await ravi.get_by_role("button", name="⭐, 2").focus()
    await ravi.keyboard.press("Enter")
    await expect(chip).to_have_attribute("aria-pressed", "false")
    await expect(chip).to_be_focused()
    await ravi.keyboard.press("Enter")
    await mina.get_by_role("button", name="⭐, 2").click()
    await expect(chip).to_be_focused()


async def test_the_star_that_the_keyboard_gives_keeps_the_focus(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("ravi")
    await send(page, "/say a boat")
    await page.get_by_role("button", name="React with a star").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="⭐, 1")).to_be_focused()


async def test_another_address_is_another_member_and_channel(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("mina")
    await page.evaluate("location.hash = '#ravi/general'")
    await expect(page.get_by_role("radio", name="Act as Ravi")).to_be_checked()
    await expect(page.get_by_role("heading", name="Welcome to #general")).to_be_visible()


async def test_a_relative_time_moves_on(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("ravi")
    await send(page, f"/say it began <t:{int(time.time()) - 30}:R>")
    shown = messages(page).first.get_by_role("time").last
    first = await shown.inner_text()
    assert "seconds ago" in first
    await expect(shown).not_to_have_text(first)
    await expect(shown).to_contain_text("seconds ago")


async def test_times_are_in_the_language_of_the_acting_member(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("yuna")
    await send(page, f"/say it began <t:{int(time.time()) - 300}:R>")
    await expect(messages(page).first.get_by_role("time").last).to_have_text("5분 전")


@pytest.mark.parametrize(
    ("words", "language", "direction"),
    [("빨간 원", "ko", "ltr"), ("دائرة حمراء", "ar", "rtl"), ("一个红色的圆", "zh", "ltr")],
)
async def test_a_message_has_the_language_and_direction_of_its_letters(
    open_page: OpenPage, bot: PageBot, words: str, language: str, direction: str
) -> None:
    page = await open_page("ravi")
    await send(page, f"/say {words}")
    text = messages(page).last.locator(".text")
    await expect(text).to_have_attribute("lang", language)
    await expect(text).to_have_css("direction", direction)


async def test_several_rows_of_a_menu_are_chosen_on_a_phone(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("ravi", size=PHONE, has_touch=True, is_mobile=True)
    await send(page, "/rows")
    menu = messages(page).last.get_by_role("listbox", name="Choose rows")
    await menu.select_option(["0", "2"])
    assert await page.locator("#timeline").evaluate("each => each.scrollWidth <= each.clientWidth")
    button = messages(page).last.get_by_role("button", name="Choose", exact=True)
    await expect(button).to_be_in_viewport(ratio=1)
    await button.tap()
    await expect(messages(page).last).to_contain_text("You chose 2")
    assert bot.heard == [("ravi", ["0", "2"])]


PASTE = """(node, [text, start, end]) => {
    node.setSelectionRange(start, end);
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    node.dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true }));
}"""


async def test_a_text_that_names_options_is_pasted_into_the_option_that_it_is_pasted_in(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page("ravi")
    words = "a ring\nsize: 7, 'sampler': x, Lora: \"ink:0.8, fog:1\""

    async def paste(text: str, before: str, selected: str = "", after: str = "") -> str:
        await box(page).fill(before + selected + after)
        await box(page).evaluate(PASTE, [text, len(before), len(before + selected)])
        return await box(page).input_value()

    assert await paste(words, "/imagine ") == "/imagine ", "the browser pastes the names of options here"
    assert await paste("a ring", "/imagine prompt: ") == "/imagine prompt: "
    assert await paste("a, size: 7", "/imagine prompt: ") == '/imagine prompt: "a, size: 7"'
    assert (
        await paste(words, "/imagine prompt: ", "an old boat", "variants: 2")
        == f'/imagine prompt: """{words} """ variants: 2'
    )
    await page.keyboard.press("Enter")
    await messages(page).last.get_by_role("img").first.wait_for()
    assert bot.heard[0][1]["prompt"] == words
    assert bot.heard[0][1]["variants"] == 2
