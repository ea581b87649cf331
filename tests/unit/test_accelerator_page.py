"""The run of `make accelerator`: its parts, what becomes of each, and the page of results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from accelerator import end_session, run
from accelerator_page import LINES_SHOWN, Outcome, page
from accelerator_parts import DEVICES, Part, parts_for

CONDITIONS = {"device": "1 x H200", "driver": "580.1 | CUDA 13"}


def outcome(status: int | None, output: str) -> Outcome:
    return Outcome(title="attention", command="python x.py", status=status, seconds=61.4, output=output)


def part(tmp_path: Path, code: str, most_seconds: float = 30.0) -> Part:
    script = tmp_path / "part.py"
    script.write_text(code)
    return Part(title="a part", script=str(script), arguments=("--x",), most_seconds=most_seconds)


def test_a_page_has_the_conditions_a_line_for_each_part_and_their_output() -> None:
    told = page(CONDITIONS, [outcome(0, "| a | b |\n"), outcome(3, "Traceback\nValueError: no kernel\n\n")])
    for line in (
        "1 of 2 parts failed.",
        "| driver | 580.1 \\| CUDA 13 |",
        "| attention | ran | 61 |",
        "| attention | failed with status 3: ValueError: no kernel | 61 |",
        "| a | b |",
    ):
        assert line in told.splitlines()


def test_a_page_says_that_every_part_ran() -> None:
    assert "Every part ran." in page(CONDITIONS, [outcome(0, "")]).splitlines()


@pytest.mark.parametrize(
    ("status", "output", "verdict"),
    [
        (None, "half of it", "failed: no end after 61 s"),
        (1, "  \n", "failed with status 1: it said nothing"),
        (-9, "x" * 999, f"failed with status -9: {'x' * 200}"),
    ],
)
def test_a_failed_part_says_why(status: int | None, output: str, verdict: str) -> None:
    assert outcome(status, output).verdict == verdict


def test_output_is_shown_from_its_end_and_ends_no_block_before_its_own() -> None:
    lines = [f"line {number}" for number in range(LINES_SHOWN + 5)]
    told = page(CONDITIONS, [outcome(0, "\n".join([*lines, "```", "after"]))]).splitlines()
    assert told[-LINES_SHOWN - 2 : -LINES_SHOWN] == ["````", "line 7"]
    assert told[-3:] == ["```", "after", "````"]


def test_a_part_that_fails_has_its_status_and_all_it_said(tmp_path: Path) -> None:
    code = "import sys; print('out', sys.argv[1], flush=True); sys.exit('no device')"
    became = run(part(tmp_path, code), {**os.environ})
    assert (became.status, became.output) == (1, "out --x\nno device\n")


def test_a_part_that_does_not_end_in_its_time_has_no_status(tmp_path: Path) -> None:
    assert (
        run(part(tmp_path, "import time; time.sleep(600)", most_seconds=0.1), {**os.environ}).status is None
    )


def test_the_processes_of_a_part_end_with_it() -> None:
    """Both processes hold the pipe open for writing as long as they live: its reader sees when they end."""
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('begun', flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == b"begun\n"
        end_session(process)
        assert output.read() == b""


@pytest.mark.parametrize("device", DEVICES)
def test_every_device_has_parity_dispatching_speed_attention_and_a_start(device: str) -> None:
    parts = parts_for(device, "/torch/python", "/room")
    scripts = {each.script for each in parts}
    assert scripts == {
        "accelerator_parity.py",
        "accelerator_dispatch.py",
        "engine.py",
        "attention.py",
        "startup.py",
    }
    for each in parts:
        assert Path(each.command[1]).is_file()
    [speed] = [each for each in parts if each.script == "engine.py"]
    peers = speed.arguments[speed.arguments.index("--peers") + 1]
    assert peers == ("" if device == "tpu" else "torch,compiled")
