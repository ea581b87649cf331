"""The part of the tour in which moderators review, and members report and appeal."""

from __future__ import annotations

from results import shows_result
from tour import Guest, Message, custom_ids, matches, text_of

from bot.front.moderators import report
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.store import Store
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import By

BY = By(actor_id=PEOPLE[0].id, guild_id=GUILD_ID)


async def review_everything(guests: dict[str, Guest], store: Store) -> None:
    """Mina holds results, rejects one, and decides an appeal and a report; a worker must run meanwhile."""
    mina, ravi, yuna = guests["mina"], guests["ravi"], guests["yuna"]
    await mina.answer(await mina.use("review channel", use="here", channel="general"), channel="general")
    assert "5 hours" in text_of(await mina.answer(await mina.use("review limits", hours=5, reports=2)))
    await store.policies.put(PolicyScope.SERVER, GUILD_ID, {"review": True}, BY)
    held = await ravi.answer(await ravi.use("imagine", prompt="a held star"))
    review = await waiting(mina, "a held star")
    listed = await mina.answer(await mina.use("review show"))
    assert "held picture" in text_of(listed)
    case = await mina.answer(await mina.choose(listed, "reviewcase", ""))
    assert "a held star" in text_of(case)
    await mina.fill(await press(mina, review, "reject"), reason="a test")
    rejected = await ravi.sees(held, lambda said: "a test" in said)
    await ravi.fill(await ravi.press(rejected, "appeal"), words="a star is harmless")
    appeal = await waiting(mina, "a held star", "review:accept")
    assert "a star is harmless" in text_of(appeal)
    await press(mina, appeal, "accept")

    shown = await ravi.member.wait_for_message(
        lambda seen: seen["id"] == held["id"] and shows_result(seen), timeout=120.0
    )
    await store.policies.put(PolicyScope.SERVER, GUILD_ID, {"review": None}, BY)
    told = await yuna.fill(await yuna.menu(shown, report.NAME), reason="a test too")
    assert "운영자" in text_of(await yuna.answer(told))
    await press(mina, await waiting(mina, "a held star", "review:approve"), "approve")


async def waiting(guest: Guest, prompt: str, button: str = "review:") -> Message:
    """The moderators' message about a prompt."""
    return await guest.member.wait_for_message(
        lambda seen: prompt in text_of(seen) and any(each.startswith(button) for each in custom_ids(seen)),
        channel="general",
        timeout=120.0,
    )


async def press(guest: Guest, message: Message, act: str) -> str:
    """Press the button of one act."""
    mine = [each for each in custom_ids(message) if matches("review", each)]
    number = next(at for at, each in enumerate(mine) if each.split(":")[1] == act)
    return await guest.press(message, "review", index=number)
