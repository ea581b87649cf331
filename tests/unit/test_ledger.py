"""The accounting of the devices' memory: never over the budget, the least recently used is evicted first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdjax_engine.memory.ledger import Group, Ledger, Need

NAMES = ("a", "b", "c", "d")
PARTS = ("denoiser", "texts", "autoencoder")


def whole(name: str) -> Group:
    """The only group of a model."""
    return Group(name, "all")


def enter(ledger: Ledger, name: str, size: int) -> bool:
    """Enter a model of one group."""
    return ledger.enter(name, {"all": size}, size)


def bring(ledger: Ledger, name: str) -> list[str]:
    """Bring a model of one group, and return the models that it displaces."""
    return [group.model for group in ledger.bring([whole(name)])]


def resident(ledger: Ledger) -> tuple[str, ...]:
    """Return the models of one group that are resident."""
    return tuple(group.model for group in ledger.resident)


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
        assert resident(ledger) == tuple(used)
        match what, who, how:
            case "enter", str(name), int(size):
                if name not in entered and enter(ledger, name, size):
                    entered.add(name)
            case "claim", _, Need() as need:
                gone = [group.model for group in ledger.claim(who, need) or []]
                assert gone == used[: len(gone)]
                used = used[len(gone) :]
                assert (ledger.budget or 0) >= ledger.taken
            case ("bring", str(name), _) if name in entered:
                gone = bring(ledger, name)
                assert name not in gone
                others = [each for each in used if each != name]
                assert gone == others[: len(gone)]
                used = [*others[len(gone) :], name]
                assert ledger.budget is not None
                assert ledger.taken <= ledger.budget <= budget
            case ("lose", str(name), _):
                ledger.lose([whole(name)])
                used = [each for each in used if each != name]
            case ("leave", str(name), _):
                ledger.leave(name)
                used = [each for each in used if each != name]
                entered.discard(name)
                assert name not in ledger.models
            case ("tighten", str(name), _) if name in used:
                before = ledger.taken
                gone = [group.model for group in ledger.tighten([whole(name)])]
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
                assert enter(ledger, name, size)
            case "claim", _, Need() as need:
                assert ledger.claim(who, need) == []
            case ("bring", str(name), _) if name in ledger.models:
                assert bring(ledger, name) == []
    assert ledger.room is None


def test_a_need_over_the_whole_budget_is_refused_and_changes_nothing() -> None:
    ledger = Ledger(100)
    assert ledger.claim("a lane", Need(held=10, working=20)) == []
    assert not enter(ledger, "large", 71)
    assert enter(ledger, "small", 70)
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
        assert enter(ledger, name, size)
    bring(ledger, "small")
    bring(ledger, "other")
    assert ledger.tighten([whole("other")]) == [whole("small")]
    assert ledger.budget == 100
    assert bring(ledger, "small") == ["other"]
    assert ledger.tighten([whole("small")]) == [], "a second shortage cannot be answered in the same way"
    assert bring(ledger, "largest") == ["small"]


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
        assert enter(ledger, name, 40)
        assert bring(ledger, name) == []
    assert ledger.claim("a lane", Need(held=50)) == [whole("a")]
    assert (resident(ledger), ledger.taken) == (("b",), 90)


def test_models_that_the_host_cannot_keep_must_fit_on_the_devices_together() -> None:
    ledger = Ledger(100, host=70)
    assert enter(ledger, "a", 40)
    assert enter(ledger, "b", 40), "the devices hold both"
    assert not enter(ledger, "c", 40), "neither the devices nor the host hold all three"
    for name in ("a", "b"):
        bring(ledger, name)
    assert ledger.claim("a lane", Need(held=20)) == []
    assert ledger.claim("another lane", Need(held=1)) is None
    assert ledger.tighten([whole("b")]) == []
    assert resident(ledger) == ("a", "b")
    ledger.leave("a")
    assert ledger.claim("another lane", Need(held=30)) == []


@given(
    sizes=st.lists(st.tuples(*[st.integers(1, 60)] * 3), min_size=1, max_size=3),
    used=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([PARTS[:1], PARTS[1:2], PARTS[::2]]))),
    spare=st.integers(0, 60),
)
def test_the_groups_of_a_program_are_resident_together_within_the_budget(
    sizes: list[tuple[int, ...]], used: list[tuple[int, tuple[str, ...]]], spare: int
) -> None:
    models = [dict(zip(PARTS, each, strict=True)) for each in sizes]
    at_once = [max(each["denoiser"] + each["autoencoder"], each["texts"]) for each in models]
    ledger = Ledger(max(at_once) + 10 + spare)
    assert ledger.claim("a lane", Need(held=4, working=6)) == []
    for number, each in enumerate(models):
        assert ledger.enter(str(number), each, at_once[number])
    lacking = Need(held=5 + spare, working=6)
    assert (ledger.claim("a lane", lacking), ledger.lacking("a lane", lacking)) == (None, 1)
    for number, names in used:
        groups = [Group(str(number % len(models)), name) for name in names]
        gone = ledger.bring(groups)
        assert set(groups) <= set(ledger.resident)
        assert set(gone).isdisjoint(ledger.resident)
        assert ledger.taken <= (ledger.budget or 0)


def test_text_encoders_leave_before_the_denoiser_that_was_used_after_them() -> None:
    ledger = Ledger(100)
    assert ledger.enter("a", {"denoiser": 60, "texts": 50, "autoencoder": 5}, 60)
    denoiser, texts, autoencoder = (Group("a", name) for name in ("denoiser", "texts", "autoencoder"))
    assert ledger.bring([denoiser]) == ledger.bring([autoencoder]) == []
    assert not ledger.fit([texts, denoiser])
    assert ledger.bring([texts]) == [denoiser]
    assert ledger.bring([denoiser]) == [autoencoder, texts]
    assert ledger.bring([autoencoder]) == []


def test_a_model_out_of_memory_with_all_groups_goes_on_with_one_at_a_time() -> None:
    ledger = Ledger(None)
    assert ledger.enter("a", {"denoiser": 60, "texts": 50}, 60)
    denoiser, texts = Group("a", "denoiser"), Group("a", "texts")
    ledger.bring([texts])
    ledger.bring([denoiser])
    assert ledger.tighten([denoiser, texts]) == [], "they are kept"
    assert ledger.tighten([denoiser]) == [texts]
    assert ledger.bring([texts]) == [denoiser]
    assert ledger.tighten([denoiser]) == [texts]
    ledger.bring([texts])
    assert ledger.tighten([denoiser]) == [], "that was tried before: there is an end"


def test_a_model_that_takes_turns_anyway_does_not_let_claims_split_another_that_fits() -> None:
    ledger = Ledger(100)
    assert ledger.enter("large", {"denoiser": 60, "texts": 60}, 60)
    assert ledger.enter("small", {"denoiser": 50, "texts": 30}, 50)
    assert not ledger.splits("a lane", Need(held=20)), "the small model still fits as a whole"
    assert ledger.splits("a lane", Need(held=21))
