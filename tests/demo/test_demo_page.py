"""A newcomer on the demo's page: types a prompt, sees the picture, presses a button."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest
from playwright.async_api import Browser, Page
from running_demo import Demo

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.checker import check
from sdjax_engine.demo.scenes import Scene, Thing

PATIENCE = 120_000

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SCENE = Scene(things=(Thing(name="star", colour="yellow", size="large"),), ground="purple")


async def picture_bytes(page: Page, index: int) -> bytes:
    """Return the file of the picture at `index` in the channel, once it is no longer a preview."""
    await page.get_by_role("button", name="Again", exact=True).nth(index).wait_for(timeout=PATIENCE)
    picture = page.locator("article img").nth(index)
    await picture.wait_for(timeout=PATIENCE)
    address = await picture.evaluate("image => image.src")
    return await (await page.request.get(address)).body()


async def test_a_newcomer_types_a_prompt_sees_it_painted_and_asks_for_another(
    demo: Demo, chromium: Browser
) -> None:
    async with await chromium.new_context(viewport={"width": 1280, "height": 860}) as context:
        page = await context.new_page()
        await page.goto(f"{demo.address}/#ravi/general")
        await page.get_by_role("heading", name="Welcome to #general").wait_for()
        await page.keyboard.type(f"/imagine {caption(SCENE)}")
        await page.keyboard.press("Enter")
        first = await picture_bytes(page, 0)
        assert check(np.asarray(PIL.Image.open(io.BytesIO(first)).convert("RGB")), SCENE).all_right
        await page.get_by_role("button", name="Again").first.click()
        second = await picture_bytes(page, 1)
        assert second != first
