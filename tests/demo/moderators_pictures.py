"""The pictures of docs/moderators: a member who is refused, a moderator who looks; without an engine.

`make pictures` renews them in docs/images. `test_moderators_pictures.py` takes the same steps and
writes nothing.
"""

from __future__ import annotations

from pathlib import Path

from documented import Keep
from first_pictures import Visit, arrive
from playwright.async_api import Browser, ViewportSize
from serving import serving

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store

FILES = frozenset({"moderators-refused.png", "moderators-show.png", "moderators-audit.png"})
SIZE = ViewportSize(width=900, height=620)
OMAR, WEI = str(PEOPLE[3].id), str(PEOPLE[4].id)
LEVELS = {
    "Unsafe pictures": "1 behind a spoiler, 2 withheld, 3 withheld",
    "Unsafe pictures, spoiler channels": "1 shown, 2 behind a spoiler, 3 withheld",
    "Unsafe pictures, age-restricted": "1 shown, 2 shown, 3 held for moderators",
}
HIDDEN = "a pool of b.l.o.o.d on snow"


async def keep_order(address: str) -> None:
    """Mina adds a rule, blocks two members, lets one in again, and pauses a channel."""
    async with Member(address, "Mina") as mina:
        form = await mina.modal_of(await mina.use("rules add", name="No gore"))
        await mina.message_of(await mina.submit(form, name="No gore", terms="blood\ngore", also=""))
        for name, options in (
            ("block", {"member": OMAR, "hours": 48, "reason": "advertising"}),
            ("block", {"member": WEI, "reason": "a mistake"}),
            ("unblock", {"member": WEI, "reason": "the wrong person"}),
            ("pause", {"word": "back at eight"}),
        ):
            channel = "general" if name == "pause" else "art"
            interaction = await mina.use(f"moderate {name}", channel=channel, **options)
            await mina.message_of(interaction, channel=channel)


async def whole_visit(browser: Browser, address: str, keep: Keep) -> None:
    """Keep a picture of each: a refused prompt, `/moderate show`, `/audit`."""
    await keep_order(address)
    async with await browser.new_context(viewport=SIZE, locale="en-GB") as context:
        ravi = await arrive(context, address, "ravi", keep)
        await ravi.send(f"/imagine {HIDDEN}")
        await told(ravi, "No gore")
        await ravi.shoot("moderators-refused")
        mina = await arrive(context, address, "mina", keep)
        await mina.send("/moderate show")
        await told(mina, "advertising")
        await mina.shoot("moderators-show")
        mina = await arrive(context, address, "mina", keep)
        await mina.send("/audit")
        await told(mina, "the wrong person")
        await mina.shoot("moderators-audit")
        await choose_levels(mina)


async def choose_levels(visit: Visit) -> None:
    """Choose how unsafe pictures are shown in each kind of channel, and the language for all."""
    await visit.send("/policy set what:Weight, language, unsafe pictures")
    form = visit.page.get_by_role("dialog")
    for name, choice in LEVELS.items():
        await form.get_by_label(f"{name} *", exact=True).select_option(choice)
    await form.get_by_role("radio", name="한국어").check()
    await form.get_by_role("button", name="Submit").click()
    message = visit.page.get_by_role("article").filter(has_text="Saved.").last
    for words in (*(f"{name}: {choice}" for name, choice in LEVELS.items()), "Language for all: 한국어"):
        await message.filter(has_text=words).wait_for()


async def told(visit: Visit, words: str) -> None:
    """Return once a message has these words."""
    await visit.page.get_by_role("article").filter(has_text=words).last.wait_for()


async def visited(browser: Browser, folder: Path, keep: Keep) -> list[str]:
    """Serve a sandbox in a folder and visit it; return the violations."""
    store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
    try:
        async with Sandbox() as sandbox:
            async with serving(sandbox, store, Artifacts(str(folder / "artifacts")), Config()):
                await whole_visit(browser, sandbox.address, keep)
            return sandbox.violations
    finally:
        await store.close()
