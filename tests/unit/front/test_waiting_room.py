"""How many requests with files may wait: in all, from one server, from one person."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from bot.domain.errors import UserMistake
from bot.front.uploads.attachments import WaitingRoom
from bot.moderation.limits import Sender


async def admitted(room: WaitingRoom, senders: list[Sender]) -> int:
    """Let the senders ask for a turn at once; returns how many were not refused."""
    asked, leave = 0, asyncio.Event()

    async def stay(sender: Sender) -> None:
        nonlocal asked
        asked += 1
        if asked == len(senders):
            leave.set()
        async with room.turn(sender):
            await leave.wait()

    ends = await asyncio.gather(*map(stay, senders), return_exceptions=True)
    refused = [end for end in ends if end is not None]
    assert {str(end) for end in refused} <= {"files_busy"}
    return len(senders) - len(refused)


def strangers(count: int, *, guild_id: int | None) -> list[Sender]:
    return [Sender(user_id=number, guild_id=guild_id) for number in range(1, count + 1)]


@pytest.mark.parametrize(("places", "of_server"), [(1, 1), (2, 1), (3, 1), (5, 2), (16, 8)])
async def test_a_server_has_half_of_the_places_and_at_least_one(places: int, of_server: int) -> None:
    assert await admitted(WaitingRoom(places=places), strangers(20, guild_id=4)) == of_server


@pytest.mark.parametrize(("places", "of_person"), [(1, 1), (8, 1), (15, 1), (16, 2), (40, 5)])
async def test_a_person_has_an_eighth_of_the_places_and_at_least_one(places: int, of_person: int) -> None:
    alone = [Sender(user_id=1, guild_id=None)] * 20
    assert await admitted(WaitingRoom(places=places), alone) == of_person


async def test_all_places_are_for_people_of_any_server_or_none() -> None:
    assert await admitted(WaitingRoom(places=8), strangers(20, guild_id=None)) == 8


async def test_a_place_is_free_again_after_its_turn() -> None:
    room, one = WaitingRoom(places=1), Sender(user_id=1, guild_id=4)
    for _ in range(3):
        async with room.turn(one):
            with pytest.raises(UserMistake, match="files_busy"):
                await AsyncExitStack().enter_async_context(room.turn(one))
