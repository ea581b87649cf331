"""A moderated session in two languages, as four members see it in Chromium: a review, an appeal, a vote.

`make pictures` renews its pictures in docs/images. `test_session_pictures.py` takes the same steps and
writes nothing.
"""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from documented import Keep
from first_pictures import Visit, arrive
from picture_prompts import OMARS, RAVIS, RAVIS_SECOND, SIZE, THEME, WEIS
from playwright.async_api import Browser, Error, Locator, Page, ViewportSize, expect
from serving import serving, working

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.sandbox.state import Role
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine

FILES = frozenset(
    {
        "session-open.png",
        "session-board.png",
        "session-held.png",
        "review-waiting.png",
        "review-rejected.png",
        "review-appeal.png",
        "session-vote.png",
        "session-results.png",
        "session-sheet.png",
    }
)
PATIENCE = 60_000.0  # milliseconds
WINDOW = ViewportSize(width=900, height=1000)
OMAR, WEI = PEOPLE[3].id, PEOPLE[4].id
HOSTS_ID = GUILD_ID + 900
LANGUAGES = {str(OMAR): "ar"}
REASON = "Not on topic"
APPEAL = "هذا موضوع الجلسة"  # "This is the theme of the session"
REPORT = "لا أرى ما في الوصف"  # "I do not see what the prompt says"


@dataclass(kw_only=True)
class Scene:
    """The members on their pages: Wei leads, Mina moderates, Ravi reads English and Omar Arabic."""

    wei: Visit
    mina: Visit
    ravi: Visit
    omar: Visit


def prepare(sandbox: Sandbox) -> None:
    """Make Wei a host, whose Discord is in English; before the bot connects."""
    world = sandbox._core.world
    hosts = Role(id=HOSTS_ID, name="Hosts", permissions=int(Permission.MANAGE_EVENTS), position=1)
    world.roles[hosts.id] = hosts
    wei = world.members[WEI]
    wei.user, wei.roles = replace(wei.user, locale="en-GB"), (hosts.id,)


def articles(visit: Visit, *words: str) -> Locator:
    """The messages with all these words."""
    found = visit.page.get_by_role("article")
    for each in words:
        found = found.filter(has_text=each)
    return found


async def sees(visit: Visit, *words: str) -> Locator:
    """Return the newest message with all these words, once it is there."""
    found = articles(visit, *words).last
    await found.wait_for()
    return found


async def go(visit: Visit, channel: str) -> None:
    """Open a channel by the list."""
    await visit.page.get_by_role("navigation").get_by_role("button", name=channel).click()
    await visit.page.get_by_role("heading", name=f"Welcome to #{channel}").wait_for()


async def fill(visit: Visit, **values: str) -> None:
    """Fill in the open form by its labels, and submit it."""
    form = visit.page.get_by_role("dialog")
    for label, value in values.items():
        await form.get_by_label(label.replace("_", " "), exact=False).fill(value)
    await form.get_by_role("button", name="Submit").click()


async def shown(message: Locator) -> None:
    """Wait until the last picture of a message is loaded."""
    await message.locator("img").last.evaluate("image => image.decode()")


async def shoot(visit: Visit, name: str, message: Locator) -> None:
    """Take a screenshot of one message, or of a form."""
    await visit.page.mouse.move(0, 0)
    async with asyncio.timeout(PATIENCE / 1000):
        while (picture := await screenshot(message)) is None:
            pass
    visit.keep(f"{name}.png", picture)


async def screenshot(message: Locator) -> bytes | None:
    """A screenshot; None where the page replaced the element of an edited message meanwhile."""
    try:
        return await message.screenshot(animations="disabled", caret="hide")
    except Error as error:
        if "not attached" not in error.message:
            raise
        return None


async def use_menu(visit: Visit, message: Locator, name: str) -> None:
    """Use a command of a message's menu."""
    await message.click(button="right", position={"x": 60, "y": 4})
    await visit.page.get_by_role("menu", name="Apps").get_by_role("menuitem", name=name).click()


async def open_session(scene: Scene) -> None:
    """Mina names the channel for reviews and reads the help; Wei opens a reviewed session; all go there."""
    mina, wei = scene.mina, scene.wei
    await go(mina, "mods")
    await mina.send("/review channel")
    await sees(mina, "Moderators see reviews in this channel from now on")
    await mina.send("/help topic:For moderators")
    await sees(mina, "For moderators", "/review channel", "The first decision counts")
    await scene.omar.send("/help topic:For moderators")
    await sees(scene.omar, "/review channel", "يثبت القرار الأول")
    await wei.send("/session open review:True")
    form = wei.page.get_by_role("dialog")
    await expect(form).to_contain_text("These words are added to every prompt.")
    await form.get_by_label("Theme").fill(THEME)
    await shoot(wei, "session-open", form)
    await fill(wei, Pictures_for_each_person_and_round="2")
    told = await sees(wei, "The group session is open")
    await told.get_by_role("link", name=THEME).click()
    for guest in (scene.ravi, scene.omar):
        await go(guest, THEME)
    await sees(wei, f"Group session: {THEME}", "Host: @Wei", "Round 1", "everyone is painting")


async def paint(scene: Scene) -> None:
    """Ravi, Omar and Wei paint; each reads in their language that moderators look first."""
    await scene.ravi.send(f"/imagine {RAVIS}")
    await sees(scene.ravi, RAVIS, "1 picture is painted and waiting for moderators")
    await scene.omar.send(f"/imagine {OMARS}")
    held = await sees(scene.omar, OMARS, "بانتظار المشرفين")
    await shoot(scene.omar, "session-held", held)
    await expect(held.locator("img")).to_have_count(0)
    await expect(articles(scene.ravi, OMARS).locator("img")).to_have_count(0)
    await scene.wei.send(f"/imagine {WEIS}")
    await sees(scene.wei, WEIS, "1 picture is painted and waiting for moderators")


async def review(scene: Scene) -> None:
    """Mina approves two pictures, and rejects one with a reason; its person appeals with success."""
    mina, omar = scene.mina, scene.omar
    first = await sees(mina, "A picture is waiting for review", RAVIS)
    second = await sees(mina, "A picture is waiting for review", OMARS)
    await shown(second)
    await shoot(mina, "review-waiting", second)
    await mina.press(first, "Approve")
    await sees(mina, RAVIS, "@Mina has approved it")
    await mina.press(await sees(mina, "A picture is waiting for review", WEIS), "Approve")
    await sees(mina, WEIS, "@Mina has approved it")
    await mina.press(second, "Reject")
    await fill(mina, Reason=REASON)
    await sees(mina, OMARS, "@Mina has rejected it", REASON)
    star = await sees(scene.ravi, RAVIS, "seed")
    await shown(star)
    rejected = await sees(omar, OMARS, REASON)
    await expect(rejected.get_by_role("button", name="اعتراض")).to_be_visible()
    await shoot(omar, "review-rejected", rejected)
    await omar.press(rejected, "اعتراض")
    await omar.page.get_by_role("dialog").locator("textarea").fill(APPEAL)
    await omar.page.get_by_role("button", name="Submit").click()
    appeal = await sees(mina, "An appeal", OMARS)
    await shown(appeal)
    await shoot(mina, "review-appeal", appeal)
    await mina.press(appeal, "Accept")
    await shown(await sees(omar, OMARS, "البذرة"))


async def report(scene: Scene) -> None:
    """Omar reports Ravi's picture; Mina looks at it, and lets it stand."""
    star = await sees(scene.omar, RAVIS, "seed")
    await use_menu(scene.omar, star, "Report this picture")
    await scene.omar.page.get_by_role("dialog").locator("textarea").fill(REPORT)
    await scene.omar.page.get_by_role("button", name="Submit").click()
    await sees(scene.omar, "يرى مشرفو هذا الخادم بلاغك")
    reported = await sees(scene.mina, "A reported picture", RAVIS, REPORT)
    await shown(reported)

    await scene.mina.press(reported, "Approve")
    await expect(reported).to_contain_text("@Mina has approved it")


async def vote(scene: Scene) -> None:
    """The round ends; all members vote, and read the results."""
    wei, ravi, omar = scene.wei, scene.ravi, scene.omar
    await go(wei, THEME)
    board = await sees(wei, "Group session", "@Ravi 1/2", "@Omar 1/2", "@Wei 1/2")
    await expect(board).not_to_contain_text("left out")  # all are shown since the decisions
    await shoot(wei, "session-board", board)
    await wei.send("/session next")
    ballot = await sees(omar, "Pictures of round 1", RAVIS, OMARS)
    await shown(ballot)
    await ballot.get_by_role("button", name="2", exact=True).click()
    await sees(omar, "لا يمكنك التصويت لصورتك")
    await ballot.get_by_role("button", name="1", exact=True).click()
    await sees(omar, "صوّتَّ للرقم")
    await shoot(omar, "session-vote", ballot)
    for guest in (ravi, wei):
        await guest.press(await sees(guest, "Pictures of round 1"), "2")
        await sees(guest, "You have voted for no. 2.")
    await wei.send("/session next")
    results = await sees(ravi, "Results of round 1", "no. 2 of @Omar", "2 votes", "3 people have voted.")
    await shown(results)
    await shoot(ravi, "session-results", results)


async def finish(scene: Scene) -> None:
    """A second round, then the end: the sheet of all pictures, and the archive."""
    wei, ravi = scene.wei, scene.ravi
    await wei.send("/session next")
    await sees(wei, "Group session", "Round 2", "everyone is painting")
    await ravi.send(f"/imagine {RAVIS_SECOND}")
    waiting = await sees(scene.mina, "A picture is waiting for review", RAVIS_SECOND)
    await scene.mina.press(waiting, "Approve")
    await sees(ravi, RAVIS_SECOND, "seed")
    await wei.send("/session close")
    await sees(wei, "the session has ended")
    whole = await sees(ravi, f"Group session: {THEME}", RAVIS, OMARS, WEIS, RAVIS_SECOND)
    await shown(whole)
    await sees(ravi, "The archive has 4 pictures, with their recipes.")
    await shoot(ravi, "session-sheet", whole)


async def archived(page: Page) -> tuple[dict[str, list[dict[str, object]]], set[str]]:
    """The archive that was posted last: its document, and the names of its files."""
    address = await page.get_by_role("link", name=".zip").last.get_attribute("href")
    with zipfile.ZipFile(io.BytesIO(await (await page.request.get(str(address))).body())) as archive:
        return json.loads(archive.read("session.json")), set(archive.namelist())


async def whole_visit(
    browser: Browser, address: str, keep: Keep
) -> tuple[dict[str, list[dict[str, object]]], set[str]]:
    """Take all steps; return the document and the file names of the session's archive."""
    async with await browser.new_context(viewport=WINDOW, locale="en-GB") as context:
        names = ("wei", "mina", "ravi", "omar")
        visits = await asyncio.gather(
            *(arrive(context, address, name, keep, patience=PATIENCE) for name in names)
        )
        scene = Scene(**dict(zip(names, visits, strict=True)))
        for step in (open_session, paint, review, report, vote, finish):
            await step(scene)
        return await archived(scene.ravi.page)


@asynccontextmanager
async def painted(
    folder: Path, config: Config, engine: Engine, *, observer: Callable[..., None] | None = None
) -> AsyncIterator[Sandbox]:
    """A sandbox, the bot on it, and a worker with this engine."""
    store = await Store.open(f"sqlite+aiosqlite:///{folder}/queue.sqlite3")
    artifacts = Artifacts(str(folder / "artifacts"))
    try:
        async with Sandbox(observer=observer) as sandbox:
            prepare(sandbox)
            worker = Worker(engine, store, artifacts, name="worker", lease_seconds=60.0)
            async with serving(sandbox, store, artifacts, config), working(worker):
                yield sandbox
    finally:
        await store.close()


async def visited(browser: Browser, folder: Path, cache: Path, keep: Keep) -> None:
    """Take all steps on a sandbox whose pictures are painted by the demo's checkpoint."""
    model = {"name": "demo", "checkpoint": "demo", "sizes": [SIZE]}
    config = Config.parse({"discord": {"languages": LANGUAGES}, "models": [model]})
    spec = ModelSpec(offer=config.models[0].offer, source="demo")
    settings = EngineConfig(models=(spec,), seats_per_device=2, cpu_devices=1, cache_dir=cache)
    with Engine.open(settings, report=print) as engine:
        await asyncio.to_thread(engine.wait_until_ready)
        async with painted(folder, config, engine) as sandbox:
            await whole_visit(browser, sandbox.address, keep)
