"""One evening of five members, in four languages, who use everything that there is, with the real engine.

The sandbox refuses what Discord would refuse, and every exchange is compared with Discord's own documents.
Where requests must wait, no worker runs: the evening is the same on a quick machine and on a slow one.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
from checkpoints import make_tiny_controlnet
from results import shows_result
from serving import Served, serving, until, working
from tour import Guest, Message, Used, is_within_limits, offered_in, text_of, unused
from tour_known import know_pictures
from tour_review import review_everything
from tour_sessions import hold_session

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.front.commands import made_by_ai, paint_from, use_recipe
from bot.front.moderators import report, whose
from bot.sandbox.client import Member
from bot.sandbox.community import MODERATORS_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine

NAMES = [person.username for person in PEOPLE]
LANGUAGES = ("en", "en", "ko", "ar", "zh")
OMAR, WEI = PEOPLE[3].id, PEOPLE[4].id
KEYWORDS = "circle,0,9,\nheart,0,5,\n"
COLOURS = "{red, blue, green, yellow}"
SHAPES = ("circle", "star", "heart")
MENUS = {use_recipe.NAME, paint_from.NAME, paint_from.COMPOSITION, made_by_ai.NAME, report.NAME, whose.NAME}
"""Their names are English for readers of Arabic, which Discord does not have as a language."""

CONFIG: dict[str, Any] = {
    "discord": {"languages": {str(OMAR): "ar"}},
    "models": [
        {
            "name": "tiny",
            "checkpoint": "tiny",
            "sizes": ["64x64", "96x96"],
            "num_inference_steps": 4,
            "guidance_scale": 2.2,
            "sampler": "ddim",
        }
    ],
    "limits": {"requests_per_minute": 0, "server_requests_per_minute": 0, "files_per_minute": 0},
}
A1111 = "a red circle Negative prompt: fog Steps: 3, Sampler: Euler a, Seed: 77, Size: 64x64, Model: other"


@dataclass(kw_only=True)
class Evening:
    """The bot, its guests, and a worker that runs only at times."""

    served: Served
    engine: Engine
    used: Used
    guests: dict[str, Guest] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Guest:
        return self.guests[name]

    def painting(self) -> AbstractAsyncContextManager[object]:
        """Paint while the block runs; afterwards what is asked for waits."""
        store, artifacts = self.served.store, self.served.artifacts
        return working(Worker(self.engine, store, artifacts, name="worker", lease_seconds=60.0))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Config:
    file = tmp_path_factory.mktemp("keywords") / "keywords.csv"
    file.write_text(KEYWORDS)
    unet, vae = (json.loads((tiny_checkpoint / part / "config.json").read_text()) for part in ("unet", "vae"))
    widths = [8] * len(vae["block_out_channels"])
    net = make_tiny_controlnet(file.parent / "net", unet=unet, conditioning_embedding_out_channels=widths)
    nets = {"net": {"source": str(net), "types": ["edges", "pose"]}}
    models = [model | {"controlnets": nets} for model in CONFIG["models"]]
    return Config.parse({**CONFIG, "models": models, "prompts": {"keywords_file": str(file)}})


@pytest.fixture(scope="module")
def two_sizes(config: Config, tiny_checkpoint: Path, program_folder: Path) -> Iterator[Engine]:
    """An engine of two sizes; it may still compile programs of the larger one while the evening begins."""
    model = config.models[0]
    nets = {name: net.source for name, net in model.controlnets.items()}
    spec = ModelSpec(offer=model.offer, source=str(tiny_checkpoint), controlnets=nets)
    engine = EngineConfig(models=(spec,), seats_per_device=2, cpu_devices=2, cache_dir=program_folder)
    with Engine.open(engine, report=lambda _line: None) as opened:
        yield opened


@pytest.fixture
async def evening(
    sandbox: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    *,
    two_sizes: Engine,
    config: Config,
) -> AsyncIterator[Evening]:
    async with serving(sandbox, store, artifacts, config) as served, AsyncExitStack() as stack:
        evening = Evening(served=served, engine=two_sizes, used=Used())
        for name, language in zip(NAMES, LANGUAGES, strict=True):
            member = await stack.enter_async_context(Member(sandbox.address, name))
            evening.guests[name] = Guest(member, evening.used, language=language)
        yield evening


async def read_and_set_up(evening: Evening) -> None:
    """All members read the help; Mina, who moderates, adds a style, a list and settings."""
    for name, words in (("ravi", "a red heart"), ("yuna", "/그리기"), ("wei", "提示词"), ("omar", "الصور")):
        guest = evening.guests[name]
        assert words in text_of(await guest.answer(await guest.use("help")))
    mina = evening.mina
    opened = await mina.use("style add", name="Ink")
    await mina.answer(await mina.fill(opened, name="Ink", prompt="{prompt}, ink", settings="steps 3"))
    assert "Ink" in text_of(await mina.answer(await mina.use("style show")))
    assert await mina.suggested("style show", "name", "in") == ["Ink"]
    assert "ink" in text_of(await mina.answer(await mina.use("style show", name="Ink")))
    opened = await mina.use("wildcard add", name="shape")
    await mina.answer(await mina.fill(opened, name="shape", entries="\n".join(SHAPES)))
    assert "shape" in text_of(await mina.answer(await mina.use("wildcard show")))
    assert "star" in text_of(await mina.answer(await mina.use("wildcard show", name="shape")))
    for scope, line in (("me", "guidance 2"), ("channel", "steps 3"), ("server", "guidance 2.5")):
        await mina.answer(await mina.fill(await mina.use("settings", scope=scope), settings=line))


async def paint_and_pick(evening: Evening) -> Message:
    """Ravi paints a grid; all others do something with it, each in their language."""
    mina, ravi, yuna, omar, wei = (evening.guests[name] for name in NAMES)
    assert await ravi.suggested("imagine", "prompt", "red, cir") == ["red, circle"]
    [size] = await ravi.suggested("imagine", "size", "64", prompt="x")
    options = {"negative_prompt": "fog", "variants": 3, "size": size, "seed": 7, "steps": 4}
    how = {"guidance": 2.2, "sampler": "euler"}
    grid = await ravi.result(await ravi.use("imagine", prompt="a red circle", **options, **how))
    presses = (
        (yuna, "single"),
        (wei, "vary"),
        (omar, "again"),
        (mina, "again"),
    )
    asked = [(guest, await guest.press(grid, item)) for guest, item in presses]
    alone, like, again, varied = [await guest.result(interaction) for guest, interaction in asked]
    assert "시드" in text_of(alone)
    large = await ravi.result(
        await ravi.use("imagine", prompt="a blue circle", variants=5, size=size, steps=2)
    )
    assert "시드" in text_of(await yuna.result(await yuna.choose(large, "pick", "4")))
    larger = await yuna.result(await yuna.press(alone, "enlarge"))
    assert "96×96" in text_of(larger)
    form = await wei.press(like, "remix")
    await wei.result(await wei.fill(form, prompt="a blue star", settings="size 64x64, steps 3"))
    form = await mina.choose(like, "more", "from")
    await mina.result(
        await mina.fill(form, prompt="a pink star", image=png("RGB", "navy"), mask=png("L", "white"))
    )
    near, info = (
        await omar.choose(again, "more", "near"),
        await mina.choose(grid, "more", "info"),
    )
    await omar.result(near)
    assert "Seed: 7" in text_of(await mina.answer(info))
    assert text_of(await wei.answer(await wei.choose(grid, "more", "star")))
    files = await mina.answer(await mina.press(grid, "files"), has=shows_result)
    assert files["attachments"][0]["filename"].endswith(".zip")
    await yuna.member.react(grid, "⭐")
    await mina.fill(await mina.press(varied, "delete"))  # her own; a form asks for confirmation
    await mina.misses(varied)
    return grid


async def paint_otherwise(evening: Evening) -> None:
    """A start picture with a mask, a private result that is published, a style, a pasted recipe, a list."""
    mina, ravi, yuna, omar, wei = (evening.guests[name] for name in NAMES)
    picture = (("start.png", png("RGB", "navy"), "image/png"), ("mask.png", png("L", "white"), "image/png"))
    started = await wei.use("imagine", prompt="a star", image=picture[0], mask=picture[1], strength=0.6)
    control = {"control": picture[0], "control_type": "pose", "control_strength": 0.5}
    held = await wei.use("imagine", prompt="a moon", size="64x64", **control)
    assert "pose" in text_of(await wei.result(held))
    [hires, *_] = await mina.suggested("imagine", "hires", "", prompt="x", size="64x64")
    enlarged = await mina.use("imagine", prompt="a blue heart", size="64x64", hires=hires)
    hidden = await yuna.use("imagine", prompt="a secret heart", private=True)
    assert await omar.suggested("imagine", "style", "i", prompt="x") == ["Ink"]
    inked = await omar.use("imagine", prompt="a green circle", style="Ink")
    pasted = await mina.use("imagine", prompt="-", recipe=A1111)
    drawn = await ravi.use("imagine", prompt="a pink __shape__", channel="general")
    await wei.result(started)
    assert "96×96" in text_of(await mina.result(enlarged))
    secret = await yuna.result(hidden)
    assert "Ink" in text_of(await omar.result(inked))
    assert "77" in text_of(await mina.result(pasted))
    await ravi.result(drawn, channel="general")
    public = await yuna.result(await yuna.press(secret, "publish"))
    assert public["id"] in {message["id"] for message in await ravi.member.messages()}
    wish = await omar.use("imagine", prompt=f"a {COLOURS} {{{', '.join(SHAPES)}}}", steps=1)
    await omar.results(await omar.fill(wish), len(COLOURS.split()) * len(SHAPES))


async def use_menus(evening: Evening, grid: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """The menus of messages: a recipe in a text, one in a file that takes long, a picture of a grid."""
    ravi, yuna, omar, wei = evening.ravi, evening.yuna, evening.omar, evening.wei
    text = await wei.member.say(A1111)
    told = await ravi.fill(await ravi.menu(text, use_recipe.NAME), settings="size 64x64, steps 3")
    assert "a red circle" in text_of(await ravi.result(told))
    alone = await yuna.answer(await yuna.press(grid, "files"), has=shows_result)
    archive = zipfile.ZipFile(io.BytesIO(await yuna.member.attachment_bytes(alone)))
    file = await wei.member.say("", (archive.namelist()[0], archive.read(archive.namelist()[0]), "image/png"))
    assert "**예**" in text_of(await yuna.answer(await yuna.menu(file, made_by_ai.NAME)))
    with monkeypatch.context() as patch:
        patch.setattr(use_recipe, "FORM_SECONDS", 0.0)  # as if the file took longer than a form can wait
        read = await yuna.answer(await yuna.menu(file, use_recipe.NAME))
    assert "시드" in text_of(await yuna.result(await yuna.fill(await yuna.press(read, "recipe_read"))))
    started = await omar.fill(
        await omar.menu(grid, paint_from.NAME), prompt="a blue star", settings="size 64x64"
    )
    assert "64×64" in text_of(await omar.result(started))
    kept = await omar.fill(
        await omar.menu(grid, paint_from.COMPOSITION), prompt="a blue moon", settings="size 64x64"
    )
    assert "edges" in text_of(await omar.result(kept))


async def look_back(evening: Evening, grid: Message) -> None:
    """Histories with their pages, favourites, one result again, numbers."""
    omar, wei, yuna = evening.omar, evening.wei, evening.yuna
    page = await omar.answer(await omar.use("history"))
    first = text_of(page)
    await omar.press(page, "history", kind="older")
    older = await omar.sees(page, lambda said: said != first)
    await omar.press(older, "history", kind="newer")
    await omar.sees(page, lambda said: said == first)
    found = await omar.answer(await omar.use("history", search="blue star"))
    again = await omar.answer(await omar.choose(found, "history_show", ""), has=shows_result)
    assert "blue star" in text_of(again)
    assert "a red circle" in text_of(await wei.answer(await wei.use("history", favourites=True)))
    await until(lambda: stars(evening.served.store, PEOPLE[2].id))
    assert "a red circle" in text_of(await yuna.answer(await yuna.use("history", favourites=True)))
    [*_, job] = await evening.ravi.suggested("show", "job", "a red circle")
    shown = await evening.ravi.answer(await evening.ravi.use("show", job=job), has=shows_result)
    assert "a red circle" in text_of(shown)
    for guest in evening.guests.values():
        assert text_of(await guest.answer(await guest.use("stats")))


async def wait_and_cancel(evening: Evening) -> None:
    """Nothing is painted meanwhile: requests wait, are listed, and are cancelled in every way."""
    mina, ravi = evening.mina, evening.ravi
    first = [await ravi.use("imagine", prompt=f"wish {number}") for number in range(4)]
    messages = [await ravi.answer(interaction) for interaction in first]
    assert "wish 3" in text_of(await evening.yuna.answer(await evening.yuna.use("queue")))
    assert "wish 3" not in text_of(
        await evening.omar.answer(await evening.omar.use("queue", channel="dm"), channel="dm")
    )
    page = await ravi.answer(await ravi.use("cancel"))
    await ravi.press(page, "cancel_all")
    await ravi.sees(page, lambda said: said == "Cancelled 4 requests.")
    for message in messages:
        await ravi.sees(message, lambda said: "Press Again" in said)
    wishes = [await ravi.use("imagine", prompt=f"hope {number}", private=number == 3) for number in range(4)]
    messages = [await ravi.answer(interaction) for interaction in wishes]
    suggested = await ravi.suggested("cancel", "job", "hope 0")
    assert "hope 0" in text_of(await ravi.answer(await ravi.use("cancel", job=suggested[0])))
    await ravi.press(messages[1], "cancel")
    await ravi.sees(messages[1], lambda said: "Press Again" in said)
    page = await ravi.answer(await ravi.use("cancel"))
    await ravi.choose(page, "cancel_mine", "hope 2")
    await ravi.sees(page, lambda said: said == "Cancelled: hope 2")
    page = await mina.answer(await mina.use("cancel"))
    await mina.choose(page, "cancel_others", "private")
    await mina.sees(page, lambda said: said == "Cancelled: private")
    assert await evening.served.store.jobs.active() == []


async def keep_order(evening: Evening) -> None:
    """Mina sets a rule, blocks Ravi, pauses the channel, deletes what Ravi asked for, and reads the log."""
    mina, ravi, member = evening.mina, evening.ravi, str(PEOPLE[1].id)
    page = await mina.press(await mina.answer(await mina.use("help")), "help:moderators")
    assert "/moderate" in text_of(await mina.answer(page))
    assert "/moderate" in text_of(await mina.answer(await mina.use("help", topic="moderators")))
    opened = await mina.use("rules add", name="No fog", action="refuse", scope="channel")
    await mina.answer(await mina.fill(opened, name="No fog", terms="fog", also=""))
    refused = await ravi.answer(await ravi.use("imagine", prompt="f.o.g at sea"))
    assert "No fog" in text_of(refused)
    again = await ravi.fill(await ravi.press(refused, "retry"), prompt="more fog")
    assert "No fog" in text_of(await ravi.answer(again))
    assert "fog" in text_of(await mina.answer(await mina.use("rules try", prompt="fog")))
    assert "No fog" in text_of(await mina.answer(await mina.use("rules show")))
    assert "fog" in text_of(await mina.answer(await mina.use("rules show", name="No fog")))
    for name in ("add", "show", "remove"):
        assert await mina.suggested(f"rules {name}", "name", "no") == ["No fog"]
    await mina.answer(await mina.use("rules remove", name="No fog"))
    await set_policies(evening)
    for use in ("off", "on"):
        assert "AutoMod" in text_of(await mina.answer(await mina.use("rules automod", use=use)))
    for hours in range(1, 7):  # more acts than a page of the log has
        await mina.answer(await mina.use("moderate block", member=member, hours=hours, reason="a test"))
        assert "a test" in text_of(await mina.answer(await mina.use("moderate show")))
        await mina.answer(await mina.use("moderate unblock", member=member, reason="it is over"))
    await mina.answer(await mina.use("moderate pause", where="channel", word="back at eight"))
    waiting = await ravi.answer(await ravi.use("imagine", prompt="a slow boat"))
    await ravi.sees(waiting, lambda said: "back at eight" in said)
    await mina.answer(await mina.use("moderate resume", where="channel"))
    cleared = await mina.fill(await mina.use("moderate clear", member=member, hours=2))
    await mina.answer(cleared, has=lambda seen: "deleted." in text_of(seen) and "being" not in text_of(seen))
    await ravi.misses(waiting)
    log = await mina.answer(await mina.use("audit", member=member))
    first = text_of(log)
    await mina.press(log, "audit", kind="older")
    older = await mina.sees(log, lambda said: said != first)
    await mina.press(older, "audit", kind="newer")
    newest = await mina.sees(older, lambda said: said == first)
    exported = await mina.press(newest, "audit", kind="export")
    await mina.answer(exported, has=shows_result)
    assert text_of(await mina.answer(await mina.use("audit", act="block")))


async def set_policies(evening: Evening) -> None:
    """Mina sets policies of the channel, a role and the server, and looks; Ravi reads his limits."""
    mina, ravi, role = evening.mina, evening.ravi, str(MODERATORS_ID)
    opened = await mina.use("policy set", what="quotas", where="channel")
    await mina.answer(await mina.fill(opened, pictures_per_day="100", cool_down="0"))
    opened = await mina.use("policy set", what="pictures", role=role)
    await mina.answer(await mina.fill(opened, steps="4", loras="*"))
    for what in ("who", "more"):
        await mina.answer(await mina.fill(await mina.use("policy set", what=what)))
    assert "100" in text_of(await mina.answer(await mina.use("policy show")))
    assert "100" in text_of(await mina.answer(await mina.use("policy why", member=str(PEOPLE[1].id))))
    assert "100" in text_of(await ravi.answer(await ravi.use("limits")))
    await mina.answer(await mina.use("policy reset", role=role))
    await mina.answer(await mina.use("policy reset", where="channel"))


async def tidy_up(evening: Evening) -> None:
    """Mina removes the server's style and list, and Wei all data that is kept about Wei."""
    mina, wei = evening.mina, evening.wei
    for command, name in (("style", "Ink"), ("wildcard", "shape")):
        assert await mina.suggested(f"{command} remove", "name", name[:2]) == [name]
        assert await mina.suggested(f"{command} add", "name", name[:2]) == [name]
        assert name in text_of(await mina.answer(await mina.use(f"{command} remove", name=name)))
    assert await mina.suggested("wildcard show", "name", "") == []
    page = await wei.answer(await wei.use("privacy"))
    await wei.answer(await wei.press(page, "privacy", kind="export"), has=shows_result)
    await wei.press(page, "privacy", kind="ask")
    sure = await wei.sees(page, lambda said: "无法撤销" in said)
    await wei.press(sure, "privacy", kind="forget")
    await wei.sees(sure, lambda said: "已删除" in said)
    assert await evening.served.store.erasure.job_ids_of(user_id=WEI, limit=1) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_an_evening_uses_everything_and_breaks_no_rule_of_discords(
    evening: Evening, monkeypatch: pytest.MonkeyPatch
) -> None:
    await read_and_set_up(evening)
    async with evening.painting():
        grid = await paint_and_pick(evening)
        await paint_otherwise(evening)
        await use_menus(evening, grid, monkeypatch)
        await look_back(evening, grid)
        await review_everything(evening.guests, evening.served.store)
        await hold_session(evening.mina, evening.yuna, evening.wei)
    await wait_and_cancel(evening)
    await know_pictures(evening.guests, grid)
    await keep_order(evening)
    await tidy_up(evening)

    seen = [message for guest in evening.guests.values() for message in guest.seen()]
    assert [text_of(message) for message in seen if not is_within_limits(message)] == []
    for guest in evening.guests.values():
        assert len(guest.labels()) > 5
        assert guest.foreign_labels() <= MENUS
    evening.used.offered |= {name for message in seen for name in offered_in(message)}
    assert unused(evening.used, evening.served.bot.tree.get_commands()) == []


def png(mode: str, colour: str) -> bytes:
    """A plain picture as a file."""
    file = io.BytesIO()
    PIL.Image.new(mode, (64, 64), colour).save(file, "PNG")
    return file.getvalue()


async def stars(store: Store, user_id: int) -> bool:
    return await store.favourites.of(user_id) != []
