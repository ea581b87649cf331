"""Favourites: marked in the menu or by a star reaction, listed by /history."""

from __future__ import annotations

from front_tools import ephemeral, finished, refusal, text_of
from serving import Served, until

from bot.domain.holds import Cause, Hold
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.store.rows.audit import By

STAR, THUMB = "⭐", "👍"
RAVI, OMAR = PEOPLE[1].id, PEOPLE[3].id


async def starred(member: Member) -> str:
    return text_of(await member.message_of(await member.use("history", favourites=True)))


async def test_the_menu_adds_and_removes_a_favourite(served: Served, ravi: Member, omar: Member) -> None:
    _, message = await finished(served, ravi, "a boat")
    await finished(served, ravi, "a house")
    assert "You have no favourites yet" in await starred(omar)
    told = await refusal(omar, await omar.press(message, "More", values=["star"]))
    assert told == "Added to your favourites: `/history favourites:True` shows them."
    seen = await omar.message_of(await omar.use("history", favourites=True))
    assert ephemeral(seen)
    assert "a boat" in text_of(seen)
    assert "a house" not in text_of(seen)
    assert [file["filename"] for file in seen["attachments"]] == ["history.jpg"]
    assert "You have no favourites yet" in await starred(ravi)
    told = await refusal(omar, await omar.press(message, "More", values=["star"]))
    assert told == "Removed from your favourites."
    assert await served.store.favourites.of(OMAR) == []


async def test_a_star_reaction_marks_a_result_until_it_is_removed(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    await omar.react(message, THUMB)
    await omar.react(message, STAR)

    async def has(*wanted: str) -> bool:
        return await served.store.favourites.of(OMAR) == list(wanted)

    await until(lambda: has(job.id))
    assert "a boat" in await starred(omar)
    await omar.react(message, STAR, on=False)
    await until(has)
    assert await served.store.favourites.of(RAVI) == []


async def test_words_that_a_rule_holds_are_nobody_elses_favourite_or_recipe(
    served: Served, ravi: Member, omar: Member
) -> None:
    job, message = await finished(served, ravi, "a boat")
    by = By(actor_id=1, guild_id=GUILD_ID)
    await served.store.reviews.hold(job.id, Hold(cause=Cause.RULE, rule="boats"), by)
    await omar.react(message, STAR)
    await ravi.react(message, STAR)

    async def is_ravis() -> bool:
        return await served.store.favourites.of(RAVI) == [job.id]

    await until(is_ravis)
    assert await served.store.favourites.of(OMAR) == []
    assert "does not have this picture" in await refusal(omar, await omar.use("show", job=job.id))
    told = await refusal(omar, await omar.menu(message, "Use this recipe"))
    assert told.startswith("A rule of this server hides the words of this request")
