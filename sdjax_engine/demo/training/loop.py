"""The loop of every stage of the training: it goes on where it was stopped, whenever that was.

A stage keeps its weights, their running average, the optimiser and the step in one file, which it replaces
every few minutes. What is drawn in a step depends on the step alone.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

SAVE_SECONDS = 180.0
LOOK_SECONDS = 1200.0
REPORT_STEPS = 50
Module = TypeVar("Module", bound=nn.Module)
Make = Callable[[np.random.Generator, int], Any]
"""Draws the batch of a step: gets a source of chance and the number of pictures."""


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where the training runs: its folder, its device, and how many processes draw pictures."""

    folder: Path
    device: torch.device
    drawers: int = 0

    @property
    def batch_factor(self) -> int:
        """How many times the batch of a CPU a batch is."""
        return 1 if self.device.type == "cpu" else 8

    def autocast(self) -> torch.autocast:
        """Return the context in which networks compute in bfloat16."""
        return torch.autocast(self.device.type, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Course:
    """The length and the rates of a stage; `pictures` are counted over all batches."""

    name: str
    pictures: int
    batch: int
    rate: float
    decay: float = 0.999
    weight_decay: float = 1e-3


class _Steps(Dataset[Any]):
    """The batches of the steps from `first` on, as data that processes can make."""

    def __init__(self, make: Make, first: int, last: int, size: int) -> None:
        self._make, self._first, self._last, self._size = make, first, last, size

    def __len__(self) -> int:
        return self._last - self._first

    def __getitem__(self, index: int) -> Any:
        step = self._first + index
        return step, self._make(np.random.default_rng([77, step]), self._size)


def taught(
    module: Module,
    course: Course,
    workshop: Workshop,
    *,
    make: Make,
    loss: Callable[[Module, Any], tuple[Tensor, dict[str, float]]],
    on_look: Callable[[Module, int], None] | None = None,
) -> Module:
    """Train a module and return the running average of its weights, in evaluation mode.

    `loss` returns what to minimise for a batch, and figures to report. `on_look` gets the average and the
    step at intervals and at the end. A finished stage is read from its file.
    """
    finished = workshop.folder / f"{course.name}.pt"
    average = copy.deepcopy(module).to(workshop.device).eval().requires_grad_(False)
    if finished.exists():
        average.load_state_dict(torch.load(finished, map_location=workshop.device))
        return average
    module.to(workshop.device).train()
    size = course.batch * workshop.batch_factor
    steps = course.pictures // size
    trained = [each for each in module.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(
        trained, lr=course.rate, betas=(0.9, 0.99), weight_decay=course.weight_decay
    )
    state = _State(workshop.folder / f"{course.name}.state.pt", module, average, optimiser)
    first = state.load()
    torch.manual_seed(first)
    report = _Report(course.name, steps, size, workshop.folder / "log.jsonl")
    saved = looked = time.monotonic()
    for step, batch in _batches(make, first, steps, size, workshop):
        for group in optimiser.param_groups:
            group["lr"] = course.rate * rate_at(step / steps)
        value, figures = loss(module, batch)
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        _follow(average, module, min(course.decay, (1 + step) / (10 + step)))
        report.add(step, {"loss": value.item(), **figures})
        if time.monotonic() - saved > SAVE_SECONDS:
            state.save(step + 1)
            saved = time.monotonic()
        if on_look and time.monotonic() - looked > LOOK_SECONDS:
            on_look(average, step + 1)
            looked = time.monotonic()
    if on_look:
        on_look(average, steps)
    write_whole(finished, average.state_dict())
    state.file.unlink(missing_ok=True)
    return average


def _batches(make: Make, first: int, last: int, size: int, workshop: Workshop) -> Iterator[tuple[int, Any]]:
    data = _Steps(make, first, last, size)
    yield from DataLoader(data, batch_size=None, num_workers=workshop.drawers)


def rate_at(progress: float, *, warmup: float = 0.01, cooldown: float = 0.3) -> float:
    """Return the part of the highest rate: a rise, a plateau, and a linear fall to a fiftieth.

    A stage on the plateau can be made longer or shorter without loss.
    """
    return min((progress + 1e-4) / warmup, 1.0, 0.02 + 0.98 * (1 - progress) / cooldown)


@torch.no_grad()
def _follow(average: nn.Module, module: nn.Module, decay: float) -> None:
    torch._foreach_lerp_(
        [each.data for each in average.parameters()], [each.data for each in module.parameters()], 1 - decay
    )


def write_whole(file: Path, kept: Any) -> None:
    """Write a file that is there either whole or not at all."""
    part = file.with_suffix(".part")
    torch.save(kept, part)
    part.replace(file)


@dataclass(frozen=True)
class _State:
    file: Path
    module: nn.Module
    average: nn.Module
    optimiser: torch.optim.Optimizer

    def save(self, step: int) -> None:
        parts = (self.module, self.average, self.optimiser)
        write_whole(self.file, {"step": step, "parts": [part.state_dict() for part in parts]})

    def load(self) -> int:
        """Take up the kept state, if there is one, and return the step to go on with."""
        if not self.file.exists():
            return 0
        kept = torch.load(self.file, map_location=next(self.module.parameters()).device)
        for part, state in zip((self.module, self.average, self.optimiser), kept["parts"], strict=True):
            part.load_state_dict(state)
        step: int = kept["step"]
        return step


class _Report:
    """Prints and keeps a line of mean figures every few steps."""

    def __init__(self, stage: str, steps: int, size: int, file: Path) -> None:
        self._stage, self._steps, self._size, self._file = stage, steps, size, file
        self._figures: list[dict[str, float]] = []
        self._since = time.monotonic()

    def add(self, step: int, figures: dict[str, float]) -> None:
        self._figures.append(figures)
        if len(self._figures) < REPORT_STEPS and step + 1 < self._steps:
            return
        means = {key: round(float(np.mean([each[key] for each in self._figures])), 5) for key in figures}
        seconds = time.monotonic() - self._since
        speed = len(self._figures) * self._size / seconds
        left = (self._steps - step - 1) * seconds / len(self._figures) / 3600
        line = json.dumps(
            {"stage": self._stage, "step": step + 1, "of": self._steps, **means}
            | {"pictures/s": round(speed, 2), "hours left": round(left, 2)}
        )
        print(line, flush=True)
        with self._file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
        self._figures, self._since = [], time.monotonic()
