"""Rate limits of persons and servers for requests and files."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from bot.domain.errors import UserMistake
from bot.front.uploads.attachments import WaitingRoom
from bot.moderation.limits import LEAST_ACTS, MOST_BUCKETS, Buckets, Pace, Rates, Sender


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def problem_of(pace: Pace, sender: Sender, *, files: int = 0) -> tuple[str, int] | None:
    try:
        pace.admit(sender, files=files)
    except UserMistake as error:
        return error.message_id, error.details["seconds"]
    return None


RAVI, OMAR, ELSEWHERE = (
    Sender(user_id=1, guild_id=10),
    Sender(user_id=2, guild_id=10),
    Sender(user_id=2, guild_id=20),
)


def test_a_minutes_requests_can_come_together_and_tokens_refill_evenly() -> None:
    clock = Clock()
    pace = Pace(Rates(requests=6), clock=clock)
    assert [problem_of(pace, RAVI) for _ in range(6)] == [None] * 6
    assert problem_of(pace, RAVI) == ("too_quick", 10)
    assert problem_of(pace, OMAR) is None
    clock.now += 9.5
    assert problem_of(pace, RAVI) == ("too_quick", 1)
    clock.now += 0.5
    assert problem_of(pace, RAVI) is None


def test_other_rates_hold_at_once_and_tokens_that_were_taken_stay_taken() -> None:
    pace = Pace(Rates(requests=6), clock=Clock())
    assert [problem_of(pace, RAVI) for _ in range(6)] == [None] * 6
    pace.change(Rates(requests=8))
    assert [problem_of(pace, RAVI) for _ in range(3)] == [None, None, ("too_quick", 8)]
    pace.change(Rates(requests=2))
    assert problem_of(pace, RAVI) is not None
    assert [problem_of(pace, OMAR) for _ in range(3)] == [None, None, ("too_quick", 30)]
    pace.change(Rates())
    assert problem_of(pace, RAVI) is None


def test_tokens_of_a_request_that_is_refused_for_another_reason_are_given_back() -> None:
    clock = Clock()
    pace = Pace(Rates(requests=1, server_requests=1, files=2, server_files=2), clock=clock)
    for _ in range(3):
        assert problem_of(pace, RAVI, files=2) is None
        pace.give_back(RAVI, files=2)
    assert problem_of(pace, OMAR, files=2) is None
    assert problem_of(pace, RAVI, files=2) == ("server_too_quick", 60)


def test_every_act_of_a_person_takes_a_token_also_where_requests_are_rare() -> None:
    clock = Clock()
    pace = Pace(Rates(requests=2), clock=clock)
    for _ in range(LEAST_ACTS):
        pace.act(RAVI)
    with pytest.raises(UserMistake) as caught:
        pace.act(RAVI)
    assert (caught.value.message_id, caught.value.details["seconds"]) == ("too_quick", 1)
    pace.act(OMAR)
    clock.now += 1
    pace.act(RAVI)
    pace.change(Rates(requests=0))
    for _ in range(2 * LEAST_ACTS):
        pace.act(RAVI)


def test_no_bucket_holds_more_than_a_minutes_tokens_however_many_are_given_back() -> None:
    pace = Pace(Rates(requests=2), clock=Clock())
    for _ in range(5):
        pace.give_back(RAVI)
    assert [problem_of(pace, RAVI) for _ in range(3)] == [None, None, ("too_quick", 30)]


def test_a_server_has_a_bucket_that_its_members_share() -> None:
    pace = Pace(Rates(server_requests=2), clock=Clock())
    assert [problem_of(pace, sender) for sender in (RAVI, OMAR)] == [None, None]
    assert problem_of(pace, OMAR) == ("server_too_quick", 30)
    assert problem_of(pace, ELSEWHERE) is None
    assert problem_of(pace, Sender(user_id=2, guild_id=None)) is None


def test_requests_with_files_have_buckets_of_their_own() -> None:
    clock = Clock()
    pace = Pace(Rates(files=6, server_files=20), clock=clock)
    assert problem_of(pace, RAVI, files=5) is None
    assert problem_of(pace, RAVI, files=2) == ("files_too_quick", 10)
    assert problem_of(pace, RAVI) is None
    assert problem_of(pace, OMAR, files=2) is None
    clock.now += 10
    assert problem_of(pace, RAVI, files=2) is None


def test_the_files_of_one_request_share_its_token_of_the_decoder() -> None:
    pace = Pace(Rates(files=6), clock=Clock())
    assert problem_of(pace, RAVI, files=1) is None
    pace.used_decoder(RAVI, 0.3)
    pace.used_decoder(RAVI, 0.2, before=0.3)
    assert problem_of(pace, RAVI, files=5) is None
    pace.used_decoder(RAVI, 0.5, before=0.5)
    assert problem_of(pace, RAVI, files=1) == ("files_too_quick", 20)


def test_a_file_that_takes_the_decoder_long_costs_its_person_and_server_more_tokens() -> None:
    pace = Pace(Rates(files=6, server_files=10), clock=Clock())
    assert problem_of(pace, RAVI, files=1) is None
    pace.used_decoder(RAVI, 0.3)
    assert problem_of(pace, RAVI, files=1) is None
    pace.used_decoder(RAVI, 1.5)
    assert problem_of(pace, RAVI, files=3) == ("files_too_quick", 10)
    assert problem_of(pace, OMAR, files=6) is None
    assert problem_of(pace, OMAR, files=1) == ("files_too_quick", 10)
    assert problem_of(pace, Sender(user_id=3, guild_id=RAVI.guild_id), files=1) == (
        "server_files_too_quick",
        6,
    )


def test_a_refused_request_takes_no_tokens() -> None:
    pace = Pace(Rates(requests=2, files=1), clock=Clock())
    assert problem_of(pace, RAVI, files=1) is None
    assert problem_of(pace, RAVI, files=1) == ("files_too_quick", 60)
    assert problem_of(pace, RAVI) is None


def test_repeated_costly_files_delay_a_sender_by_at_most_two_minutes() -> None:
    pace = Pace(Rates(files=6), clock=Clock())
    for _ in range(100):
        pace.used_decoder(RAVI, 10.0)
    assert problem_of(pace, RAVI, files=6) == ("files_too_quick", 120)


def test_full_buckets_are_forgotten() -> None:
    buckets = Buckets(60)
    for key in range(3 * MOST_BUCKETS):
        buckets.take(key, 1, now=float(key))
    assert len(buckets._levels) <= MOST_BUCKETS
    assert not buckets.wait(0, 1, now=float(3 * MOST_BUCKETS))


def test_a_bucket_in_use_is_not_forgotten_with_the_full_ones() -> None:
    buckets = Buckets(60)
    for key in range(MOST_BUCKETS - 1):
        buckets.take(key, 1, now=0.0)
    buckets.take("busy", 60, now=60.0)
    buckets.take("last", 1, now=60.0)
    assert len(buckets._levels) == 2
    assert buckets.wait("busy", 1, now=60.0) == 1.0


def test_a_request_without_files_takes_and_gives_back_no_file() -> None:
    pace = Pace(Rates(files=1), clock=Clock())
    assert [problem_of(pace, RAVI) for _ in range(3)] == [None] * 3
    assert problem_of(pace, RAVI, files=1) is None
    pace.give_back(RAVI)
    assert problem_of(pace, RAVI, files=1) == ("files_too_quick", 60)


@pytest.mark.parametrize("rates", [Rates(requests=2), Rates(server_requests=2)])
def test_one_request_is_given_back_at_a_time(rates: Rates) -> None:
    pace = Pace(rates, clock=Clock())
    assert [problem_of(pace, RAVI) for _ in range(2)] == [None] * 2
    pace.give_back(RAVI)
    assert problem_of(pace, RAVI) is None
    assert problem_of(pace, RAVI) is not None


def test_without_rates_there_is_no_limit() -> None:
    pace = Pace(Rates(), clock=Clock())
    assert [problem_of(pace, RAVI, files=2) for _ in range(1000)] == [None] * 1000


async def test_a_person_with_many_files_delays_others_by_at_most_one_file() -> None:
    room = WaitingRoom(places=32)
    order: list[int] = []
    leave: asyncio.Queue[None] = asyncio.Queue()

    async def visit(user_id: int) -> None:
        async with room.turn(Sender(user_id=user_id, guild_id=None)):
            order.append(user_id)
            await leave.get()

    async with AsyncExitStack() as stack:
        visits = [asyncio.create_task(visit(user)) for user in (1, 1, 1, 1, 2, 2, 3)]
        stack.push_async_callback(asyncio.gather, *visits)
        while len(order) < 2:  # noqa: ASYNC110 - two are at work, and all others have come
            await asyncio.sleep(0)
        for _ in visits:
            leave.put_nowait(None)
    assert order[:3] == [1, 2, 3]
