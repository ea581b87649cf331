"""How many workers the waiting work needs, with hysteresis."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bot.fleet.sizing import History, Size, needs, wanted
from bot.store.queue.demand import Demand


def size(**values: object) -> Size:
    whole: dict[str, object] = {
        "group": "cpu",
        "models": frozenset({"demo"}),
        "accelerator": "cpu",
        "least": 0,
        "most": 3,
        "idle_seconds": 60.0,
        "target_seconds": 100.0,
    }
    return Size(**{**whole, **values})  # type: ignore[arg-type]


def row(seconds: float, **values: object) -> Demand:
    whole: dict[str, object] = {
        "lane": "demo:128x128:guided",
        "model": "demo",
        "accelerator": "cpu",
        "work_seconds": seconds,
        "images": 1,
        "oldest": 0.0,
    }
    return Demand(**{**whole, **values})  # type: ignore[arg-type]


def test_one_worker_is_needed_for_each_target_of_work_that_has_begun() -> None:
    for seconds, expected in ((0.001, 1), (100, 1), (100.1, 2), (299, 3), (9999, 3)):
        assert needs([row(seconds)], [size()]) == {"cpu": expected}
    assert needs([], [size()]) == {"cpu": 0}


def test_only_the_work_of_its_models_and_class_counts() -> None:
    others = [row(500, model="other"), row(500, accelerator="tpu")]
    assert needs(others, [size()]) == {"cpu": 0}


def test_held_images_keep_one_worker() -> None:
    assert needs([row(0, images=0, running=4)], [size()]) == {"cpu": 1}


def test_a_later_group_gets_what_the_first_one_cannot_do_in_time() -> None:
    first = size(group="tpu", accelerator="tpu", most=2)
    work = [row(400, accelerator="tpu"), row(1200)]
    assert needs(work, [first, size(most=20)]) == {"tpu": 2, "cpu": 6}
    enough = [row(150, accelerator="tpu"), row(450)]
    assert needs(enough, [first, size(most=20)]) == {"tpu": 2, "cpu": 0}


looks = st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 9)), min_size=1, max_size=60)


@given(looks, st.integers(0, 3), st.integers(0, 5), st.floats(0, 120), st.integers(0, 9))
def test_the_wanted_number_is_the_most_that_was_needed_lately(
    looks: list[tuple[float, int]], least: int, more: int, idle: float, current: int
) -> None:
    bounds = size(least=least, most=least + more, idle_seconds=idle)
    seen: History = ()
    log = [(0.0, current)]
    now = 0.0
    for index, (pause, need) in enumerate(looks):
        now += 0.0 if index == 0 else pause
        log.append((now, need))
        count, seen = wanted(bounds, need, current=current, seen=seen, now=now)
        lately = max([need, *(each for at, each in log if now - at < idle)])
        assert count == min(bounds.most, max(bounds.least, lately))
        assert len(seen) <= 10, "equal and smaller needs are forgotten"


@given(st.integers(0, 9), st.lists(st.floats(0.1, 500), max_size=20))
def test_a_steady_need_never_starts_and_stops_workers(need: int, pauses: list[float]) -> None:
    seen: History = ()
    now, counts = 0.0, set()
    for pause in [0.0, *pauses]:
        now += pause
        count, seen = wanted(size(most=9), need, current=need, seen=seen, now=now)
        counts.add(count)
    assert counts == {need}


rows = st.lists(
    st.builds(
        row,
        st.floats(0, 1e6),
        lane=st.sampled_from(["a", "b", "c"]),
        accelerator=st.sampled_from(["cpu", "tpu"]),
        images=st.integers(0, 5),
    ),
    max_size=8,
)


@given(rows)
def test_needs_are_bounded_and_waiting_work_gets_a_worker(found: list[Demand]) -> None:
    groups = [size(group="tpu", accelerator="tpu"), size(most=2)]
    result = needs(found, groups)
    assert result.keys() == {"tpu", "cpu"}
    assert all(0 <= result[group.group] <= group.most for group in groups)
    if any(each.images and each.accelerator == "tpu" for each in found):
        assert result["tpu"] >= 1
