"""The accounting of the devices' memory: never over the budget, the least recently used is evicted first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdjax_engine.memory.residency import Ledger, Need

NAMES = ("a", "b", "c", "d")
NEEDS = st.builds(Need, held=st.integers(0, 30), working=st.integers(0, 30))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from(NAMES), st.integers(1, 80)),
        st.tuples(st.just("bring"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("claim"), st.integers(0, 2), NEEDS),
        st.tuples(st.just("lose"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("tighten"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("leave"), st.sampled_from(NAMES), st.none()),
    ),
    max_size=40,
)


@given(steps=STEPS, budget=st.integers(1, 200))
def test_the_ledger_stays_within_the_budget_and_evicts_the_least_recently_used(
    steps: list[tuple[str, object, object]], budget: int
) -> None:
    ledger, used, entered = Ledger(budget), list[str](), set[str]()
    for what, who, how in steps:
        assert ledger.resident == tuple(used)
        match what, who, how:
            case "enter", str(name), int(size):
                if name not in entered and ledger.enter(name, size):
                    entered.add(name)
            case "claim", _, Need() as need:
                gone = ledger.claim(who, need) or []
                assert gone == used[: len(gone)]
                used = used[len(gone) :]
                assert (ledger.budget or 0) >= ledger.taken
            case ("bring", str(name), _) if name in entered:
                gone = ledger.bring(name)
                assert name not in gone
                others = [each for each in used if each != name]
                assert gone == others[: len(gone)]
                used = [*others[len(gone) :], name]
                assert ledger.budget is not None
                assert ledger.taken <= ledger.budget <= budget
            case ("lose", str(name), _):
                ledger.lose(name)
                used = [each for each in used if each != name]
            case ("leave", str(name), _):
                ledger.leave(name)
                used = [each for each in used if each != name]
                entered.discard(name)
                assert name not in ledger.models
            case ("tighten", str(name), _) if name in used:
                before = ledger.taken
                gone = ledger.tighten(name)
                assert gone == [each for each in used if each != name]
                assert not gone or (ledger.budget or 0) < before or before > budget
                used = [name]
            case _:
                continue


@given(steps=STEPS)
def test_without_a_limit_nothing_is_evicted(steps: list[tuple[str, object, object]]) -> None:
    ledger = Ledger(None)
    for what, who, how in steps:
        match what, who, how:
            case "enter", str(name), int(size):
                assert ledger.enter(name, size)
            case "claim", _, Need() as need:
                assert ledger.claim(who, need) == []
            case ("bring", str(name), _) if name in ledger.models:
                assert ledger.bring(name) == []
    assert ledger.room is None


def test_a_need_over_the_whole_budget_is_refused_and_changes_nothing() -> None:
    ledger = Ledger(100)
    assert ledger.claim("a lane", Need(held=10, working=20)) == []
    assert not ledger.enter("large", 71)
    assert ledger.enter("small", 70)
    assert ledger.claim("another lane", Need(held=1)) is None
    assert ledger.claim("another lane", Need(working=20)) == [], "they do not work at the same moment"
    assert (ledger.models, ledger.reserved, ledger.room) == (("small",), 30, 70)


@pytest.mark.parametrize("smaller", [Need(held=5, working=10), Need()])
def test_a_later_claim_replaces_an_earlier_one(smaller: Need) -> None:
    ledger = Ledger(100)
    ledger.claim("a lane", Need(held=10, working=20))
    ledger.claim("a lane", smaller)
    assert ledger.reserved == smaller.held + smaller.working


def test_models_that_ran_out_of_memory_together_are_never_resident_together_again() -> None:
    """The largest model needs more than was taken, so the budget alone cannot keep the two apart."""
    ledger = Ledger(None)
    for name, size in (("small", 10), ("other", 20), ("largest", 100)):
        assert ledger.enter(name, size)
    ledger.bring("small")
    ledger.bring("other")
    assert ledger.tighten("other") == ["small"]
    assert ledger.budget == 100
    assert ledger.bring("small") == ["other"]
    assert ledger.tighten("small") == [], "a second shortage cannot be answered in the same way"
    assert ledger.bring("largest") == ["small"]


def test_a_released_claim_frees_its_memory() -> None:
    ledger = Ledger(100)
    assert ledger.claim("a lane", Need(held=60)) == []
    assert ledger.claim("another lane", Need(held=60)) is None
    ledger.release("a lane")
    ledger.release("nobody")
    assert ledger.claim("another lane", Need(held=60)) == []


def test_a_claim_names_the_models_that_it_displaces() -> None:
    ledger = Ledger(100)
    for name in ("a", "b"):
        assert ledger.enter(name, 40)
        assert ledger.bring(name) == []
    assert ledger.claim("a lane", Need(held=50)) == ["a"]
    assert (ledger.resident, ledger.taken) == (("b",), 90)


def test_models_that_the_host_cannot_keep_must_fit_on_the_devices_together() -> None:
    ledger = Ledger(100, host=70)
    assert ledger.enter("a", 40)
    assert ledger.enter("b", 40), "the devices hold both"
    assert not ledger.enter("c", 40), "neither the devices nor the host hold all three"
    for name in ("a", "b"):
        ledger.bring(name)
    assert ledger.claim("a lane", Need(held=20)) == []
    assert ledger.claim("another lane", Need(held=1)) is None
    assert ledger.tighten("b") == []
    assert ledger.resident == ("a", "b")
    ledger.leave("a")
    assert ledger.claim("another lane", Need(held=30)) == []
