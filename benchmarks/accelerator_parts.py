"""The parts of `accelerator.py`: which benchmarks run on which device, for how long at most."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerator_page import Outcome

DEVICES = ("cpu", "gpu", "tpu")
PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
"""JAX's platforms for each device: one that cannot be used is an error, never the CPU in its place."""
GOALS = (
    "Goals on an H200: SD 1.5 11.4 pictures/s, SDXL 1.69 pictures/s, and 1.2 times compiled torch. "
    "The limit of TFLOP/s was measured on an H200, not in this run."
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A benchmark in a process of its own: a script of this folder, its arguments, and its time limit."""

    title: str
    script: str
    arguments: tuple[str, ...]
    most_seconds: float
    note: str = ""

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        return [sys.executable, str(Path(__file__).parent / self.script), *self.arguments]

    @property
    def shown(self) -> str:
        """The command as the page shows it."""
        return shlex.join(["python", f"benchmarks/{self.script}", *self.arguments])

    def outcome(self, status: int | None, seconds: float, output: str) -> Outcome:
        """Return the result of one run of the part."""
        return Outcome(
            title=self.title,
            command=self.shown,
            status=status,
            seconds=seconds,
            output=output,
            note=self.note,
        )


def parts_for(device: str, torch_python: str | None, room: str) -> tuple[Part, ...]:
    """Return the parts for a device; `room` is a folder for checkpoints.

    `torch_python` is the Python that paints with torch (None: this one).
    """
    torch = ("--torch-python", torch_python) if torch_python else ()
    return rehearsal(torch) if device == "cpu" else measurements(device, torch, room)


def rehearsal(torch: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts for the CPU: each benchmark once, with the demo checkpoint or one small shape."""
    return (
        Part(
            title="parity",
            script="accelerator_parity.py",
            arguments=("--on", "cpu", *torch),
            most_seconds=900,
        ),
        Part(
            title="dispatch",
            script="accelerator_dispatch.py",
            arguments=("--checkpoint", "demo", "--size", "128", "--guidance", "2.2", "--waves", "2"),
            most_seconds=900,
        ),
        Part(
            title="pictures a second",
            script="engine.py",
            arguments=("--on", "cpu", "--like", "demo", "--peers", "torch,compiled", "--rounds", "1", *torch),
            most_seconds=900,
        ),
        Part(
            title="attention",
            script="attention.py",
            arguments=("--dtype", "float32", "--rows", "1", "--repeats", "2", "--shape", "SD 1.5, 256x256"),
            most_seconds=900,
        ),
        Part(title="start", script="startup.py", arguments=("--guidance", "2.2"), most_seconds=900),
    )


def measurements(device: str, torch: Sequence[str], room: str) -> tuple[Part, ...]:
    """Return the parts for an accelerator, at the true sizes; a TPU has no peers on torch."""
    peers = "torch,compiled" if device == "gpu" else ""
    sd15 = ("--checkpoint", "sd15", "--room", room, "--dtype", "bfloat16", "--guidance", "7.5")
    sdxl = ("--checkpoint", "sdxl", "--room", room, "--dtype", "bfloat16", "--guidance", "5.0")
    return (
        Part(
            title="parity",
            script="accelerator_parity.py",
            arguments=("--on", device, *torch),
            most_seconds=1200,
        ),
        Part(
            title="pictures a second",
            script="engine.py",
            arguments=("--on", "gpu", "--peers", peers, "--room", room, *torch),
            most_seconds=7200,
            note=GOALS if device == "gpu" else "The table's limit is an H200's; compiled torch needs a GPU.",
        ),
        Part(
            title="dispatch, SD 1.5 at 512²",
            script="accelerator_dispatch.py",
            arguments=(*sd15, "--size", "512"),
            most_seconds=1800,
        ),
        Part(
            title="dispatch, SDXL at 1024²",
            script="accelerator_dispatch.py",
            arguments=(*sdxl, "--size", "1024"),
            most_seconds=3600,
        ),
        Part(title="attention", script="attention.py", arguments=(), most_seconds=1800),
        Part(
            title="start, demo at 128²",
            script="startup.py",
            arguments=("--guidance", "2.2", "--dtype", "bfloat16"),
            most_seconds=1800,
        ),
        Part(
            title="start, SD 1.5 at 512²",
            script="startup.py",
            arguments=(
                *("--checkpoint", f"{room}/sd15", "--size", "512x512", "--guidance", "7.5"),
                *("--dtype", "bfloat16"),
            ),
            most_seconds=3600,
        ),
    )
