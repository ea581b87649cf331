"""The demo's training goes on where it was stopped."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sdjax_engine.demo.training import loop
from sdjax_engine.demo.training.loop import Course, Workshop, taught

COURSE = Course(name="line", part=0.5, pictures=160, batch=4, rate=0.01)
STOPPED_AT = 23


class Killed(Exception):
    """The training's process ends."""


def make(rng: np.random.Generator, count: int) -> Tensor:
    return torch.from_numpy(rng.normal(size=(count, 3)).astype(np.float32))


def loss(module: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    return (module(x) - x.sum(1, keepdim=True)).square().mean(), {}


def started(
    folder: Path, *, stop_at: int | None = None, minutes: float | None = None, muon: bool = False
) -> dict[str, Tensor]:
    torch.manual_seed(0)
    module = nn.Sequential()
    module.add_module("layers", nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)))
    steps = 0

    def drawn(rng: np.random.Generator, count: int) -> Tensor:
        nonlocal steps
        steps += 1
        if steps == stop_at:
            raise Killed
        return make(rng, count)

    workshop = Workshop(folder=folder, device=torch.device("cpu"), minutes=minutes)
    course = replace(COURSE, muon=muon)
    return taught(module, course, workshop, make=drawn, loss=loss).state_dict()


@pytest.mark.parametrize("muon", [False, True])
def test_a_stopped_training_comes_to_the_weights_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, muon: bool
) -> None:
    monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    whole.mkdir()
    halved.mkdir()
    expected = started(whole, muon=muon)
    with pytest.raises(Killed):
        started(halved, stop_at=STOPPED_AT, muon=muon)
    found = started(halved, muon=muon)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_finished_stage_is_read_and_not_trained_again(tmp_path: Path) -> None:
    expected = started(tmp_path)
    found = started(tmp_path, stop_at=1)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_stage_of_a_training_with_a_time_ends_after_its_part_however_few_its_steps(tmp_path: Path) -> None:
    began = time.monotonic()
    started(tmp_path, minutes=1 / 60)
    assert time.monotonic() - began >= COURSE.part
    assert (tmp_path / f"{COURSE.name}.pt").exists()
