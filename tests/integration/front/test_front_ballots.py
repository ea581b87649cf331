"""Ballots that change while people vote."""

from __future__ import annotations

from collections.abc import Callable

from front_tools import Message, text_of
from serving import Served
from test_front_sessions import opens, paints, shows, told

from bot.sandbox.client import Member


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


def ends(ballot: Message) -> int:
    return end_of(text_of(ballot))


def end_of(said: str) -> int:
    """When the vote ends, by what a ballot says."""
    return int(said.partition("The vote ends <t:")[2].partition(":")[0])
