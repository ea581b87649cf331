"""Once everything is ready, no request of a varied hour traces or compiles a program."""

from __future__ import annotations

import dataclasses
import io
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest
from compilations import counted_compilations
from engines import PLAIN, SUITED, TINY, like
from lora_files import write_three
from PIL import Image as Pictures

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.request import Image, Lane, Lora, Request

DEADLINE = 120.0
SECONDS = 10.0
MOST = 80
SIZES = ((16, 16), (24, 16))
GUIDANCE = {(16, 16): (1.0, 1.0, 1.5, 12.5), (24, 16): (0.0, 1.0)}
INTERVALS = ((0.0, 1.0), (0.0, 0.6), (0.3, 0.8))
FEW_STEPS, MANY_STEPS = (1, 2, 3, 5, 8, 13), (30, 50)  # LCM has 50 at most
WORDS = ("red", "circle", "(star:1.3)", "검은", "blue", "[small]", "and", "white")
WORDS_FOR_CHUNKS = (3, 60, 150)  # one chunk, two chunks, and more than three


pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    files = write_three(checkpoint, tmp_path_factory.mktemp("loras"))
    offer = dataclasses.replace(TINY, sizes=SIZES, loras=tuple(files))
    spec = ModelSpec(offer=offer, source=str(checkpoint), loras=files, lora_rank=5)
    lanes = tuple(
        Lane(model=TINY.model, width=width, height=height, guided=guided)
        for width, height in SIZES
        for guided in sorted({scale > 1 for scale in GUIDANCE[width, height]})
    )
    config = EngineConfig(
        models=(spec,), cpu_devices=2, seats_per_device=2, lanes=lanes, fitted_programs=True
    )
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        yield engine


def file_of(picture: Pictures.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


START = file_of(Pictures.radial_gradient("L").resize((40, 40)).convert("RGB"))
MASK = file_of(Pictures.linear_gradient("L").resize((40, 40)))


def wish(chance: random.Random) -> Request:
    """Return a random valid request."""

    def text() -> str:
        return " ".join(chance.choices(WORDS, k=chance.choice(WORDS_FOR_CHUNKS)))

    names = chance.choice(((), (), ("one",), ("two",), ("texts",), ("one", "two")))
    width, height = chance.choice(SIZES)
    from_picture = chance.random() < 0.25
    return like(
        PLAIN,
        prompt=text(),
        negative_prompt=text() if chance.random() < 0.5 else "",
        seed=chance.randrange(2**32),
        num_inference_steps=chance.choice(FEW_STEPS if chance.random() < 0.9 else MANY_STEPS),
        guidance_scale=chance.choice(GUIDANCE[width, height]),
        sampler=chance.choice(SUITED),
        width=width,
        height=height,
        loras=tuple(Lora(name=name, weight=chance.uniform(-1, 1)) for name in names),
        init_image=START if from_picture else None,
        mask_image=MASK if from_picture and chance.random() < 0.5 else None,
        strength=chance.uniform(0.3, 1.0) if from_picture else 1.0,
        guidance_interval=chance.choice(INTERVALS),
    )


def test_a_varied_hour_compiles_nothing(engine: Engine) -> None:
    """Requests arrive alone and in bursts; some are cancelled while they wait or run."""
    chance = random.Random(2026)
    seats = engine.capacity(PLAIN.lane)
    asked: list[tuple[Request, Future[Image]]] = []
    ends = time.monotonic() + SECONDS
    with counted_compilations() as made:
        while len(asked) < MOST and time.monotonic() < ends:
            crowd = [wish(chance) for _ in range(chance.randint(1, 3 * seats))]
            futures = [engine.submit(request) for request in crowd]
            asked += zip(crowd, futures, strict=True)
            if chance.random() < 0.3:
                engine.cancel(chance.choice(futures))
            wait(futures[: chance.randint(0, len(futures))], DEADLINE)
        assert wait([future for _, future in asked], DEADLINE).not_done == set()
    assert made == []
    painted = [(request, future.result()) for request, future in asked if not future.cancelled()]
    assert all(image.pixels.shape == (request.height, request.width, 3) for request, image in painted)
    assert {request.lane for request, _ in painted} == set(engine.lanes)
    assert len(painted) > 30
