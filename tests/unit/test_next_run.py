"""Which lane is served: shares of the devices' time as the lanes' demands say, and nobody waits for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sdjax_engine.scheduler.lane_queue import MOVES_AHEAD, Demand, LaneShares

LONGEST_RUN = 2.0
seconds = st.floats(0.01, LONGEST_RUN)
lanes = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 32), min_size=1)


@given(wanted=lanes, runs=st.lists(seconds, min_size=1, max_size=200), move=st.sampled_from([0.0, 0.5, 3.0]))
def test_lanes_that_always_want_have_their_shares_of_the_time(
    wanted: dict[str, int], runs: list[float], move: float
) -> None:
    shares: LaneShares[str] = LaneShares()
    served = dict.fromkeys(wanted, 0.0)
    at_work = None
    for run in runs:
        demands = {
            lane: Demand(seats=seats, move_seconds=0.0 if lane == at_work else move)
            for lane, seats in wanted.items()
        }
        at_work = shares.choose(demands)
        assert at_work is not None
        shares.charge(at_work, run, wanted[at_work])
        served[at_work] += run
    for one, one_seats in wanted.items():
        for other, other_seats in wanted.items():
            lead = served[one] / one_seats - served[other] / other_seats
            assert lead <= (LONGEST_RUN + MOVES_AHEAD * move) / one_seats + 1e-6


@given(wanted=lanes, runs=st.lists(seconds, min_size=60, max_size=60), late=st.integers(1, 32))
def test_a_lane_that_comes_late_neither_waits_for_ever_nor_makes_up_for_its_absence(
    wanted: dict[str, int], runs: list[float], late: int
) -> None:
    shares: LaneShares[str] = LaneShares()
    before, after = runs[:30], runs[30:]
    demands = {lane: Demand(seats=seats) for lane, seats in wanted.items()}
    for run in before:
        lane = shares.choose(demands)
        assert lane is not None
        shares.charge(lane, run, wanted[lane])
    demands["late"] = Demand(seats=late)
    weight = sum(wanted.values())
    others, its_own = 0.0, 0.0
    for run in after:
        lane = shares.choose(demands)
        assert lane is not None
        shares.charge(lane, run, {**wanted, "late": late}[lane])
        if lane != "late":
            others += run
            # What the others had when it came, at most a run each, and their shares of what it has had since.
            assert others <= weight * (its_own / late + LONGEST_RUN) + len(wanted) * LONGEST_RUN
        else:
            its_own += run
            assert its_own / late <= others / min(wanted.values()) + LONGEST_RUN * (1 + 1 / late)


def test_what_was_charged_wrongly_is_taken_back() -> None:
    shares: LaneShares[str] = LaneShares()
    demands = {"a": Demand(seats=1), "b": Demand(seats=1)}
    assert shares.choose(demands) == "a"
    shares.charge("a", 10.0, 1)
    shares.charge("a", -9.5, 1)
    assert shares.choose(demands) == "b"
    shares.charge("b", 1.0, 1)
    assert shares.choose(demands) == "a"


def test_a_model_on_the_devices_is_kept_until_the_move_has_paid() -> None:
    shares: LaneShares[str] = LaneShares()
    demands = {"here": Demand(seats=1), "away": Demand(seats=1, move_seconds=2.0)}
    assert shares.choose(demands) == "here"
    runs = 0
    while shares.choose(demands) == "here":
        shares.charge("here", 1.0, 1)
        runs += 1
    assert runs == 2.0 * MOVES_AHEAD


def test_a_lane_served_longer_than_its_rival_is_left_once_it_is_ahead_by_the_move() -> None:
    shares: LaneShares[str] = LaneShares()
    demands = {"here": Demand(seats=2), "away": Demand(seats=1, move_seconds=1.0)}
    assert shares.choose(demands) == "here"
    shares.charge("away", 50.0, 1)
    shares.charge("here", 2 * 51.0, 2)
    assert shares.choose(demands) == "here", "ahead by 1 s a seat, 2 s together, and the move costs 4 of them"
    shares.charge("here", 2 * 1.0, 2)
    assert shares.choose(demands) == "away", "ahead by exactly the cost"


def test_a_lane_that_comes_late_starts_beside_the_lane_that_is_least_ahead() -> None:
    shares: LaneShares[str] = LaneShares()
    old = {"old": Demand(seats=1)}
    shares.choose(old)
    shares.charge("old", 0.5, 1)
    assert shares.choose({**old, "late": Demand(seats=1)}) == "late"


def test_a_lane_that_leaves_for_a_moment_does_not_lose_what_it_was_ahead() -> None:
    shares: LaneShares[str] = LaneShares()
    both = {"first": Demand(seats=1), "other": Demand(seats=1)}
    assert shares.choose(both) == "first"
    shares.charge("first", 10.0, 1)
    assert shares.choose({"other": Demand(seats=1)}) == "other"
    shares.charge("other", 1.0, 1)
    assert shares.choose(both) == "other"


def test_time_may_be_charged_to_a_lane_that_was_never_chosen() -> None:
    shares: LaneShares[str] = LaneShares()
    shares.charge("early", 1.0, 1)
    assert shares.choose({"early": Demand(seats=1), "late": Demand(seats=1)}) == "late"
