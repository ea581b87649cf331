"""A blocked person gets no picture in any way of asking, and one private sentence with the reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from front_tools import Message, ephemeral, finished, queued, refusal, text_of
from recipe_messages import FILES
from serving import Served, serving

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.component_rules import walk
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

MINA, RAVI, YUNA = PEOPLE[0].id, PEOPLE[1].id, PEOPLE[2].id
HERE = (
    "A moderator has blocked you from painting in this server. "  # where, then until when
    "The block has no end date: ask a moderator to remove it."
)
RECIPE, PAINT_FROM = "Use this recipe", "Paint from this picture"
MODERATOR = By(actor_id=MINA, guild_id=GUILD_ID, reason="spam")
OPERATOR = By(actor_id=0, guild_id=0)
WAYS = {
    "again": "again:{job}",
    "vary": "vary:{job}:0",
    "enlarge": "enlarge:{job}:0",
    "remix": "remix:{job}",
    "single": "single:{job}:0",
    "publish": "publish:{job}",
}
"""Every button that asks for a picture, by its id."""


async def block(store: Store, user_id: int = RAVI, *, until: float | None = None, by: By = MODERATOR) -> None:
    await store.moderation.block(Scope(guild_id=GUILD_ID, user_id=user_id), by, until=until)


async def press(served: Served, member: Member, message: Message, custom_id: str) -> str:
    """Press the first button of a message with another custom id, as a modified client does."""
    shown = served.sandbox._core.world.messages[int(message["id"])]
    button = next(each for _, each in walk(shown.components) if each.get("custom_id"))
    button["custom_id"] = custom_id
    (forged,) = [one for one in await member.messages() if one["id"] == message["id"]]
    return await member.press(forged, custom_id)


def told_privately(message: Message) -> bool:
    return ephemeral(message) and bool(text_of(message))


async def near(member: Member, message: Message) -> str:
    """Choose a picture near the first from the menu More."""
    (menu,) = [each for _, each in walk(message["components"]) if each.get("placeholder") == "More"]
    return await member.press(message, "More", values=[menu["options"][0]["value"]])


async def test_a_blocked_member_is_refused_in_every_way_of_asking(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat", variants=2)
    remix_form = await ravi.modal_of(await ravi.press(message, "Remix"))
    many_form = await ravi.modal_of(await ravi.imagine(prompt="a {red, blue} boat"))
    said = await ravi.say("a kite\nSteps: 9, Seed: 5, Sampler: Euler", ("own.png", FILES["own.png"]))
    shown = await ravi.say("", ("own.png", FILES["own.png"]))
    recipe_form = await ravi.modal_of(await ravi.menu(said, RECIPE))
    start_form = await ravi.modal_of(await ravi.menu(said, PAINT_FROM))
    seen = {one["id"] for one in await omar.messages()}
    await block(served.store)
    asked: dict[str, Callable[[], Awaitable[str]]] = {
        "/imagine": lambda: ravi.imagine(prompt="a tree"),
        "/imagine privately": lambda: ravi.imagine(prompt="a tree", private=True),
        "/imagine with a picture": lambda: ravi.imagine(prompt="a tree", image=b"no picture"),
        "/imagine with alternatives": lambda: ravi.imagine(prompt="a {red, blue} boat"),
        "a little varied": lambda: near(ravi, message),
        "the form of Remix": lambda: ravi.submit(remix_form, prompt="a tree"),
        "the form of alternatives": lambda: ravi.submit(many_form, prompt="a {red, blue} tree"),
        "the recipe in a text": lambda: ravi.menu(said, RECIPE),
        "the recipe in a file": lambda: ravi.menu(shown, RECIPE),
        "the recipe of a result": lambda: ravi.menu(message, RECIPE),
        "another's picture": lambda: ravi.menu(said, PAINT_FROM),
        "a picture of a result": lambda: ravi.menu(message, PAINT_FROM),
        "the form of a recipe": lambda: ravi.submit(recipe_form),
        "the form of a picture": lambda: ravi.submit(start_form, prompt="a tree"),
    }
    told = {way: await refusal(ravi, await ask()) for way, ask in asked.items()}
    for way, custom_id in WAYS.items():
        pressed = await press(served, ravi, message, custom_id.format(job=job.id))
        told[way] = await refusal(ravi, pressed)
    refused = dict.fromkeys(told, f"{HERE} The reason: spam")
    refused["/imagine with a picture"] += "\nThe picture is not kept: send it again with /imagine."
    assert told == refused
    assert await served.store.erasure.job_ids_of(user_id=RAVI, limit=99) == [job.id]
    assert {one["id"] for one in await omar.messages()} == seen
    assert "Queued" in text_of(await queued(omar, "a tree"))


async def test_a_block_shows_its_end_in_the_persons_language(served: Served, yuna: Member) -> None:
    await block(served.store, YUNA, until=4_000_000_000.0)
    told = await refusal(yuna, await yuna.imagine(prompt="a boat"))
    assert told == "운영자가 이 서버에서 회원님의 그리기를 차단했습니다. 해제: <t:4000000000:R>. 이유: spam"


async def test_a_block_ends_by_itself_and_by_a_moderator(served: Served, ravi: Member) -> None:
    await block(served.store, until=1.0)
    await queued(ravi, "a boat")
    await block(served.store)
    assert (await refusal(ravi, await ravi.imagine(prompt="a tree"))).startswith(HERE)
    await served.store.moderation.unblock(Scope(guild_id=GUILD_ID, user_id=RAVI), MODERATOR)
    await queued(ravi, "a tree")


async def test_a_block_in_one_server_applies_only_there(served: Served, ravi: Member) -> None:
    await served.store.moderation.block(Scope(guild_id=GUILD_ID + 77, user_id=RAVI), MODERATOR)
    await queued(ravi, "a boat")
    await block(served.store)
    await ravi.message_of(await ravi.imagine(prompt="a tree", channel="dm"), channel="dm")


async def test_the_operator_blocks_everywhere(served: Served, ravi: Member, omar: Member) -> None:
    await served.store.moderation.block(Scope(user_id=RAVI), OPERATOR)
    for channel in ("art", "dm"):
        interaction = await ravi.imagine(prompt="a boat", channel=channel)
        told = await ravi.message_of(
            interaction, lambda one: bool(text_of(one)) and ephemeral(one), channel=channel
        )
        assert text_of(told) == "The bot's owner has blocked you from painting."
    await queued(omar, "a tree")
    await served.store.moderation.block(Scope(guild_id=GUILD_ID), OPERATOR)
    told = await refusal(omar, await omar.imagine(prompt="a boat"))
    assert told == "The bot's owner has blocked this server from painting."
    await omar.message_of(await omar.imagine(prompt="a tree", channel="dm"), channel="dm")


async def test_a_blocked_person_cannot_ask_without_end(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, ravi: Member
) -> None:
    limits = {"requests_per_minute": 2, "files_per_minute": 0}
    async with serving(sandbox, store, artifacts, Config.parse({"limits": limits})):
        await block(store)
        told = [await refusal(ravi, await ravi.imagine(prompt="a boat")) for _ in range(3)]
    assert [each.startswith(HERE) for each in told] == [True, True, False]
    assert told[2].startswith("You are going too fast")


async def test_a_blocked_member_can_still_see_cancel_and_delete_their_own_requests(
    served: Served, ravi: Member
) -> None:
    waiting = await queued(ravi, "a boat")
    await block(served.store)
    for command in ("queue", "history", "privacy", "help", "stats"):
        assert text_of(await ravi.message_of(await ravi.use(command)))
    await ravi.press(waiting, "Cancel")
    await ravi.wait_for_message(lambda message: "Cancelled. Press Again" in text_of(message))
