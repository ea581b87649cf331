"""Previews of a real network: they arrive with the progress and change no picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engines import PLAIN, fingerprint, like, tiny_config

from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Progress, Request, Sampler

DEADLINE = 120.0
STEPS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("previews")


@pytest.fixture(scope="module")
def previewing(checkpoint: Path, folder: Path) -> Iterator[Engine]:
    """An engine that makes a preview after every run, and knows the colours from one picture."""
    config = tiny_config(
        checkpoint,
        cache_dir=folder,
        lanes=(PLAIN.lane,),
        start_pictures=False,
        preview_seconds=1e-6,
        preview_share=1e6,
    )
    with Engine.open(config, report=lambda _line: None) as engine:
        paint(engine, PLAIN)
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


def test_last_previews_have_their_colours_where_their_own_pictures_have_them(previewing: Engine) -> None:
    pictures, last = [], []
    for seed in (21, 22, 23, 24):
        image, told = paint(previewing, like(num_inference_steps=STEPS, seed=seed))
        pictures.append(image.pixels.reshape(8, 2, 8, 2, 3).mean(axis=(1, 3)))
        last.append(np.asarray(told[-1].preview, float))
    placed = [(each - each.mean(axis=(0, 1))).ravel() for each in (*last, *pictures)]
    likeness = np.corrcoef(placed)[:4, 4:]  # of each preview with each picture
    own = likeness.diagonal().mean()
    others = likeness[~np.eye(4, dtype=bool)].mean()
    assert own > others + 0.1


def test_the_colours_are_kept_beside_the_programs(previewing: Engine, folder: Path) -> None:
    paint(previewing, PLAIN)
    [kept] = (folder / "previews").iterdir()
    assert kept.stat().st_size > 0
    assert not previewing.checks_pictures("tiny")
