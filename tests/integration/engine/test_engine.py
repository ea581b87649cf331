"""The engine's contract for `submit`: every request is answered exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, as_completed, wait
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from compilations import application
from engines import PLAIN, SUITED, TINY, fingerprint, like

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed, InvalidRequest
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Image, Progress, Request, Sampler, Variation

OpenEngine = Callable[..., Engine]
DEADLINE = 120.0
LONG = like(num_inference_steps=48)


def paint(engine: Engine, *requests: Request) -> list[Image]:
    futures = [engine.submit(request) for request in requests]
    return [future.result(DEADLINE) for future in futures]


def submit_and_wait_for_start(engine: Engine, request: Request) -> Future[Image]:
    """The future of an image whose first run has ended."""
    started = threading.Event()
    future = engine.submit(request, on_progress=lambda _progress: started.set())
    assert started.wait(DEADLINE)
    return future


def test_an_image_has_the_requested_size_and_recipe(engine: Engine) -> None:
    [image] = paint(engine, PLAIN)
    assert image.request == PLAIN
    assert (image.pixels.shape, image.pixels.dtype) == ((16, 16, 3), np.uint8)
    assert image.pixels.std() > 1
    assert 0 < image.seconds < DEADLINE


def test_every_value_of_a_request_changes_the_picture(engine: Engine) -> None:
    changes = (
        {},
        {"prompt": "a blue star"},
        {"negative_prompt": "a blue star"},
        {"seed": 8},
        {"num_inference_steps": 7},
        {"guidance_scale": 6.0},
        {"guidance_scale": 1.0},
        {"variations": (Variation(seed=9, strength=0.15),)},
        {"variations": (Variation(seed=9, strength=0.15), Variation(seed=10, strength=0.15))},
        # DDPM and Euler ancestral are two forms of one method: their pictures differ by rounding, if at all.
        *({"sampler": sampler} for sampler in SUITED if sampler not in (Sampler.DDIM, Sampler.DDPM)),
    )
    pictures = [fingerprint(image) for image in paint(engine, *(like(**change) for change in changes))]
    assert len(set(pictures)) == len(pictures)


def test_a_little_of_another_seed_s_noise_changes_the_picture_a_little(engine: Engine) -> None:
    own, near, other, none = paint(
        engine,
        PLAIN,
        like(variations=(Variation(seed=8, strength=0.15),)),
        like(variations=(Variation(seed=8, strength=1.0),)),
        like(variations=(Variation(seed=8, strength=0.0),)),
    )
    changes = [np.abs(image.pixels.astype(int) - own.pixels).mean() for image in (near, other)]
    assert 0 < changes[0] < changes[1] / 2
    assert fingerprint(none) == fingerprint(own)


@pytest.mark.parametrize(
    "changes",
    [
        {"variations": (Variation(seed=8, strength=1.5),)},
        {"variations": (Variation(seed=8, strength=float("nan")),)},
        {"variations": (Variation(seed=2**32, strength=0.5),)},
        {"variations": (Variation(seed=8, strength=0.5),) * 9},
    ],
)
def test_a_variation_out_of_range_is_refused(engine: Engine, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        engine.submit(like(**changes))


def test_settings_of_the_process_change_no_picture(
    open_engine: OpenEngine, engine: Engine, model: LoadedModel, compiler: Compiler
) -> None:
    asked = like(sampler=Sampler.EULER_ANCESTRAL, guidance_scale=1.0)  # noise first and at every step
    expected = fingerprint(engine.submit(asked).result(DEADLINE))
    with application(jax_default_prng_impl="rbg", jax_threefry_partitionable=False):
        anew = Compiler(mesh=compiler.mesh, report=lambda _line: None)
        lane = DeviceLane(asked.lane, model, seats_per_device=2, compiler=anew, start_pictures=False)
        other = open_engine(asked.lane, sabotaged={asked.lane: lane})
        assert fingerprint(other.submit(asked).result(DEADLINE)) == expected


def test_progress_goes_up_to_the_last_step(engine: Engine) -> None:
    told: list[Progress] = []
    engine.submit(like(num_inference_steps=10), on_progress=told.append).result(DEADLINE)
    steps = [progress.step for progress in told]
    assert steps == sorted(set(steps))
    assert replace(told[-1], device_seconds=0.0) == Progress(step=10, steps=10)
    assert told[-1].device_seconds > 0
    assert len(told) > 1


def test_progress_never_goes_back_for_any_sampler_and_company(engine: Engine) -> None:
    """Newcomers cut the runs of others short; samplers may have more evaluations than steps."""
    requests = [
        like(sampler=sampler, num_inference_steps=steps) for sampler in SUITED for steps in (1, 2, 3, 9)
    ]
    told: list[list[Progress]] = [[] for _ in requests]
    futures = [
        engine.submit(request, on_progress=progress.append)
        for request, progress in zip(requests, told, strict=True)
    ]
    assert wait(futures, DEADLINE).not_done == set()
    for request, progress in zip(requests, told, strict=True):
        steps = [each.step for each in progress]
        assert steps == sorted(steps)
        assert 0 <= steps[0] <= steps[-1] == request.num_inference_steps


def test_a_failing_progress_callback_affects_no_image(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError("from the callback")

    engine.submit(PLAIN, on_progress=fail).result(DEADLINE)
    assert "from the callback" in caplog.text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"prompt": " "}, "empty_prompt"),
        ({"num_inference_steps": 0}, "steps"),
        ({"guidance_scale": float("nan")}, "guidance"),
        ({"seed": -1}, "seed"),
        ({"width": 128}, "size"),
        ({"model": "other"}, "model"),
    ],
)
def test_an_impossible_request_is_refused_by_submit(
    engine: Engine, change: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.submit(like(**change))
    assert caught.value.problem == problem


def test_a_lane_that_the_engine_lacks_is_refused_by_submit(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(PLAIN.lane)
    assert engine.lanes == (PLAIN.lane,)
    with pytest.raises(InvalidRequest) as caught:
        engine.submit(like(guidance_scale=1.0))
    assert str(caught.value) == "tiny:16x16:unguided is not set up here: choose from tiny:16x16:guided."
    paint(engine, PLAIN)


@pytest.mark.usefixtures("slow_devices")
def test_a_waiting_image_can_be_cancelled(engine: Engine) -> None:
    futures = [engine.submit(LONG) for _ in range(engine.capacity(LONG.lane) + 1)]
    assert engine.cancel(futures[-1])
    assert all(future.result(DEADLINE) for future in futures[:-1])
    with pytest.raises(CancelledError):
        futures[-1].result(DEADLINE)


@pytest.mark.usefixtures("slow_devices")
def test_a_running_image_can_be_cancelled_and_its_seat_is_free_again(engine: Engine) -> None:
    futures = [submit_and_wait_for_start(engine, LONG)]
    futures += [engine.submit(LONG) for _ in range(engine.capacity(LONG.lane) - 1)]
    assert engine.cancel(futures[0])
    newcomer = engine.submit(like(num_inference_steps=1))
    first_done = next(as_completed([*futures[1:], newcomer], DEADLINE))
    assert first_done is newcomer
    assert wait(futures, DEADLINE).not_done == set()
    assert futures[0].cancelled()


def test_a_finished_image_cannot_be_cancelled(engine: Engine) -> None:
    future = engine.submit(PLAIN)
    future.result(DEADLINE)
    assert not engine.cancel(future)


def test_a_draining_close_paints_all_queued_requests_and_refuses_new_ones(open_engine: OpenEngine) -> None:
    engine = open_engine()
    futures = [engine.submit(like(seed=seed)) for seed in range(20)]
    engine.close(drain=True)
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(EngineClosed):
        engine.submit(PLAIN)


def test_a_close_at_once_ends_every_future(open_engine: OpenEngine) -> None:
    engine = open_engine()
    futures = [submit_and_wait_for_start(engine, LONG), *(engine.submit(LONG) for _ in range(40))]
    engine.close(drain=False)
    assert all(future.done() for future in futures)
    assert sum(future.cancelled() for future in futures) > 30


def test_the_devices_run_no_work_after_a_close(open_engine: OpenEngine) -> None:
    engine = open_engine()
    submit_and_wait_for_start(engine, LONG)
    devices: list[Any] = [queue.device for queue in engine._thread.queues.values()]
    engine.close(drain=False)
    assert all(leaf.is_ready() for device in devices for leaf in jax.tree.leaves(device._state))


def test_a_draining_close_can_be_cut_short(open_engine: OpenEngine) -> None:
    engine = open_engine()
    futures = [engine.submit(LONG) for _ in range(400)]
    draining = threading.Thread(target=engine.close, kwargs={"drain": True})
    draining.start()
    engine.close(drain=False)
    draining.join(DEADLINE)
    assert not draining.is_alive()
    assert any(future.cancelled() for future in futures)


def test_a_close_from_a_callback_ends_the_engine(open_engine: OpenEngine) -> None:
    engine = open_engine()
    future = engine.submit(LONG, on_progress=lambda _progress: engine.close(drain=False))
    with pytest.raises(CancelledError):
        future.result(DEADLINE)


def test_no_lane_starves(engine: Engine) -> None:
    """An image of another lane gets one seat's share of the devices, however many others wait."""
    order: list[str] = []
    short = like(num_inference_steps=2)
    guided = [engine.submit(like(short, seed=seed)) for seed in range(8)]
    other = engine.submit(like(short, guidance_scale=1.0))
    other.add_done_callback(lambda _future: order.append("other"))
    guided += [engine.submit(like(short, seed=seed)) for seed in range(80)]
    for future in guided:
        future.add_done_callback(lambda _future: order.append("guided"))
    wait([*guided, other], DEADLINE)
    assert order.index("other") < 72, "its share is a fifth, and 88 come besides"


def test_the_time_of_an_image_is_measured(open_engine: OpenEngine) -> None:
    engine = open_engine()
    assert engine.seconds_per_image(PLAIN.lane) is None
    paint(engine, PLAIN)
    seconds = engine.seconds_per_image(PLAIN.lane)
    assert seconds is not None
    assert seconds > 0


def test_the_engine_returns_its_offers(engine: Engine) -> None:
    assert engine.offers == (TINY,)
