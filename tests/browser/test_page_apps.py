"""The Apps menu of a message: by mouse, by keyboard and by touch."""

from __future__ import annotations

import discord
import pytest
from discord import app_commands
from page_tools import PHONE, OpenPage, box, messages, send
from playwright.async_api import Locator, Page, expect
from small_bot import Korean, PageBot

from bot.sandbox.server import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


class Questions(discord.ui.Modal, title="About this"):
    """A form with a choice and a text."""

    which: discord.ui.Label[Questions] = discord.ui.Label(
        text="Which part",
        component=discord.ui.Select(
            custom_id="which", options=[discord.SelectOption(label=name) for name in ("Head", "Tail")]
        ),
    )

    async def on_submit(self, interaction: discord.Interaction) -> None:
        assert isinstance(self.which.component, discord.ui.Select)
        await interaction.response.send_message(f"You chose {self.which.component.values[0]}", ephemeral=True)


async def offer_menus(bot: PageBot) -> None:
    """Register three commands for messages while the page is open."""

    @bot.tree.context_menu(name="Repeat This")
    async def repeat(interaction: discord.Interaction, message: discord.Message) -> None:
        await interaction.response.send_message(f"again: {message.content}")

    @bot.tree.context_menu(name="Ask About This")
    async def ask(interaction: discord.Interaction, message: discord.Message) -> None:
        await interaction.response.send_modal(Questions())

    @bot.tree.context_menu(name="Ignore This")
    async def ignore(interaction: discord.Interaction, message: discord.Message) -> None:
        bot.heard.append((interaction.user.name, message.content))

    await bot.tree.set_translator(Korean())
    await bot.tree.sync()


def apps(page: Page) -> Locator:
    return messages(page).first.get_by_role("button", name="Apps")


def menu(page: Page) -> Locator:
    return page.get_by_role("menu", name="Apps")


def item(page: Page, name: str) -> Locator:
    return menu(page).get_by_role("menuitem", name=name)


async def test_the_mouse_opens_the_menu_by_its_button_and_by_a_right_click(
    open_page: OpenPage, bot: PageBot
) -> None:
    page = await open_page("ravi")
    await send(page, "/say hello")
    await expect(messages(page).first).to_contain_text("hello")
    await expect(apps(page)).to_have_count(0)
    await offer_menus(bot)
    await messages(page).first.hover()
    await apps(page).click()
    await expect(menu(page).get_by_role("menuitem")).to_have_text(
        ["Repeat This", "Ask About This", "Ignore This"]
    )
    await apps(page).click()
    await expect(menu(page)).to_have_count(0)
    await messages(page).first.click(button="right")
    await item(page, "Repeat This").click()
    await expect(messages(page).last).to_contain_text("again: hello")
    await expect(messages(page).last).to_contain_text("Ravi used Repeat This")
    await expect(menu(page)).to_have_count(0)
    await messages(page).first.click(button="right")
    await page.get_by_role("heading", name="Welcome to #art").click()
    await expect(menu(page)).to_have_count(0)


async def test_the_keyboard_walks_through_the_menu_and_only_its_tab_opens_the_form(
    open_page: OpenPage, bot: PageBot
) -> None:
    await offer_menus(bot)
    page, other_tab = await open_page("ravi"), await open_page("ravi")
    await send(page, "/say hello")
    await apps(page).focus()
    await page.keyboard.press("Enter")
    await expect(item(page, "Repeat This")).to_be_focused()
    await page.keyboard.press("ArrowUp")
    await expect(item(page, "Ignore This")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(item(page, "Ask About This")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(menu(page)).to_have_count(0)
    await expect(apps(page)).to_be_focused()
    await page.keyboard.press("Space")
    await page.keyboard.press("End")
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    form = page.get_by_role("dialog", name="About this")
    await form.get_by_label("Which part").select_option("Tail")
    await form.get_by_role("button", name="Submit").click()
    await expect(messages(page).last).to_contain_text("You chose Tail")
    await expect(messages(other_tab).last).to_contain_text("You chose Tail")
    await expect(other_tab.get_by_role("dialog")).to_have_count(0)


async def test_touch_opens_the_menu_within_the_window_and_its_entries_are_large_enough(
    open_page: OpenPage, bot: PageBot
) -> None:
    await offer_menus(bot)
    page = await open_page("yuna", size=PHONE, has_touch=True, is_mobile=True)
    await send(page, "/say hello")
    await apps(page).tap()
    frame = await menu(page).bounding_box()
    assert frame is not None
    assert frame["x"] >= 0
    assert frame["x"] + frame["width"] <= PHONE[0]
    entry = await item(page, "이것을 다시").bounding_box()
    assert entry is not None
    assert entry["height"] >= 44
    await item(page, "이것을 다시").tap()
    await expect(messages(page).last).to_contain_text("again: hello")


async def test_a_menu_without_an_answer_shows_an_error_under_its_message(
    open_page: OpenPage, bot: PageBot, sandbox: Sandbox
) -> None:
    await offer_menus(bot)
    page = await open_page("ravi")
    await send(page, "/say hello")
    await apps(page).click()
    await item(page, "Ignore This").click()
    await expect(messages(page).first.get_by_role("alert")).to_have_text("The application did not respond")
    assert ("ravi", "hello") in bot.heard


async def test_a_group_offers_the_commands_of_an_account_that_has_the_bot(
    open_page: OpenPage, bot: PageBot
) -> None:
    @bot.tree.command(name="sketch", description="Draw")
    @app_commands.allowed_installs(guilds=False, users=True)
    async def sketch(interaction: discord.Interaction) -> None:
        await interaction.response.send_message("a sketch")

    await bot.tree.sync()
    page = await open_page("ravi")
    await page.get_by_role("button", name="weekend").click()
    options = page.get_by_role("listbox").get_by_role("option")
    await expect(page.get_by_text("The bot is not in this group: add it to your account")).to_be_visible()
    await box(page).fill("/")
    await expect(options).to_have_count(0)
    await page.get_by_role("button", name="Add the bot to my account").click()
    await box(page).fill("/s")
    await expect(options).to_have_count(1)
    await expect(options).to_contain_text("sketch")
    await send(page, "/sketch")
    await expect(messages(page).last).to_contain_text("a sketch")
    await page.get_by_role("button", name="art", exact=True).click()
    await box(page).fill("/s")
    await expect(options.first).to_contain_text("say")


async def test_plain_text_can_be_posted_and_the_menu_reads_it(open_page: OpenPage, bot: PageBot) -> None:
    await offer_menus(bot)
    page, other = await open_page("ravi"), await open_page("omar")
    await send(page, "what a day")
    await page.get_by_role("button", name="Send it as a message").click()
    await expect(messages(other).first).to_contain_text("what a day")
    await messages(other).first.click(button="right")
    await item(other, "Repeat This").click()
    await expect(messages(page).last).to_contain_text("again: what a day")
