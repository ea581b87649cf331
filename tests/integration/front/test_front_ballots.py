"""Ballots that change while people vote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from front_tools import Message, delete, give_role, text_of
from serving import DEADLINE, Served
from test_front_sessions import OMAR, RAVI, by_mina, opens, paints, shows, told, unpacked

from bot.domain.holds import Cause, Hold, Outcome
from bot.sandbox.client import Member
from bot.sandbox.objects import IS_SPOILER
from bot.sandbox.permissions import Permission
from bot.store.rows.sessions import Phase


async def voted_on(served: Served, host: Member, *painters: tuple[Member, str]) -> tuple[str, Message]:
    """Open a session in which these people have painted, and end its round; return its place and ballot."""
    place = await opens(host, theme="boats", voting=10)
    for painter, prompt in painters:
        await paints(served, painter, prompt, place)
    await told(host, await host.use("session next", channel=place), place)
    return place, await shows(host, place, "Pictures of round 1", "The vote ends <t:")


async def edited(member: Member, ballot: Message, place: str, has: Callable[[str], bool]) -> Message:
    """Wait until the ballot says what is wanted."""
    return await member.wait_for_message(
        lambda seen: seen["id"] == ballot["id"] and has(text_of(seen)), channel=place
    )


async def test_a_ballot_says_the_new_end_of_the_vote_and_that_the_vote_stands_still(
    served: Served, mina: Member, ravi: Member
) -> None:
    place, ballot = await voted_on(served, mina, (ravi, "a boat"))
    await mina.use("session pause", channel=place)
    await edited(ravi, ballot, place, lambda said: "paused" in said and "ends <t:" not in said)
    await mina.use("session extend", minutes=60, channel=place)
    await edited(ravi, ballot, place, lambda said: "Time left: 70 min" in said)
    await mina.use("session resume", channel=place)
    running = await edited(ravi, ballot, place, lambda said: "The vote ends <t:" in said)
    assert ends(running) > ends(ballot) + 3000
    await mina.use("session extend", minutes=60, channel=place)
    await edited(ravi, ballot, place, lambda said: end_of(said) > ends(running) + 3000)


async def test_members_who_vote_and_hosts_who_go_on_at_the_same_moment_count_once(
    served: Served,
    mina: Member,
    ravi: Member,
    omar: Member,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The two commands of one moment may be read seconds apart on a busy machine.
    monkeypatch.setattr("bot.store.sessions.sessions.AT_ONCE_SECONDS", DEADLINE)
    place, ballot = await voted_on(served, mina, (ravi, "a boat"), (omar, "a tree"))
    give_role(served.sandbox, OMAR, Permission.MANAGE_MESSAGES | Permission.MANAGE_EVENTS)
    pressed = [(mina, "1"), (mina, "2"), (ravi, "2"), (ravi, "2"), (omar, "1")]
    votes = await asyncio.gather(*(member.press(ballot, number) for member, number in pressed))
    for (member, number), vote in zip(pressed, votes, strict=True):
        assert f"no. {number}" in await told(member, vote, place)
    session = await served.store.sessions.here(int(place))
    assert session is not None
    assert await served.store.showing.voters(session.id, 1) == 3
    hosts = (mina, omar)
    ends = await asyncio.gather(*(host.use("session next", channel=place) for host in hosts))
    said = [await told(host, end, place) for host, end in zip(hosts, ends, strict=True)]
    assert sum("Somebody else has just gone on" in each for each in said) == 1
    assert (await served.store.sessions.get(session.id)).phase is Phase.RESTING


async def test_a_picture_that_is_deleted_during_the_vote_leaves_the_ballot_and_frees_its_votes(
    served: Served, mina: Member, ravi: Member, omar: Member
) -> None:
    place, ballot = await voted_on(served, mina, (ravi, "a boat"), (omar, "a tree"))
    board = await shows(mina, place, "Group session: boats")
    assert "no. 1" in await told(mina, await mina.press(ballot, "1"), place)
    boat = await ravi.wait_for_message(
        lambda seen: "delete:" in str(seen["components"]) and "a boat" in text_of(seen), channel=place
    )
    await delete(ravi, boat)
    redrawn = await edited(mina, ballot, place, lambda said: "**1** · no longer shown" in said)
    assert "a boat" not in text_of(redrawn)
    assert "Ravi" not in text_of(redrawn)
    ((drawn, again),) = zip(ballot["attachments"], redrawn["attachments"], strict=True)
    assert again["id"] != drawn["id"]
    mine = await told(mina, await mina.press(board, "My pictures"), place)
    assert "The picture you voted for, no. 1, is no longer shown: vote for another." in mine
    assert "no. 2" in await told(mina, await mina.press(redrawn, "2"), place)
    await mina.use("session next", channel=place)
    await shows(mina, place, "Results of round 1", f"no. 2 of <@{OMAR}>", "1 vote")
    archive = await mina.wait_for_message(
        lambda seen: any(each["filename"].endswith(".zip") for each in seen["attachments"]), channel=place
    )
    described, names = unpacked(await mina.attachment_bytes(archive))
    assert [picture["name"] for picture in described["pictures"]] == ["Omar"]
    assert names == {"session.json", "round-1/2-Omar.png"}


async def test_a_picture_that_is_covered_during_the_vote_covers_the_file_of_its_ballot(
    served: Served, mina: Member, ravi: Member, omar: Member
) -> None:
    place, ballot = await voted_on(served, mina, (ravi, "a boat"), (omar, "a tree"))
    assert [file.get("flags") for file in ballot["attachments"]] == [None]
    (job,) = await served.store.jobs.history(RAVI, limit=1)
    guild_id = job.origin.guild_id or 0
    await served.store.reviews.hold(job.id, Hold(cause=Cause.REPORTS), by_mina(guild_id))
    (review,) = await served.store.reviews.waiting(guild_id, limit=9)
    await served.store.reviews.decide(review.id, Outcome.SPOILER, by_mina(guild_id))
    covered = await omar.wait_for_message(
        lambda seen: seen["id"] == ballot["id"] and bool(seen["attachments"][0].get("flags")), channel=place
    )
    assert [file.get("flags") for file in covered["attachments"]] == [IS_SPOILER]


async def test_the_menus_of_a_ballot_name_the_message_of_the_picture(
    served: Served, mina: Member, ravi: Member, omar: Member
) -> None:
    place, ballot = await voted_on(served, mina, (ravi, "a boat"))
    assert "no. 1" in await told(omar, await omar.press(ballot, "1"), place)
    await mina.use("session next", channel=place)
    results = await shows(omar, place, "Results of round 1", f"no. 1 of <@{RAVI}>")
    for message in (ballot, results):
        for menu in ("Report this picture", "Use this recipe"):
            assert "the picture's own message" in await told(omar, await omar.menu(message, menu), place)


def ends(ballot: Message) -> int:
    return end_of(text_of(ballot))


def end_of(said: str) -> int:
    """When the vote ends, by what a ballot says."""
    return int(said.partition("The vote ends <t:")[2].partition(":")[0])
