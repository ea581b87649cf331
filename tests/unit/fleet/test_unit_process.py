"""The process of a unit: started, told apart by its phase, restarted, drained, and ended with its parent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bot.fleet import unit_process
from bot.fleet.launch import Launch
from bot.fleet.planning import Phase
from bot.fleet.unit_process import UnitProcess

ROOT = Path(__file__).parents[3]
WORKS = """
import pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
folder, arguments = pathlib.Path({folder!r}), sys.argv[1:]
config, ready = (arguments[arguments.index(name) + 1] for name in ("--config", "--ready-file"))
(folder / "arguments").write_text(" ".join([arguments[0], *arguments[5:]]))
(folder / "config").write_text(pathlib.Path(config).read_text())
(folder / "mode").write_text(oct(pathlib.Path(config).stat().st_mode & 0o777))
pathlib.Path(ready).touch()
signal.sigwait([signal.SIGTERM])
(folder / "drained").touch()
"""
FAILS = "import sys; sys.exit('The disk is full.')"


def launch(program: str, **values: object) -> Launch:
    whole = {
        "group": "cpu",
        "generation": "one",
        "command": (sys.executable, "-S", "-c", program),
        "role": "worker",
        "arguments": ("--accelerator", "cpu"),
        "config": "[queue]\n",
    }
    return Launch(**{**whole, **values})  # type: ignore[arg-type]


def wait_for(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.01)


def test_a_unit_runs_the_command_until_it_is_drained(tmp_path: Path) -> None:
    unit = UnitProcess(launch(WORKS.format(folder=str(tmp_path))))
    wait_for(lambda: unit.state().phase is Phase.PAINTING)
    assert (tmp_path / "arguments").read_text() == "worker --accelerator cpu"
    assert (tmp_path / "config").read_text() == "[queue]\n"
    assert (tmp_path / "mode").read_text() == "0o600", "the configuration may hold a password"
    unit.drain()
    unit.drain()  # a second signal would end a worker at once
    wait_for(lambda: unit.state().phase is Phase.ENDED)
    assert (tmp_path / "drained").exists()
    assert unit.state().restarts == 0


def test_a_process_that_fails_is_restarted_and_tells_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(unit_process, "FIRST_PAUSE", 0.01)
    log = tmp_path / "log"
    log.write_text("Before it.\nThe disk is full.\n")
    monkeypatch.setattr(unit_process, "LOG", log)
    unit = UnitProcess(launch(FAILS))
    wait_for(lambda: unit.state().restarts > 1)
    assert unit.state().phase is Phase.STARTING
    assert unit.state().trouble == "The disk is full. (status 1)"
    unit.drain()
    wait_for(lambda: unit.state().phase is Phase.ENDED)


def test_a_command_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = UnitProcess(launch("", command=("/no/such/program",)))
    wait_for(lambda: unit.state().restarts > 0)
    assert "(status 1)" in unit.state().trouble
    unit.drain()
    wait_for(lambda: unit.state().phase is Phase.ENDED)


def test_a_full_disk_ends_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unit_process.tempfile, "TemporaryDirectory", full)
    unit = UnitProcess(launch(FAILS))
    wait_for(lambda: unit.state().restarts > 0)
    assert "No space left on device" in unit.state().trouble
    unit.drain()


PARENT = """
import time
from bot.fleet.launch import Launch
from bot.fleet.unit_process import UnitProcess
unit = UnitProcess(
    Launch(group="cpu", generation="one", command={command!r}, role="worker", arguments=(), config="")
)
time.sleep(60)
"""


def test_a_process_drains_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-S", "-c", WORKS.format(folder=str(tmp_path)))
    program = [sys.executable, "-c", PARENT.format(command=command)]
    parent = subprocess.Popen(program, env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_for((tmp_path / "mode").exists)
    (child,) = psutil.Process(parent.pid).children()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for((tmp_path / "drained").exists)
    with contextlib.suppress(psutil.NoSuchProcess):
        child.wait(20)
