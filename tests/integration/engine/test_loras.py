"""LoRAs in the engine: pictures with different LoRAs share a batch and are as if alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from engines import PLAIN, TINY, like
from lora_files import write_three

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.request import Lora, Request

DEADLINE = 120
ONE, TWO = Lora(name="one"), Lora(name="two", weight=0.7)
DIFFERENT = tuple(
    like(loras=loras)
    for loras in (
        (ONE,),
        (TWO,),
        (),
        (ONE, TWO),
        (dataclasses.replace(TWO, weight=-0.7),),
        (Lora(name="texts"),),
    )
)


@pytest.fixture(scope="module")
def files(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_three(checkpoint, tmp_path_factory.mktemp("loras"))


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def engine(checkpoint: Path, files: dict[str, Path], said: list[str]) -> Iterator[Engine]:
    offer = dataclasses.replace(TINY, loras=tuple(files))
    config = EngineConfig(
        models=(ModelSpec(offer=offer, source=str(checkpoint), loras=files, lora_rank=5),),
        cpu_devices=2,
        seats_per_device=2,
        lanes=(PLAIN.lane,),
        start_pictures=False,
        fitted_programs=True,
    )
    with Engine.open(config, report=said.append) as engine:
        yield engine


def paint(engine: Engine, *requests: Request) -> list[npt.NDArray[np.int64]]:
    futures = [engine.submit(request) for request in requests]
    return [future.result(DEADLINE).pixels.astype(np.int64) for future in futures]


def test_a_picture_is_the_same_alone_and_beside_others_with_other_loras(engine: Engine) -> None:
    """But for rounding: alone it has a program of two rows, and without a LoRA a program without LoRAs."""
    engine.wait_until_ready()
    alone = [paint(engine, request)[0] for request in DIFFERENT]
    for company in (paint(engine, *DIFFERENT), paint(engine, *reversed(DIFFERENT))[::-1]):
        np.testing.assert_allclose(company, alone, rtol=0, atol=1)
    assert len({picture.tobytes() for picture in alone}) == len(DIFFERENT)


def test_a_program_without_loras_is_not_given_their_rows(engine: Engine) -> None:
    engine.wait_until_ready()
    [queue] = engine._thread.queues.values()
    programs = cast("DeviceLane", queue.device)._denoising
    given = {
        str(form): program.memory_analysis().argument_size_in_bytes for form, program in programs.items()
    }
    sizes = "1 row", "2 rows", "4 rows"
    assert given.keys() == {f"{rows}{rest}" for rows in sizes for rest in ("", " without LoRAs")}
    for rows in sizes:
        assert given[f"{rows} without LoRAs"] < given[rows]


def test_a_lora_named_twice_has_the_sum_of_its_weights(engine: Engine) -> None:
    halves = like(loras=(dataclasses.replace(ONE, weight=0.5),) * 2)
    np.testing.assert_array_equal(paint(engine, halves), paint(engine, like(loras=(ONE,))))


def test_the_start_reports_the_memory_of_the_loras(engine: Engine, said: list[str]) -> None:
    assert engine.offers[0].loras == ("one", "two", "texts")
    [line] = [line for line in said if line.startswith("LoRAs of ")]
    assert line.startswith("LoRAs of tiny: one (rank 3), two (rank 2), texts (rank 2): ")
    assert line.endswith("5 rows for each picture")
