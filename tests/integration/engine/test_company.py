"""A picture depends on its request only: not on company, seat, time of joining, or number of devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from paint_in_company import PAINTED

SCRIPT = Path(__file__).with_name("paint_in_company.py")
ROOT = Path(__file__).parents[3]
SEATS_PER_DEVICE = 2
OPTIMISED = "--xla_backend_optimization_level=1 --xla_cpu_parallel_codegen_split_count=1"
"""XLA_FLAGS with which XLA vectorises and fuses, as by default in a bot; other tests compile without."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


class Painter:
    """Paints with one checkpoint, each time in another process."""

    def __init__(self, program: subprocess.Popen[str], checkpoint: Path, cache_dir: Path) -> None:
        self._program = program
        self._checkpoint = checkpoint
        self._cache_dir = cache_dir

    def paint(
        self,
        devices: int,
        *ways: str,
        dtype: str = "float32",
        fitted_programs: bool = False,
        flags: str = OPTIMISED,
        cache_dir: Path | None = None,
    ) -> dict[str, Any]:
        """Return what the program says, once it has painted on so many devices."""
        of_engine = (self._checkpoint, devices, SEATS_PER_DEVICE, dtype, fitted_programs)
        wanted = [flags, *map(str, (*of_engine, cache_dir or self._cache_dir, *ways))]
        told, saying = self._program.stdin, self._program.stdout
        assert told is not None
        assert saying is not None
        told.write(json.dumps(wanted) + "\n")
        told.flush()
        line = saying.readline()
        assert line, "the program has ended; its errors are those of the test"
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture(scope="module")
def painter(checkpoint: Path, cache_dir: Path) -> Iterator[Painter]:
    """A program that has imported the engine."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        yield Painter(program, checkpoint, cache_dir)
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait() == 0


@pytest.fixture(scope="module")
def on_two(painter: Painter) -> dict[str, Any]:
    ways = "alone", "in_company", "in_every_seat", "joined_late", "between_lanes"
    return painter.paint(2, *ways)


def test_company_seat_time_of_joining_and_other_lanes_change_no_picture(on_two: dict[str, Any]) -> None:
    assert on_two["capacity"] == 4
    assert [len(different) for different in on_two["pictures"]] == [1] * len(PAINTED)


@pytest.mark.parametrize("devices", [1, 8])
def test_the_number_of_devices_changes_no_picture(
    devices: int, on_two: dict[str, Any], painter: Painter
) -> None:
    answer = painter.paint(devices, "in_company")
    assert answer["capacity"] == SEATS_PER_DEVICE * devices
    assert answer["pictures"] == on_two["pictures"]
    assert programs_of(answer, "compiled") == set()


def test_fitted_programs_change_pictures_only_by_rounding(on_two: dict[str, Any], painter: Painter) -> None:
    """Guided and unguided pictures share a lane, and a picture's programs depend on its company."""
    answer = painter.paint(2, "alone", "in_company", "joined_late", fitted_programs=True)
    assert programs_of(answer, "compiled") == {
        "tiny:16x16:guided denoise, 1 row",
        "tiny:16x16:guided denoise, 2 rows",
    }
    assert {line for line in answer["said"] if "unguided" in line} == set()
    assert answer["lanes"] == ["tiny:16x16:guided", "tiny:16x16:unguided"]
    assert answer["made_once_ready"] == []
    assert largest_difference(answer, on_two) <= 1


def test_pictures_in_bfloat16_are_reproducible_and_close_to_float32(
    on_two: dict[str, Any], painter: Painter, tmp_path: Path
) -> None:
    quick = os.environ["XLA_FLAGS"]
    # In a cache folder of its own: programs of other flags would replace those of the other tests.
    ways = "alone", "in_company"
    answer = painter.paint(2, *ways, dtype="bfloat16", flags=quick, cache_dir=tmp_path)
    assert [len(different) for different in answer["pictures"]] == [1] * len(PAINTED)
    assert 0 < largest_difference(answer, on_two) < 64


def largest_difference(some: dict[str, Any], others: dict[str, Any]) -> int:
    """The largest difference of any value of the pictures, from 0 to 255."""
    pairs = zip(some["pictures"], others["pictures"], strict=True)
    return max(int(np.abs(pixels(one) - pixels(other)).max()) for ones, [other] in pairs for one in ones)


def pixels(picture: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(bytes.fromhex(picture), np.uint8).astype(np.int64)


def test_a_second_start_changes_no_picture_and_traces_and_compiles_nothing(
    on_two: dict[str, Any], painter: Painter
) -> None:
    assert on_two["made"]
    answer = painter.paint(2, "in_company")
    assert answer["pictures"] == on_two["pictures"]
    assert answer["made"] == []
    assert not answer["imported_flax"]
    assert programs_of(answer, "loaded") == programs_of(on_two, "compiled")


def programs_of(answer: dict[str, Any], verb: str) -> set[str]:
    """The programs that a start says to have compiled, or loaded."""
    lines = [line.split(" in ")[0] for line in answer["said"]]
    return {line.removeprefix(f"{verb} ") for line in lines if line.startswith(f"{verb} ")}


def test_the_start_reports_its_steps(on_two: dict[str, Any]) -> None:
    said = on_two["said"]
    assert said[0].startswith("2 devices: cpu")
    assert "on the CPU, not on an accelerator, because" in said[1]
    assert said[2].startswith("attention: XLA, head by head")
    assert said[3].startswith("loading tiny from ")
    assert said[4].startswith("tiny has no safety checker")
    assert programs_of(on_two, "compiled") == {
        "tiny encode",
        "tiny:16x16 begin",
        "tiny:16x16 take",
        "tiny:16x16 decode",
        "tiny:16x16:guided empty",
        "tiny:16x16:guided admit",
        "tiny:16x16:guided condition",
        "tiny:16x16:guided denoise",
        "tiny:16x16:unguided empty",
        "tiny:16x16:unguided admit",
        "tiny:16x16:unguided condition",
        "tiny:16x16:unguided denoise",
    }
    first, *_, last = [line for line in said if "ready" in line]
    assert first.startswith("ready for tiny:16x16:guided after ")
    assert said.index(first) < said.index(next(line for line in said if "unguided" in line))
    assert last.startswith("everything ready after ")
