"""The part of the tour in which guests hold a group session."""

from __future__ import annotations

from collections.abc import Callable

from tour import PATIENCE, Guest, Message, text_of

from bot.sandbox.community import CHANNELS, GUILD_ID

OPEN = {"where": "here", "role": str(GUILD_ID), "voting": 5, "hours": 2, "review": False}


async def hold_session(host: Guest, painter: Guest, other: Guest) -> None:
    """One opens a session and leads it; the others paint and vote, in languages of their own."""
    either = await host.use("session open", where="here", channel_=str(CHANNELS[0].id))
    assert "leave out one option" in text_of(await host.answer(either))
    form = await host.use("session open", **OPEN)
    filled = await host.fill(form, theme="red", required="a", minutes="10", quota="2", style="")
    assert "<#" in text_of(await host.answer(filled))
    board = await found(host, lambda said: "Group session: red" in said and "Round 1" in said)
    for guest, prompt in ((painter, "a circle"), (other, "a star")):
        await guest.result(await guest.use("imagine", prompt=prompt, size="64x64", steps=2))
    assert text_of(await painter.answer(await painter.press(board, "group")))
    for command, options in (("pause", {}), ("extend", {"minutes": 5}), ("resume", {}), ("host", {})):
        assert text_of(await host.answer(await host.use(f"session {command}", **options)))
    assert "a circle" not in text_of(await host.answer(await host.use("session show")))
    await host.answer(await host.use("session next"))
    ballot = await found(host, lambda said: "Pictures of round 1" in said)
    assert text_of(await painter.answer(await painter.press(ballot, "vote", index=1)))
    assert text_of(await other.answer(await other.press(ballot, "vote")))
    await host.answer(await host.use("session close"))
    await found(host, lambda said: "Results of round 1" in said and "a tie" in said)
    await found(host, lambda said: "The archive has 2 pictures" in said)
    await host.sees(board, lambda said: "the session has ended" in said)


async def found(guest: Guest, has: Callable[[str], bool]) -> Message:
    """Return the message of the session that says what is wanted."""
    return await guest.member.wait_for_message(lambda seen: has(text_of(seen)), timeout=PATIENCE)
