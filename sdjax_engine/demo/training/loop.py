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

from sdjax_engine.demo.training.muon import MuonAndAdamW

SAVE_SECONDS = 180.0
LOOK_SECONDS = 1200.0
HURRIED_SECONDS = 60.0
"""Between two saves or looks on an accelerator, which may be lent for minutes only."""
REPORT_STEPS = 50
ENDLESS = 10**9
Module = TypeVar("Module", bound=nn.Module)
Make = Callable[[np.random.Generator, int], Any]
"""Draws the batch of a step: gets a source of chance and the number of pictures."""


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where the training runs: its folder, its device, how many processes draw pictures, and for how long.

    Without `minutes`, a stage ends after its number of pictures; with them, after its part of the time.
    """

    folder: Path
    device: torch.device
    drawers: int = 0
    minutes: float | None = None

    @property
    def batch_factor(self) -> int:
        """How many times the batch of a CPU a batch is; the rate is its fourth root times as high."""
        return 1 if self.device.type == "cpu" else 16

    def interval(self, seconds: float) -> float:
        """Return the time between two saves or looks, given that of a CPU."""
        return seconds if self.device.type == "cpu" else min(seconds, HURRIED_SECONDS)

    def autocast(self) -> torch.autocast:
        """Return the context in which networks compute in bfloat16."""
        return torch.autocast(self.device.type, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Course:
    """The length and the rates of a stage; `pictures` are counted over all batches.

    `part` is the stage's part of the time of a training whose time is given. With `muon`, the hidden matrices
    learn by Muon.
    """

    name: str
    part: float
    pictures: int
    batch: int
    rate: float
    decay: float = 0.999
    weight_decay: float = 1e-3
    muon: bool = False


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
    loss: Callable[[Module, Any], tuple[Tensor, dict[str, Tensor]]],
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
    rate = course.rate * workshop.batch_factor**0.25
    trained = [each for each in module.parameters() if each.requires_grad]
    optimiser: torch.optim.Optimizer | MuonAndAdamW
    if course.muon:
        optimiser = MuonAndAdamW(module, lr=rate, weight_decay=course.weight_decay)
    else:
        optimiser = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.99), weight_decay=course.weight_decay)
    state = _State(workshop.folder / f"{course.name}.state.pt", module, average, optimiser)
    first, spent = state.load()
    torch.manual_seed(first)
    clock = _Clock(course, workshop, size, spent)
    report = _Report(course.name, size, workshop.folder / "log.jsonl")
    saved = looked = time.monotonic()
    step = first
    for step, batch in _batches(make, first, clock.steps, size, workshop):
        progress = clock.progress(step)
        if progress >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = rate * rate_at(progress)
        value, figures = loss(module, batch)
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        _follow(average, module, min(course.decay, (1 + step) / (10 + step)))
        report.add(step, progress, {"loss": value.detach(), **figures})
        if time.monotonic() - saved > workshop.interval(SAVE_SECONDS):
            state.save(step + 1, clock.spent)
            saved = time.monotonic()
        if on_look and time.monotonic() - looked > workshop.interval(LOOK_SECONDS):
            on_look(average, step + 1)
            looked = time.monotonic()
    if on_look:
        on_look(average, step + 1)
    write_whole(finished, average.state_dict())
    state.file.unlink(missing_ok=True)
    return average


def _batches(make: Make, first: int, last: int, size: int, workshop: Workshop) -> Iterator[tuple[int, Any]]:
    data = _Steps(make, first, last, size)
    on_cpu = workshop.device.type == "cpu"
    yield from DataLoader(data, batch_size=None, num_workers=workshop.drawers, pin_memory=not on_cpu)


def rate_at(progress: float, *, warmup: float = 0.01, cooldown: float = 0.3) -> float:
    """Return the part of the highest rate: a rise, a plateau, and a linear fall to a fiftieth.

    A stage on the plateau can be made longer or shorter without loss.
    """
    return min((progress + 1e-4) / warmup, 1.0, 0.02 + 0.98 * (1 - progress) / cooldown)


class _Clock:
    """How much of a stage is over, by its pictures or, if the training's time is given, by its part of it."""

    def __init__(self, course: Course, workshop: Workshop, size: int, spent: float) -> None:
        self._seconds = workshop.minutes and workshop.minutes * 60 * course.part
        self._began = time.monotonic() - spent
        self.steps = course.pictures // size if self._seconds is None else ENDLESS

    @property
    def spent(self) -> float:
        """Seconds since the stage began, without those between a stop and the next start."""
        return time.monotonic() - self._began

    def progress(self, step: int) -> float:
        """Return the part that is over, from 0 to 1."""
        return step / self.steps if self._seconds is None else self.spent / self._seconds


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
    optimiser: torch.optim.Optimizer | MuonAndAdamW

    def save(self, step: int, spent: float) -> None:
        parts = (self.module, self.average, self.optimiser)
        kept = {"step": step, "spent": spent, "parts": [part.state_dict() for part in parts]}
        write_whole(self.file, kept)

    def load(self) -> tuple[int, float]:
        """Take up the kept state, if there is one; return the step to go on with and the seconds spent."""
        if not self.file.exists():
            return 0, 0.0
        kept = torch.load(self.file, map_location=next(self.module.parameters()).device)
        for part, state in zip((self.module, self.average, self.optimiser), kept["parts"], strict=True):
            part.load_state_dict(state)
        return kept["step"], kept["spent"]


class _Report:
    """Prints and keeps a line of mean figures every few steps."""

    def __init__(self, stage: str, size: int, file: Path) -> None:
        self._stage, self._size, self._file = stage, size, file
        self._figures: list[dict[str, Tensor]] = []
        self._since = time.monotonic()

    def add(self, step: int, progress: float, figures: dict[str, Tensor]) -> None:
        self._figures.append(figures)  # tensors: to read their numbers at every step would hold up a GPU
        if len(self._figures) < REPORT_STEPS:
            return
        means = {
            key: round(torch.stack([each[key] for each in self._figures]).mean().item(), 5) for key in figures
        }
        speed = len(self._figures) * self._size / (time.monotonic() - self._since)
        line = json.dumps(
            {"stage": self._stage, "step": step + 1, "done": round(progress, 4), **means}
            | {"pictures/s": round(speed, 2)}
        )
        print(line, flush=True)
        with self._file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
        self._figures, self._since = [], time.monotonic()
