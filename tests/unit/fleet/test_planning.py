"""Which units are started, drained and removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bot.fleet.planning import ACTIVE, PATIENCE_SECONDS, Phase, Plan, Target, Unit, plan

NOW = 1000.0


def unit(
    name: str,
    phase: Phase = Phase.PAINTING,
    *,
    generation: str = "new",
    group: str = "cpu",
    since: float = NOW,
) -> Unit:
    return Unit(name=name, group=group, generation=generation, phase=phase, since=since)


def target(count: int) -> Target:
    return Target(group="cpu", generation="new", count=count)


def planned(count: int, *units: Unit) -> Plan:
    return plan([target(count)], units, now=NOW)


def test_units_that_do_not_paint_yet_go_first_and_unplaced_ones_are_removed() -> None:
    found = planned(1, unit("a"), unit("b", Phase.STARTING), unit("c", Phase.PENDING))
    assert (found.drain, found.remove, found.start) == (("b",), ("c",), {})


def test_a_group_that_is_gone_drains() -> None:
    assert plan([], [unit("a"), unit("b", Phase.PENDING)], now=NOW).drain == ("a",)


def test_an_old_unit_drains_only_when_a_new_one_paints() -> None:
    old = [unit("old1", generation="old"), unit("old2", generation="old")]
    assert planned(2, *old) == Plan(start={"cpu": 2})
    starting = [unit("a", Phase.STARTING), unit("b", Phase.PENDING)]
    assert planned(2, *old, *starting) == Plan(start={})
    half = planned(2, *old, unit("a"), unit("b", Phase.STARTING))
    assert (len(half.drain), half.start) == (1, {})
    assert len(planned(2, *old, unit("a"), unit("b")).drain) == 2


def test_an_old_unit_makes_room_when_a_new_one_waits_for_resources_too_long() -> None:
    old = [unit("old1", generation="old"), unit("old2", generation="old")]
    late = unit("a", Phase.PENDING, since=NOW - PATIENCE_SECONDS - 1)
    assert len(planned(2, *old, late, unit("b", Phase.STARTING)).drain) == 1
    leaving = unit("old3", Phase.DRAINING, generation="old")
    assert planned(2, *old, late, unit("b", Phase.STARTING), leaving).drain == ()


units = st.lists(
    st.tuples(st.sampled_from(list(Phase)), st.sampled_from(["new", "old"]), st.floats(0, NOW)), max_size=12
)


@given(units, st.integers(0, 6))
def test_following_plans_ends_in_the_target_and_never_leaves_too_few_painting(
    facts: list[tuple[Phase, str, float]], count: int
) -> None:
    there = {
        str(number): unit(str(number), phase, generation=generation, since=since)
        for number, (phase, generation, since) in enumerate(facts)
    }
    for step in range(20):
        before = sum(each.phase is Phase.PAINTING for each in there.values())
        waits = any(each.phase is Phase.PENDING and each.generation == "new" for each in there.values())
        found = planned(count, *there.values())
        assert not set(found.drain) & set(found.remove)
        for name in found.drain:
            there[name] = unit(name, Phase.DRAINING, generation=there[name].generation)
        for name in found.remove:
            del there[name]
        if not waits:
            after = sum(each.phase is Phase.PAINTING for each in there.values())
            assert after >= min(before, count)
        for number in range(found.start.get("cpu", 0)):
            there[f"{step}-{number}"] = unit(f"{step}-{number}", Phase.PENDING)
        there = {name: _older(each) for name, each in there.items()}
    active = [each for each in there.values() if each.phase in ACTIVE]
    assert [each.generation for each in active] == ["new"] * count
    assert len(there) == count


def _older(each: Unit) -> Unit:
    following = {
        Phase.PENDING: Phase.STARTING,
        Phase.STARTING: Phase.PAINTING,
        Phase.DRAINING: Phase.ENDED,
    }
    return unit(each.name, following.get(each.phase, each.phase), generation=each.generation)
