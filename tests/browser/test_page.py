"""The sandbox's page, driven in Chromium with a real discord.py client behind it."""

from __future__ import annotations

import asyncio
import re

import pytest
from page_tools import DESKTOP, PHONE, Clock, OpenPage, box, messages, send
from playwright.async_api import FilePayload, WebSocketRoute, expect
from small_bot import PageBot

from bot.sandbox.server import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = (
    "<img src=x onerror=window.caught=1>",
    "<script>window.caught=1</script>",
    "[press](javascript:window.caught=1)",
    "`<b onclick=window.caught=1>`",
    "<svg/onload=window.caught=1> **<i>bold</i>**",
)


async def test_a_newcomer_types_imagine_and_a_prompt_and_sees_the_picture(
    open_page: OpenPage, bot: PageBot, sandbox: Sandbox
) -> None:
    page = await open_page()
    await expect(box(page)).to_be_focused()
    await page.keyboard.type("/imagine a red heart left of a blue star")
    await page.keyboard.press("Enter")

    message = messages(page).last
    await expect(message).to_contain_text("Mina used /imagine")
    picture = message.get_by_role("img", name="a red heart left of a blue star")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 128
    shown = await picture.bounding_box()
    assert shown is not None
    assert shown["width"] >= 256
    assert shown["height"] == pytest.approx(shown["width"], abs=1)
    await expect(message.locator(".row").get_by_role("button")).to_have_text(["Again", "Delete", "Dead"])
    await expect(box(page)).to_have_value("")
    assert bot.heard[0][1]["prompt"] == "a red heart left of a blue star"
    assert sandbox.violations == []


async def test_named_options_reach_the_bot_with_their_types(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("ravi")
    await send(page, "/imagine prompt: a red heart variants: 4 guidance: 7.5 private: false sampler: pndm")

    await expect(messages(page).last.get_by_role("img", name="a red heart")).to_have_count(4)
    asked = {"prompt": "a red heart", "variants": 4, "size": "128x128", "sampler": "pndm"}
    assert bot.heard == [("ravi", asked | {"guidance": 7.5, "private": False})]


async def test_a_slash_lists_the_commands_in_the_members_language(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("yuna")
    await box(page).press_sequentially("/")
    offered = page.get_by_role("listbox", name="Commands").get_by_role("option")
    await expect(offered).to_have_count(7)
    await expect(offered.first).to_contain_text("/imagine")
    await expect(offered.first).to_contain_text("그림을 그립니다")

    await page.keyboard.press("Tab")
    await expect(box(page)).to_have_value("/imagine ")
    chips = page.get_by_role("group", name="Options").get_by_role("button")
    await expect(chips.first).to_have_accessible_name("prompt, required")
    await expect(page.locator("#assist")).to_contain_text("그림에 담을 내용 · 0 of 200 characters")


async def test_an_option_is_filled_in_with_keys_alone(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await box(page).press_sequentially("/imagine a moon sampler: p")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/imagine a moon sampler: pndm ")
    await box(page).press_sequentially("variants: ")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/imagine a moon sampler: pndm variants: 2 ")
    await page.keyboard.press("Enter")
    await expect(messages(page).last.get_by_role("img")).to_have_count(2)


async def test_an_option_is_added_with_the_pointer(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await box(page).press_sequentially("/imagine a moon")
    await page.get_by_role("button", name="variants").click()
    await page.get_by_role("option", name="3", exact=True).click()
    await expect(box(page)).to_have_value("/imagine a moon variants: 3 ")
    await expect(box(page)).to_be_focused()


async def test_an_option_that_is_still_empty_is_explained_without_an_error(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await box(page).press_sequentially("/imagine a moon guidance: ")
    help_ = page.locator("#assist")
    await expect(help_).to_contain_text("How closely to follow the prompt · number from 0 to 30")
    await expect(help_.locator(".bad")).to_have_count(0)
    await box(page).press_sequentially("variants: 2")
    await expect(help_.locator(".chip.bad")).to_have_text("guidance")


async def test_autocomplete_asks_the_bot_and_sends_the_value_behind_the_name(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await box(page).press_sequentially("/imagine a moon size: 192")
    await page.get_by_role("option", name="192x128 pixels").click()
    await expect(box(page)).to_have_value("/imagine a moon size: 192x128 pixels ")
    await page.keyboard.press("Enter")
    await messages(page).last.get_by_role("img").wait_for()
    assert bot.heard[0][1]["size"] == "192x128"


async def test_a_mistake_is_shown_at_the_input_and_nothing_is_sent(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await send(page, "/imagine a moon variants: 12 guidance: 4")
    await expect(page.get_by_role("alert")).to_have_text("variants must be a whole number from 1 to 9.")
    await box(page).fill("")
    await send(page, "/dream a moon")
    await expect(page.get_by_role("alert")).to_contain_text("There is no command called /dream. Type /")
    await box(page).fill("")
    await send(page, "/imagin a moon")
    await expect(page.get_by_role("alert")).to_contain_text("called /imagin. Did you mean /imagine?")
    assert bot.heard == []
    await expect(messages(page)).to_have_count(0)


async def test_plain_text_gets_a_hint_that_turns_it_into_a_command(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await send(page, "a green ring")
    await expect(page.get_by_role("alert")).to_contain_text("people talk to the bot by commands")
    await page.get_by_role("button", name="Send it as /imagine").click()
    await expect(messages(page).last.get_by_role("img", name="a green ring")).to_be_visible()


async def test_escape_closes_the_list_then_clears_the_text_then_leaves_the_input(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await box(page).press_sequentially("/im")
    await page.keyboard.press("Escape")
    await expect(page.locator("#assist")).to_be_hidden()
    await expect(box(page)).to_have_value("/im")
    await page.keyboard.press("Escape")
    await expect(box(page)).to_have_value("")
    await page.keyboard.press("Escape")
    await expect(box(page)).not_to_be_focused()
    await page.keyboard.press("/")
    await expect(box(page)).to_have_value("/")


async def test_a_button_is_pressed_and_its_answer_appears(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("ravi")
    await send(page, "/imagine a moon")
    await page.get_by_role("button", name="Again").click()
    await expect(messages(page)).to_have_count(2)
    await expect(messages(page).last).to_contain_text("Ravi pressed a button")
    await page.get_by_role("button", name="Delete").last.click()
    await expect(messages(page)).to_have_count(1)
    assert [what for _, what in bot.heard][1:] == ["pressed Again", "pressed Delete"]


async def test_a_press_without_an_answer_is_shown_under_the_message(
    open_page: OpenPage, bot: PageBot, clock: Clock
) -> None:
    page = await open_page()
    await send(page, "/imagine a moon")
    await expect(messages(page)).to_have_count(1)
    await expect(page.locator(".busy")).to_have_count(0)  # the command itself is answered
    await page.get_by_role("button", name="Dead").click()
    await expect(page.locator(".busy")).to_be_visible()
    clock.ahead = 5.0
    await expect(page.get_by_role("alert")).to_have_text("This interaction failed")


async def test_a_command_without_an_answer_fails_visibly_and_can_be_dismissed(
    open_page: OpenPage, bot: PageBot, clock: Clock
) -> None:
    page = await open_page()
    await send(page, "/ignore")
    await expect(messages(page)).to_contain_text("Sending the command")
    clock.ahead = 5.0
    await expect(page.get_by_role("alert")).to_contain_text("The application did not respond")
    await page.get_by_role("button", name="Dismiss").click()
    await expect(messages(page)).to_have_count(0)


async def test_a_private_answer_is_seen_by_its_owner_alone(open_page: OpenPage, bot: PageBot) -> None:
    other = await open_page("omar")
    page = await open_page("ravi")
    await send(page, "/imagine a secret moon private: true")
    await messages(page).last.get_by_role("img", name="a secret moon").wait_for()
    await expect(messages(page).last).to_contain_text("Only you can see this")
    await send(page, "/say an open word")
    await expect(other.get_by_text("an open word", exact=True)).to_be_visible()
    await expect(messages(other)).to_have_count(1)

    await page.get_by_role("button", name="Dismiss").click()
    await page.reload()
    await expect(messages(page)).to_have_count(1)


async def test_the_person_can_act_as_another_member_in_the_same_tab(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page("mina")
    await send(page, "/imagine a secret moon private: true")
    await messages(page).last.get_by_role("img", name="a secret moon").wait_for()
    await page.get_by_role("radio", name="Act as Omar").check(force=True)
    await expect(page.get_by_text("You act as Omar;")).to_be_visible()
    await expect(messages(page)).to_have_count(0)
    await send(page, "/say it is me")
    await expect(messages(page).last).to_contain_text("Omar used /say")
    await page.keyboard.press("Alt+1")
    await expect(messages(page)).to_have_count(2)


async def test_a_role_is_chosen_by_its_name_and_mentioned(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await box(page).fill("/say hello role: reg")
    offered = page.get_by_role("listbox").get_by_role("option")
    await expect(offered).to_have_text(["@Regulars"])
    await send(page, "/say hello role: Nobody")
    await expect(page.get_by_role("alert")).to_contain_text("@everyone, @Newcomers, @Regulars, @Moderators")
    await send(page, "/say hello role: @Regulars")
    await expect(messages(page).last).to_contain_text("hello @Regulars")


async def test_moderators_have_a_channel_that_others_do_not_see(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("mina", "mods")
    channel = page.get_by_role("navigation", name="Channels").get_by_role("button", name="mods")
    await expect(channel).to_be_visible()
    await send(page, "/say for moderators")
    await expect(messages(page).last).to_contain_text("for moderators")
    await page.get_by_role("radio", name="Act as Ravi").check(force=True)
    await expect(page.get_by_text("You act as Ravi;")).to_be_visible()
    await expect(channel).to_have_count(0)
    await expect(messages(page)).to_have_count(0)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_the_welcome_stays_in_view_until_the_first_own_message(
    open_page: OpenPage, bot: PageBot, size: tuple[int, int]
) -> None:
    other = await open_page("ravi")
    for moon in range(3):
        await send(other, f"/imagine moon {moon}")
        await messages(other).nth(moon).get_by_role("img").wait_for()
    await other.evaluate("localStorage.clear()")  # as on a newcomer's machine

    page = await open_page(size=size)
    welcome = page.locator("#welcome")
    await messages(page).nth(2).get_by_role("img").wait_for()
    await expect(welcome).to_be_in_viewport(ratio=1)
    await expect(welcome).to_contain_text("You act as Mina, a moderator; the faces above are the others.")
    await expect(welcome).to_contain_text("Type /imagine and what you want to see")
    await welcome.get_by_role("button", name="/imagine a red heart").click()
    await page.get_by_role("button", name="Send").click()
    await messages(page).nth(3).get_by_role("img").wait_for()
    await expect(welcome).not_to_be_in_viewport()
    await page.reload()
    await messages(page).nth(3).get_by_role("img").wait_for()
    await expect(welcome).not_to_be_in_viewport()


async def test_messages_elsewhere_mark_their_channel_unread(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page("mina", "general")
    other = await open_page("ravi", "art")
    await send(other, "/say over here")
    channel = page.get_by_role("navigation", name="Channels").get_by_role("button", name="art unread")
    await channel.first.click()
    await expect(messages(page)).to_contain_text("over here")
    await expect(page).to_have_url(re.compile(r"#mina/art$"))


async def test_a_spoiler_channel_and_its_threads_show_nothing_until_the_member_opens_it(
    open_page: OpenPage, bot: PageBot, sandbox: Sandbox
) -> None:
    page = await open_page("mina", "general")
    await send(page, "/say the butler did it")
    await expect(messages(page)).to_have_count(1)
    sandbox.make_spoiler_channel("general")
    sandbox.open_thread("general", "theories")
    await expect(messages(page)).to_have_count(0)
    channels = page.get_by_role("navigation", name="Channels")
    await channels.get_by_role("button", name="theories").click()
    await expect(page.get_by_text("This is a spoiler channel")).to_be_visible()
    await channels.get_by_role("button", name="art").first.click()
    await expect(page.get_by_text("This is a spoiler channel")).to_be_hidden()
    await channels.get_by_role("button", name="general").click()
    await page.get_by_role("button", name="Open the channel").click()
    await expect(messages(page)).to_contain_text("the butler did it")
    await channels.get_by_role("button", name="theories").click()
    await expect(page.get_by_text("This is a spoiler channel")).to_be_hidden()


async def test_without_an_address_the_page_opens_the_channel_of_the_last_message(
    open_page: OpenPage, bot: PageBot, sandbox: Sandbox
) -> None:
    page = await open_page("ravi", "art")
    await send(page, "/say over here")
    await expect(messages(page)).to_have_count(1)
    await page.goto("about:blank")
    await page.goto(sandbox.address)
    await expect(page).to_have_url(re.compile(r"#mina/art$"))
    await expect(messages(page)).to_contain_text("over here")


async def test_a_form_is_filled_in_and_answered(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await send(page, "/form")
    form = page.get_by_role("dialog", name="Settings")
    await expect(form.get_by_label("Motto")).to_be_focused()
    await form.get_by_label("Motto").fill("paint it black")
    await form.get_by_role("button", name="Submit").click()
    await expect(messages(page).last).to_contain_text("Your motto: paint it black")
    await expect(form).to_have_count(0)


@pytest.mark.parametrize(("size", "touch"), [(DESKTOP, False), (PHONE, True)])
async def test_buttons_checkboxes_and_files_of_a_form_are_chosen_and_sent(
    open_page: OpenPage, bot: PageBot, sandbox: Sandbox, size: tuple[int, int], touch: bool
) -> None:
    page = await open_page(size=size, has_touch=touch, is_mobile=touch)
    await send(page, "/order")
    form = page.get_by_role("dialog", name="Order")
    frame = form.get_by_role("radiogroup", name="Frame")
    await expect(frame).to_have_accessible_description("How the edges look")
    await expect(frame.get_by_role("radio", name="None")).to_be_checked()
    names = ["a sun.png", "b.png"]
    await form.get_by_label("Sketches").set_input_files(
        [FilePayload(name=name, mimeType="image/png", buffer=b"x") for name in names]
    )
    await form.get_by_role("button", name="Submit").click()
    await expect(form.get_by_role("alert")).to_contain_text("Days: this field is required.")
    await frame.get_by_text("Oak").click()
    days = form.get_by_role("group", name="Days")
    await days.get_by_role("checkbox", name="Friday").check()
    await form.get_by_role("checkbox", name="In a hurry").check()
    assert await form.evaluate("(dialog) => dialog.scrollWidth <= dialog.clientWidth")
    await form.get_by_role("button", name="Submit").click()
    await expect(messages(page).last).to_contain_text("oak ['Friday'] True ['a_sun.png', 'b.png']")
    await expect(form).to_have_count(0)
    assert sandbox.violations == []


async def test_markup_in_a_message_is_shown_as_text(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    for hostile in HOSTILE:
        await send(page, f"/say {hostile}")
        shown = messages(page).last.locator(".text")
        await expect(shown).to_have_text(re.sub(r"[`*]", "", hostile))
        assert await shown.locator("img, script, svg, a, b, i").count() == 0
    assert await page.evaluate("window.caught") is None


async def test_a_picture_is_enlarged_and_escape_closes_it(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await send(page, "/imagine a moon variants: 2")
    await page.get_by_role("button", name="Enlarge: a moon").first.click()
    enlarged = page.get_by_role("dialog", name="Enlarged picture")
    await expect(enlarged).to_contain_text("1 of 2")
    await page.keyboard.press("ArrowRight")
    await expect(enlarged).to_contain_text("2 of 2")
    await expect(enlarged.get_by_role("img", name="a moon")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(enlarged).to_have_count(0)
    await expect(page.get_by_role("button", name="Enlarge: a moon").first).to_be_focused()


async def test_the_view_stays_at_the_bottom_unless_the_person_reads_above(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page(size=(1280, 1100))
    other = await open_page("ravi")
    timeline = page.locator("#timeline")
    for moon in range(3):
        await send(other, f"/imagine moon {moon}")
        await page.get_by_role("img", name=f"moon {moon}").wait_for()
    below = "(node) => node.scrollHeight - node.scrollTop - node.clientHeight"
    await expect(page.get_by_role("img", name="moon 2")).to_be_in_viewport()
    assert await timeline.evaluate(below) < 2

    await timeline.evaluate("(node) => { node.scrollTop = 0; }")
    await expect(page.get_by_role("img", name="moon 2")).not_to_be_in_viewport()
    await send(other, "/say below")
    await page.get_by_role("button", name="New messages below").click()
    await expect(page.get_by_text("below", exact=True)).to_be_in_viewport()


async def test_a_result_that_is_higher_than_the_view_shows_its_beginning(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page("ravi", size=(1280, 500))
    for prompt in ("moon", "sun"):
        await send(page, f"/imagine {prompt} variants:9")
        await expect(messages(page).last.get_by_role("img", name=prompt)).to_have_count(9)
        await expect(messages(page).last.get_by_text("used /imagine")).to_be_in_viewport(ratio=1)
        await expect(messages(page).last.get_by_role("button", name="Dead")).not_to_be_in_viewport()
    await expect(page.get_by_role("button", name="New messages below")).to_be_hidden()


async def test_a_phone_shows_everything_without_horizontal_scrolling(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page("ravi", size=PHONE, has_touch=True, is_mobile=True)
    await send(page, "/imagine " + "a very long word " * 8 + "x" * 60)
    await messages(page).last.get_by_role("img").wait_for()
    await box(page).fill("/imagine a moon size: ")
    await page.get_by_role("option", name="128x128 pixels").wait_for()
    for part in ("html", "#timeline", ".brand"):
        assert await page.locator(part).evaluate("each => each.scrollWidth <= each.clientWidth"), part
    await page.keyboard.press("Escape")

    await expect(page.get_by_role("navigation", name="Channels")).to_be_hidden()
    await page.get_by_role("button", name="Channels").tap()
    await page.get_by_role("navigation", name="Channels").get_by_role("button", name="general").tap()
    await expect(page.get_by_role("heading", name="Welcome to #general")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Channels")).to_be_hidden()


async def test_the_page_reconnects_after_the_sandbox_was_stopped(
    open_page: OpenPage, sandbox: Sandbox
) -> None:
    page = await open_page()
    port = int(sandbox.address.rsplit(":", 1)[1])
    await sandbox.stop()
    await expect(page.get_by_role("status").first).to_contain_text("Trying again")
    async with Sandbox(port=port):
        await expect(page.locator("#connection")).to_be_hidden()
        await page.get_by_role("button", name="general").click()
        await expect(page.get_by_role("heading", name="Welcome to #general")).to_be_visible()


async def test_a_sandbox_that_answers_again_is_no_longer_said_to_be_silent(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    await page.route("**/sandbox/command", lambda route: route.abort())
    await send(page, "/imagine a moon")
    await expect(page.get_by_role("alert")).to_contain_text("The sandbox does not answer.")
    await page.get_by_role("button", name="general").click()
    await expect(page.get_by_role("alert")).to_be_hidden()
    await expect(box(page)).to_have_value("/imagine a moon")


async def test_a_message_that_comes_before_the_page_listens_is_shown(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page()
    address = page.url
    await page.goto("about:blank")
    art = next(channel for channel in bot.guilds[0].text_channels if channel.name == "art")
    seen = asyncio.Event()

    async def hold(line: WebSocketRoute) -> None:
        await art.send("posted before")
        await seen.wait()
        await art.send("posted meanwhile")
        line.connect_to_server()

    await page.route_web_socket("**/sandbox/events*", hold)
    await page.goto(address)
    await expect(messages(page).last).to_contain_text("posted before")  # before the WebSocket is connected
    seen.set()
    await expect(messages(page).last).to_contain_text("posted meanwhile")
    await page.close()  # this ends its route too


async def test_an_answer_that_comes_while_the_page_loads_is_shown(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    address = page.url
    await page.goto("about:blank")
    art = next(channel for channel in bot.guilds[0].text_channels if channel.name == "art")

    async def post_first(line: WebSocketRoute) -> None:
        await art.send("posted first")
        line.connect_to_server()

    await page.route_web_socket("**/sandbox/events*", post_first)
    await page.goto(address)
    await expect(messages(page).last).to_contain_text("posted first")
    await page.close()


async def test_break_things_injects_a_fault_and_shows_the_violations(
    open_page: OpenPage, bot: PageBot, clock: Clock
) -> None:
    page = await open_page()
    await page.get_by_role("button", name="Break things").click()
    panel = page.get_by_role("complementary", name="Break things")
    await expect(panel).to_contain_text("None so far.")
    await panel.get_by_label("Refuse the next requests with 429").fill("1")
    await panel.get_by_role("button", name="Apply").click()
    await expect(panel).to_contain_text("Done: Switches set.")
    await send(page, "/imagine a moon")
    await messages(page).last.get_by_role("img", name="a moon").wait_for()

    await send(page, "/ignore")
    await expect(messages(page).last).to_contain_text("Sending the command")
    clock.ahead = 5.0
    await expect(panel).to_contain_text("command ignore: no acknowledgement within 3 s")


async def test_every_control_has_an_accessible_name(open_page: OpenPage, bot: PageBot) -> None:
    page = await open_page()
    await send(page, "/imagine a moon")
    await messages(page).last.get_by_role("img").wait_for()
    await page.get_by_role("button", name="Break things").click()
    nameless = await page.evaluate(
        """() => [...document.querySelectorAll("button, a, input, select, textarea")]
            .filter((node) => node.checkVisibility())
            .filter((node) => !node.getAttribute("aria-label") && !node.textContent.trim())
            .filter((node) => !node.labels?.length)
            .map((node) => node.outerHTML)"""
    )
    assert nameless == []
