"""Previews of a real network: they arrive with the progress and change no picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engines import PLAIN, fingerprint, like, tiny_config

from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Progress, Request, Sampler

DEADLINE = 120.0
STEPS = 12


@pytest.fixture(scope="module")
def previewing(checkpoint: Path, cache_dir: Path) -> Iterator[Engine]:
    """An engine that makes a preview after every run."""
    config = tiny_config(
        checkpoint,
        cache_dir=cache_dir,
        lanes=(PLAIN.lane,),
        start_pictures=False,
        preview_seconds=1e-6,
        preview_share=1e6,
    )
    with Engine.open(config, report=lambda _line: None) as engine:
        yield engine


def paint(engine: Engine, request: Request, *, previews: bool = True) -> tuple[Image, list[Progress]]:
    told: list[Progress] = []
    image = engine.submit(request, on_progress=told.append, previews=previews).result(DEADLINE)
    return image, [progress for progress in told if progress.preview is not None]


@pytest.mark.parametrize("sampler", [Sampler.DDIM, Sampler.PNDM, Sampler.EULER_ANCESTRAL])
def test_previews_come_with_the_progress_and_the_picture_stays_the_same(
    previewing: Engine, sampler: Sampler
) -> None:
    request = like(num_inference_steps=STEPS, sampler=sampler, seed=11)
    plain, none = paint(previewing, request, previews=False)
    image, told = paint(previewing, request)
    assert none == []
    assert fingerprint(image) == fingerprint(plain)
    assert told, "no preview came"
    assert all(0 < progress.step < STEPS for progress in told)
    shapes = {
        (progress.preview.shape, str(progress.preview.dtype))
        for progress in told
        if progress.preview is not None
    }
    assert shapes == {((8, 8, 3), "uint8")}
