"""The tags of fair queueing, on their own: a queue of many users served one image at a time.

`bot.store.rows.fair_order` states the promises; here Hypothesis looks for requests that break them.
"""

import heapq
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.store.rows import fair_order

COSTS = st.floats(min_value=0.1, max_value=20.0)
WEIGHTS = st.sampled_from([0.5, 1.0, 2.0, 4.0])


class Queue:
    """A queue in memory that uses tags as the store does."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, int, int, float]] = []
        self.virtual_time = 0.0
        self.last_tags: dict[int, float] = {}
        self.entered = 0

    def ask(self, user: int, cost: float, *, weight: float = 1.0, count: int = 1) -> None:
        tags = fair_order.tag_images(
            virtual_time=self.virtual_time,
            last_tag=self.last_tags.get(user, 0.0),
            shares=[fair_order.share(cost, weight)] * count,
        )
        self.last_tags[user] = tags[-1]
        for tag in tags:
            self.entered += 1
            heapq.heappush(self.waiting, (tag, self.entered, user, cost))

    def serve(self) -> tuple[int, float]:
        tag, _, user, cost = heapq.heappop(self.waiting)
        waiting = [self.waiting[0][0]] if self.waiting else []
        self.virtual_time = fair_order.advance(self.virtual_time, [tag], waiting)
        return user, cost


@given(costs=st.lists(COSTS, min_size=2, max_size=5), weights=st.lists(WEIGHTS, min_size=5, max_size=5))
def test_users_who_always_wait_are_served_by_weight(costs: Sequence[float], weights: Sequence[float]) -> None:
    queue, served = Queue(), dict.fromkeys(range(len(costs)), 0.0)
    for user, cost in enumerate(costs):
        queue.ask(user, cost, weight=weights[user], count=400)
    for _ in range(300):
        user, cost = queue.serve()
        served[user] += cost / weights[user]
    # the bound of fair queueing: two backlogged users differ by one image of each at most
    for one in served:
        for other in served:
            bound = costs[one] / weights[one] + costs[other] / weights[other]
            assert abs(served[one] - served[other]) <= bound * 1.0001


@given(flood=st.integers(1, 1000), served=st.integers(0, 1000), cost=COSTS, others=st.integers(1, 8))
def test_a_flood_delays_a_newcomer_by_one_image_of_each_other_user(
    flood: int, served: int, cost: float, others: int
) -> None:
    queue = Queue()
    for user in range(others):
        queue.ask(user, cost, count=flood)
    for _ in range(min(served, len(queue.waiting))):
        queue.serve()
    newcomer = -1
    queue.ask(newcomer, cost)
    waited = 0
    while queue.serve()[0] != newcomer:
        waited += 1
    assert waited <= 2 * others


@given(
    flooders=st.lists(st.tuples(COSTS, WEIGHTS), min_size=1, max_size=6),
    mine=st.tuples(COSTS, WEIGHTS),
    count=st.integers(1, 9),
    served=st.integers(0, 300),
)
def test_nobody_waits_longer_than_their_share_says(
    flooders: Sequence[tuple[float, float]], mine: tuple[float, float], count: int, served: int
) -> None:
    queue = Queue()
    for user, (cost, weight) in enumerate(flooders):
        queue.ask(user, cost, weight=weight, count=1000)
    for _ in range(served):
        queue.serve()
    queue.ask(-1, mine[0], weight=mine[1], count=count)
    ahead: Counter[int] = Counter()
    share = mine[0] / mine[1]
    for number in range(1, count + 1):
        while (turn := queue.serve())[0] != -1:
            ahead[turn[0]] += 1
        for user, (cost, weight) in enumerate(flooders):
            assert ahead[user] * cost / weight <= (number * share + cost / weight) * 1.0001


@pytest.mark.parametrize(("cost", "weight"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, -2.0)])
def test_a_share_that_would_overtake_everyone_is_refused(cost: float, weight: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        fair_order.share(cost, weight)


@given(
    members=st.lists(COSTS, min_size=2, max_size=6),
    late=COSTS,
    outside=st.lists(st.tuples(COSTS, WEIGHTS), min_size=1, max_size=5),
    before=st.integers(0, 200),
)
def test_in_a_session_all_have_one_pace_and_neither_it_nor_the_server_starves_the_other(
    members: Sequence[float], late: float, outside: Sequence[tuple[float, float]], before: int
) -> None:
    """One joins late. From then on no member is ahead of another by more than one image of each.

    The same holds between members and those outside, whose pace is divided by their weight.
    """
    queue, session = Queue(), 100  # the keys of persons in the session begin there
    for user, (cost, weight) in enumerate(outside):
        queue.ask(user, cost, weight=weight, count=2000)
    for number, cost in enumerate(members):
        queue.ask(session + number, cost, weight=fair_order.SESSION_WEIGHT, count=2000)
    for _ in range(before):
        queue.serve()
    queue.ask(session + len(members), late, weight=fair_order.SESSION_WEIGHT, count=2000)
    costs = {
        session + number: (cost, fair_order.SESSION_WEIGHT) for number, cost in enumerate((*members, late))
    }
    costs |= dict(enumerate(outside))
    served: Counter[int] = Counter()
    for _ in range(400):
        served[queue.serve()[0]] += 1
        paces = {user: served[user] * cost / weight for user, (cost, weight) in costs.items()}
        largest = sorted(cost / weight for cost, weight in costs.values())[-2:]
        assert max(paces.values()) - min(paces.values()) <= sum(largest) * 1.0001
