"""Group sessions as hosts and members see them, with restarts in the middle."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from front_tools import Message, ephemeral, fields, give_role, offer_to_all, refusal, refused_form, text_of
from sandbox_tools import ART, CHANNEL_IDS
from serving import Served, serving, until

from bot.config import Config
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member, RefusedByClient
from bot.sandbox.community import GUILD_ID, MODERATORS_ID, PEOPLE
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope
from bot.store.rows.sessions import Phase
from bot.store.tables.sessions import sessions

OPTIONS = ("where", "role", "voting", "hours", "review", "channel_")
RAVI, YUNA, OMAR = (person.id for person in PEOPLE[1:4])


async def opens(host: Member, *, from_: str | None = None, **filled: Any) -> str:
    """Open a session from the channel `from_`, and return the session's channel."""
    options = {name: filled.pop(name) for name in OPTIONS if name in filled}
    form = await host.modal_of(await host.use("session open", channel=from_, **options))
    submitted = await host.submit(form, **{"minutes": "", "quota": "2", **filled})
    answer = await host.message_of(submitted, channel=from_)
    found = re.search(r"<#(\d+)>", text_of(answer))
    assert found, text_of(answer)
    return found[1]


async def shows(member: Member, channel: str, *words: str) -> Message:
    """Wait for a message of the session that has these words, in any member's view."""
    return await member.wait_for_message(
        lambda seen: not ephemeral(seen) and all(word in text_of(seen) for word in words), channel=channel
    )


async def told(member: Member, interaction: str, channel: str) -> str:
    return text_of(await member.message_of(interaction, channel=channel))


async def paints(served: Served, member: Member, prompt: str, channel: str, **options: Any) -> None:
    await member.message_of(await member.imagine(prompt=prompt, channel=channel, **options), channel=channel)
    while await served.store.jobs.active():
        await served.paint_one()


@pytest.fixture
def restarted(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, discord_address: object
) -> Callable[[], Any]:
    """Starts the bot; each time it knows only what is stored."""

    @asynccontextmanager
    async def start() -> AsyncIterator[Served]:
        async with serving(sandbox, store, artifacts, Config()) as served:
            yield served

    return start


async def test_two_rounds_with_votes_and_restarts_in_a_round_and_in_a_vote(
    restarted: Callable[[], Any], store: Store, mina: Member, ravi: Member, *, yuna: Member, omar: Member
) -> None:
    async with restarted() as served:
        place = await opens(mina, theme="at night", required="a")
        board = await shows(ravi, place, "Group session: at night", "Round 1", "everyone is painting")
        await paints(served, ravi, "a boat", place)
        over = await ravi.imagine(prompt="a boat", variants=2, channel=place)
        said = await ravi.wait_for_message(
            lambda seen: ephemeral(seen) and "you have 1 left" in text_of(seen), channel=place
        )
        assert over
        assert "2 pictures" in text_of(said)
    async with restarted() as served:
        await paints(served, yuna, "a tree", place)
        await shows(ravi, place, "Group session", f"<@{RAVI}> 1/2", f"<@{YUNA}> 1/2")
        assert [job.recipe.prompt for job in await store.jobs.history(RAVI, limit=9)] == ["a boat, at night"]
        assert ("everyone is voting") not in await told(
            mina, await mina.use("session next", channel=place), place
        )
        ballot = await shows(omar, place, "Pictures of round 1", "a tree")
        own = await ravi.press(ballot, "1")
        assert "your own" in await told(ravi, own, place)
        assert "no. 2" in await told(ravi, await ravi.press(ballot, "2"), place)
        assert "no. 1" in await told(omar, await omar.press(ballot, "1"), place)
    async with restarted() as served:
        assert "now" in await told(omar, await omar.press(ballot, "2"), place)
        late = await yuna.imagine(prompt="late", channel=place)
        await yuna.wait_for_message(lambda seen: ephemeral(seen) and "라운드" in text_of(seen), channel=place)
        assert late
        await mina.use("session next", channel=place)
        results = await shows(omar, place, "Results of round 1", f"no. 2 of <@{YUNA}>", "2 votes")
        assert len(results["attachments"]) == 1
        closed = await omar.wait_for_message(
            lambda seen: seen["id"] == ballot["id"] and "vote:" not in str(seen["components"]), channel=place
        )
        assert ["Vote for the picture" in text_of(seen) for seen in (ballot, closed)] == [True, False]
        ((drawn, again),) = zip(ballot["attachments"], closed["attachments"], strict=True)
        assert again["filename"] == drawn["filename"]
        assert again["id"] != drawn["id"], "a picture that was withheld meanwhile is in the first file"
        archive = await mina.wait_for_message(
            lambda seen: any(each["filename"].endswith(".zip") for each in seen["attachments"]), channel=place
        )
        described, names = unpacked(await mina.attachment_bytes(archive))
        assert [picture["votes"] for picture in described["pictures"]] == [0, 2]
        assert names == {"session.json", "round-1/1-Ravi.png", "round-1/2-Yuna.png"}
        await mina.use("session next", channel=place)
        await shows(ravi, place, "Group session", "Round 2", "everyone is painting")
        await paints(served, omar, "a house", place)
        mine = await told(omar, await omar.press(board, "My pictures"), place)
        assert "Round 2 · everyone is painting\nPictures left for you in this round: 1 of 2." in mine
        await mina.use("session close", channel=place)
        whole = await shows(omar, place, "Round 2", "a house", "Round 1", "a boat")
        assert whole["attachments"][0]["filename"].endswith("0-1.jpg")
        last = await shows(omar, place, "Group session", "the session has ended")
        assert last["id"] == board["id"]
        await until(lambda: settled(store))
    boards = [one for one in await omar.messages(place) if "Host:" in text_of(one)]
    assert len(boards) == 1
    await paints_plainly(restarted, ravi, place, store)


async def settled(store: Store) -> bool:
    """Whether nothing is left to show of any session."""
    async with store.shared.database.read() as connection:
        return not await connection.scalar(sa.select(sa.exists().where(~sessions.c.settled)))


async def paints_plainly(restarted: Callable[[], Any], ravi: Member, place: str, store: Store) -> None:
    async with restarted() as served:
        await paints(served, ravi, "as ever", place)
    assert (await store.jobs.history(RAVI, limit=1))[0].recipe.prompt == "as ever"


def unpacked(data: bytes) -> tuple[dict[str, Any], set[str]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read("session.json")), set(archive.namelist())


async def test_a_session_is_led_here_and_taken_over_when_its_host_has_left(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, *, mina: Member, ravi: Member, omar: Member
) -> None:
    give_role(sandbox, OMAR, Permission.MANAGE_EVENTS)
    async with serving(sandbox, store, artifacts, Config()) as served:
        with pytest.raises(RefusedByClient):
            await ravi.use("session open")
        assert await opens(omar, where="here", minutes="10", role=str(MODERATORS_ID)) == ART
        await shows(ravi, "art", f"Host: <@{OMAR}>", "The round ends <t:")
        assert "Moderators" in await refusal(ravi, await ravi.imagine(prompt="a boat"))
        await omar.use("session pause")
        await shows(ravi, "art", "paused", "Time left: 10 min")
        assert "paused" in await refusal(mina, await mina.imagine(prompt="a boat"))
        for command in ("next", "pause"):
            answer = await told(omar, await omar.use(f"session {command}"), "art")
            assert "type /session resume to resume it" in answer
        assert "by 5 minutes" in await told(omar, await omar.use("session extend", minutes=5), "art")
        assert "has resumed" in await told(omar, await omar.use("session resume"), "art")
        assert "not paused" in await told(omar, await omar.use("session resume"), "art")
        board = await shows(ravi, "art", "Host:", "The round ends <t:")
        (session,) = await store.showing.keep(served.bot.services.front, ttl=30.0)
        blocked = Scope(user_id=OMAR, guild_id=session.guild_id)
        await store.moderation.block(blocked, by_mina(session.guild_id))
        assert "blocked" in await told(omar, await omar.use("session pause"), "art")
        form = await omar.modal_of(await omar.use("session open"))
        answer = await omar.submit(form, minutes="", quota="2")
        assert "blocked" in text_of(await omar.message_of(answer))
        await store.moderation.unblock(blocked, by_mina(session.guild_id))
        sandbox._core.world.members[OMAR].roles = ()  # the host is no host any more
        offer_to_all(sandbox)
        assert "host" in await told(mina, await mina.use("session host"), "art")
        await shows(ravi, "art", f"Host: <@{PEOPLE[0].id}>")
        for command in ("next", "close", "host"):
            answer = await told(ravi, await ravi.use(f"session {command}"), "art")
            assert "moderator" in answer or "manage messages" in answer
        await mina._post("delete", message=board["id"])
        await mina.use("session pause")
        again = await ravi.wait_for_message(
            lambda seen: "Host:" in text_of(seen) and seen["id"] != board["id"]
        )
        assert "has resumed" in await told(mina, await mina.use("session resume"), "art")
        assert "Round 1" in text_of(await mina.message_of(await mina.use("session show")))
        private = await refusal(mina, await mina.imagine(prompt="a boat", private=True))
        assert "everyone sees" in private
        await mina.use("session close")
        await ravi.wait_for_message(lambda seen: seen["id"] == again["id"] and "has ended" in text_of(seen))
        await shows(ravi, "art", "Nobody has painted in this round.")
        assert "no group session" in await told(mina, await mina.use("session show"), "art")
        page = text_of(await mina.message_of(await mina.use("audit", act="session")))
        assert "opened a group session" in page
        assert "became the host" in page


async def test_rounds_pauses_and_the_end_are_announced_in_the_channel(
    served: Served, mina: Member, ravi: Member
) -> None:
    place = await opens(mina, voting=0)
    await paints(served, ravi, "a boat", place)
    for act, announced in {
        "next": "the host begins the next one",
        "next ": "Round 2 begins.",
        "pause": "The session is paused: its clock has stopped.",
        "resume": "The session has resumed.",
        "close": "The session has ended.",
    }.items():
        await mina.use(f"session {act.strip()}", channel=place)
        await shows(ravi, place, announced)


async def test_what_a_host_types_is_checked_and_given_back(served: Served, mina: Member) -> None:
    for filled, said in (
        ({"minutes": "ten"}, "not the length of a round"),
        ({"quota": "900"}, "not a number of pictures"),
        ({"style": "Nothing"}, "There is no style"),
        ({"theme": "nude child"}, "Sexual content with minors"),
    ):
        form = await mina.modal_of(await mina.use("session open", where="here"))
        typed = {"theme": "boats", "minutes": "", "quota": "2", **filled}
        answer = await mina.submit(form, **typed)
        assert said in await refusal(mina, answer)
        assert fields(await refused_form(mina, answer)).items() >= typed.items()
    assert await served.store.sessions.here(int(ART)) is None
    served.sandbox.forbid("art", Permission.CREATE_PUBLIC_THREADS)
    form = await mina.modal_of(await mina.use("session open"))
    answer = await mina.submit(form, theme="boats", minutes="", quota="2")
    assert "public threads" in text_of(await mina.message_of(answer))


async def test_a_reviewed_session_holds_its_pictures_and_counts_them(served: Served, mina: Member) -> None:
    await opens(mina, where="here", review=True, voting=0)
    await mina.message_of(await mina.imagine(prompt="a boat"))
    while await served.store.jobs.active():
        await served.paint_one()
    await mina.use("session next")
    await shows(mina, "art", "Pictures of round 1", "withheld or waits for moderators")
    session = await served.store.sessions.here(int(ART))
    assert session is not None
    assert session.phase is Phase.RESTING
    assert await served.store.showing.entries(session.id) == []


async def test_the_session_of_a_deleted_channel_is_given_up(served: Served, mina: Member) -> None:
    place = await opens(mina, theme="boats")
    await shows(mina, place, "Round 1")
    served.sandbox.delete_channel("boats")
    await mina.message_of(await mina.imagine(prompt="elsewhere"))
    session = await served.store.sessions.here(int(place))
    assert session is not None
    await served.store.sessions.pause(session.id, by_mina(session.guild_id))

    async def gone() -> bool:
        return await served.store.sessions.here(int(place)) is None

    await until(gone)


def by_mina(guild_id: int) -> By:
    return By(actor_id=PEOPLE[0].id, guild_id=guild_id)


async def test_a_session_is_a_post_in_a_forum_with_the_tag_that_it_wants(
    sandbox: Sandbox, served: Served, mina: Member, ravi: Member
) -> None:
    forum = sandbox.open_forum("gallery", "Painting", tag_required=True)
    with pytest.raises(RefusedByClient, match="posts of a forum"):
        await ravi.imagine(prompt="a boat", channel="gallery")
    post = await opens(mina, theme="at sea", channel_=str(forum))
    first, *_ = await ravi.messages(post)
    assert first["id"] == post
    assert f"<@{PEOPLE[0].id}> has opened a group session" in first["content"]
    await shows(ravi, post, "Group session: at sea", "Round 1")
    await paints(served, ravi, "a boat", post)
    await shows(ravi, post, f"<@{RAVI}> 1/2")
    await mina.use("session close", channel=post)
    await shows(ravi, post, "The archive has 1 picture")
    beside = await opens(mina, from_=post, theme="on land")
    assert [each["parent_id"] for each in await posts(mina, post, beside)] == [str(forum)] * 2


async def posts(member: Member, *channels: str) -> list[Any]:
    """The channels of these ids."""
    return [each for each in (await member.state())["channels"] if each["id"] in channels]


async def test_a_session_in_another_channel_needs_the_rights_of_the_person_and_of_the_bot(
    sandbox: Sandbox, served: Served, mina: Member, omar: Member
) -> None:
    give_role(sandbox, OMAR, Permission.MANAGE_EVENTS)
    general = CHANNEL_IDS["general"]
    forum = sandbox.open_forum("gallery")
    thread = await opens(omar, theme="boats", where="thread", channel_=general)
    assert [each["parent_id"] for each in await posts(mina, thread)] == [general]
    sandbox.shut_out("gallery", "omar")
    assert "not write in" in await tries(omar, forum)
    sandbox.forbid("gallery", Permission.SEND_MESSAGES)
    assert "create posts" in await tries(mina, forum)
    sandbox.forbid("gallery", Permission.SEND_MESSAGES_IN_THREADS)
    assert "needs the permissions" in await tries(mina, forum)
    asked = await mina.use("session open", where="here", channel_=str(forum))
    assert "leave out one option" in await refusal(mina, asked)


async def tries(host: Member, forum: int) -> str:
    """Try to open a session in a forum, and return what the person is told."""
    form = await host.modal_of(await host.use("session open", channel_=str(forum)))
    return await refusal(host, await host.submit(form, minutes="", quota="2"))


async def test_a_session_that_opens_before_a_request_is_stored_takes_it(
    served: Served, mina: Member, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_job = served.store.jobs.enqueue

    async def opens_first(*asked: Any, **how: Any) -> Any:
        monkeypatch.setattr(served.store.jobs, "enqueue", store_job)
        await opens(mina, where="here", theme="at night")
        return await store_job(*asked, **how)

    monkeypatch.setattr(served.store.jobs, "enqueue", opens_first)
    await ravi.message_of(await ravi.imagine(prompt="a boat"))
    (job,) = await served.store.jobs.active()
    assert job.recipe.prompt == "a boat, at night"
    await shows(ravi, "art", f"<@{RAVI}> 1/2")


async def test_a_session_speaks_the_language_of_the_place(served: Served, mina: Member) -> None:
    by = By(actor_id=PEOPLE[0].id, guild_id=GUILD_ID)
    await served.store.policies.put(PolicyScope.SERVER, GUILD_ID, {"language": "ko"}, by)
    channel = await opens(mina, theme="at night")
    await shows(mina, channel, "1라운드")
