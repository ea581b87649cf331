"""A second pass: the picture enlarged and painted again, in one request."""

from __future__ import annotations

import dataclasses
import io
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, TINY, fingerprint, like
from PIL import Image as Pictures

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import EngineClosed, InvalidRequest, PaintingFailed
from sdjax_engine.images import encode_png, parameters_text, read_recipe
from sdjax_engine.request import Image, Progress, Request, SecondPass
from sdjax_engine.scheduler import pending as pending_requests

DEADLINE = 120.0
OFFER = dataclasses.replace(TINY, sizes=((16, 16), (32, 32), (32, 48)))
SECOND = SecondPass(height=32, width=32, num_inference_steps=5, strength=0.6)
LARGE = like(second_pass=SECOND)


def config(checkpoint: Path, cache_dir: Path) -> EngineConfig:
    spec = ModelSpec(offer=OFFER, source=str(checkpoint))
    return EngineConfig(models=(spec,), lanes=LARGE.lanes, cache_dir=cache_dir)


@pytest.fixture(scope="module")
def engine(checkpoint: Path, cache_dir: Path) -> Iterator[Engine]:
    with Engine.open(config(checkpoint, cache_dir), report=lambda _line: None) as opened:
        assert opened.wait_until_ready(DEADLINE)
        yield opened


def paint(engine: Engine, *requests: Request) -> list[Image]:
    futures = [engine.submit(request) for request in requests]
    return [future.result(DEADLINE) for future in futures]


def enlarged(image: Image) -> Request:
    """The request that starts from the picture, resized as Pillow does."""
    file = io.BytesIO()
    size = (SECOND.width, SECOND.height)
    Pictures.fromarray(image.pixels).resize(size, Pictures.Resampling.LANCZOS).save(file, "PNG")
    return like(
        image.request,
        width=SECOND.width,
        height=SECOND.height,
        num_inference_steps=SECOND.num_inference_steps,
        strength=SECOND.strength,
        init_image=file.getvalue(),
    )


def test_two_passes_paint_what_two_requests_paint(engine: Engine) -> None:
    [first] = paint(engine, PLAIN)
    [apart] = paint(engine, enlarged(first))
    [together] = paint(engine, LARGE)
    assert together.pixels.shape == (32, 32, 3)
    assert np.array_equal(together.pixels, apart.pixels)
    assert together.request == LARGE


def painted_in(pixels: npt.NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Pictures.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_what_a_mask_keeps_is_kept_in_the_second_pass_too(engine: Engine) -> None:
    sent = np.zeros((32, 32, 3), np.uint8)
    sent[:, ::4] = (230, 60, 20)
    left_is_kept = np.zeros((32, 32), np.uint8)
    left_is_kept[:, 16:] = 255
    masked = like(LARGE, init_image=painted_in(sent), mask_image=painted_in(left_is_kept))
    [first, together] = paint(engine, like(masked, second_pass=None), masked)
    larger = enlarged(first)
    assert larger.init_image is not None
    start = np.asarray(Pictures.open(io.BytesIO(larger.init_image))).copy()
    start[:, :16] = sent[:, :16]
    [apart] = paint(engine, like(larger, init_image=painted_in(start)))
    assert np.array_equal(together.pixels, apart.pixels)


def test_a_picture_is_enlarged_beside_the_work_of_the_devices(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one picture is being enlarged, others are painted."""
    begun, finish = threading.Event(), threading.Event()
    enlarge = pending_requests.second_start

    def slowly(*arguments: Any, **more: Any) -> Any:
        begun.set()
        assert finish.wait(DEADLINE)
        return enlarge(*arguments, **more)

    monkeypatch.setattr(pending_requests, "second_start", slowly)
    large = engine.submit(LARGE)
    assert begun.wait(DEADLINE)
    assert paint(engine, PLAIN)
    assert not large.done()
    finish.set()
    assert large.result(DEADLINE).pixels.shape == (32, 32, 3)


def test_a_picture_that_cannot_be_enlarged_is_answered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any, **_more: Any) -> Any:
        raise MemoryError("no room for the larger picture")

    monkeypatch.setattr(pending_requests, "second_start", fail)
    with pytest.raises(PaintingFailed, match="no room for the larger picture"):
        engine.submit(LARGE).result(DEADLINE)


def test_company_changes_no_picture_of_two_passes(engine: Engine) -> None:
    mixed = [like(LARGE, seed=seed) for seed in range(5)] + [like(seed=3), like(seed=4)]
    together = [fingerprint(image) for image in paint(engine, *mixed)]
    alone = [fingerprint(image) for request in reversed(mixed) for image in paint(engine, request)]
    assert together == alone[::-1]


def test_progress_counts_both_passes_and_never_goes_back(engine: Engine) -> None:
    told: list[Progress] = []
    engine.submit(LARGE, on_progress=told.append).result(DEADLINE)
    steps = [progress.step for progress in told]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, told[0].steps)
    assert [progress.in_second_pass for progress in told] == sorted(
        progress.in_second_pass for progress in told
    )
    assert told[-1].in_second_pass


def test_an_image_cancelled_between_its_passes_ends_and_leaves_no_trace(engine: Engine) -> None:
    told: list[Progress] = []

    def cancel_in_the_second_pass(progress: Progress) -> None:
        told.append(progress)
        if progress.in_second_pass:
            engine.cancel(future)

    future = engine.submit(LARGE, on_progress=cancel_in_the_second_pass)
    with pytest.raises(CancelledError):
        future.result(DEADLINE)
    assert told[-1].step < told[-1].steps
    assert len(paint(engine, LARGE, PLAIN)) == 2


def test_a_draining_engine_finishes_second_passes(checkpoint: Path, cache_dir: Path) -> None:
    engine = Engine.open(config(checkpoint, cache_dir), report=lambda _line: None)
    futures = [engine.submit(like(LARGE, seed=seed)) for seed in range(3)]
    engine.close(drain=True)
    assert all(future.result(0).pixels.shape == (32, 32, 3) for future in futures)


def test_an_engine_that_drops_its_requests_cancels_second_passes(checkpoint: Path, cache_dir: Path) -> None:
    engine = Engine.open(config(checkpoint, cache_dir), report=lambda _line: None)
    told: list[Progress] = []
    future = engine.submit(LARGE, on_progress=told.append)
    engine.close(drain=False)
    assert future.cancelled()
    with pytest.raises(EngineClosed):
        engine.submit(LARGE)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"width": 16, "height": 16}, "second_pass_size"),
        ({"width": 48, "height": 32}, "second_pass_size"),
        ({"strength": 1.5}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"num_inference_steps": 0}, "steps"),
        ({"num_inference_steps": 1000}, "steps"),
    ],
)
def test_a_second_pass_that_is_not_possible_is_refused(
    engine: Engine, changes: dict[str, float], problem: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        engine.submit(like(second_pass=dataclasses.replace(SECOND, **changes)))  # type: ignore[arg-type]
    assert refused.value.problem == problem


def test_a_model_without_a_larger_size_says_so(engine: Engine) -> None:
    with pytest.raises(InvalidRequest) as refused:
        engine.submit(like(width=32, height=48, second_pass=SECOND))
    assert refused.value.problem in ("no_second_pass", "size", "second_pass_size")


def test_a_lane_that_is_not_served_is_refused_before_the_first_pass(
    checkpoint: Path, cache_dir: Path
) -> None:
    only_first = dataclasses.replace(config(checkpoint, cache_dir), lanes=(PLAIN.lane,))
    with (
        Engine.open(only_first, report=lambda _line: None) as engine,
        pytest.raises(InvalidRequest, match="32x32"),
    ):
        engine.submit(LARGE)


def test_the_file_of_a_picture_of_two_passes_has_its_whole_recipe(engine: Engine) -> None:
    [image] = paint(engine, LARGE)
    file = encode_png(image.pixels, image.request)
    assert read_recipe(io.BytesIO(file)) == LARGE
    text = parameters_text(LARGE)
    assert "Size: 16x16" in text
    assert "Denoising strength: 0.6, Hires resize: 32x32, Hires steps: 3, Hires upscaler: Lanczos" in text
