"""A newcomer of the demo learns which words its model knows."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect
from running_demo import Demo

PATIENCE = 120_000  # milliseconds; a picture takes one or two seconds on an idle machine
PHONE = {"width": 390, "height": 844}

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_words_that_the_model_does_not_know_are_named_with_a_link_to_those_that_it_knows(
    demo: Demo, chromium: Browser
) -> None:
    async with await chromium.new_context(viewport=PHONE) as context:
        page = await context.new_page()
        await page.goto(f"{demo.address}/#wei/general")
        welcome = page.locator("#welcome")
        await expect(welcome).to_contain_text("paints only these words. Yuna reads Korean")
        await page.get_by_role("textbox", name="Command box").fill("/imagine a red star on a cathedral")
        await page.keyboard.press("Enter")
        answer = page.get_by_role("article").last
        await expect(answer).to_contain_text("模型 demo 不认识 cathedral。", timeout=PATIENCE)
        address = await answer.get_by_role("link", name="它认识的词").get_attribute("href")
        assert address == await welcome.get_by_role("link", name="these words").get_attribute("href")
        await page.goto(str(address))
        await expect(page.get_by_text("circle, square, triangle")).to_be_visible()


async def test_moderators_have_their_review_channel_from_the_start(demo: Demo, chromium: Browser) -> None:
    async with await chromium.new_context(viewport=PHONE) as context:
        page = await context.new_page()
        await page.goto(f"{demo.address}/#mina/mods")
        await expect(page.get_by_text("Moderators see reviews in this channel")).to_be_visible()
