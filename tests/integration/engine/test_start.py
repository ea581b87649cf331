"""An engine that cannot work as it is configured does not start, and says why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from engines import TINY, like, tiny_config

from sdjax_engine.engine import Engine
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.programs import Compiler
from sdjax_engine.request import InvalidRequest, Sampler, UnreadableCheckpoint
from sdjax_engine.weights import load_checkpoint


def changed(checkpoint: Path, folder: Path, **scheduler_config: Any) -> Path:
    """A copy of the checkpoint whose scheduler's settings are other ones."""
    copy = shutil.copytree(checkpoint, folder / "changed")
    file = copy / "scheduler" / "scheduler_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | scheduler_config))
    return copy


def test_a_schedule_that_the_offered_sampler_cannot_follow_is_refused_at_the_start(
    checkpoint: Path, tmp_path: Path
) -> None:
    copy = changed(checkpoint, tmp_path, prediction_type="flow_prediction")
    with pytest.raises(UnreadableCheckpoint, match="prediction_type"):
        Engine.open(tiny_config(copy, cache_dir=None), report=lambda _line: None)


def test_a_sampler_that_does_not_suit_the_checkpoint_is_refused_at_the_door(
    checkpoint: Path, compiler: Compiler, tmp_path: Path
) -> None:
    copy = changed(checkpoint, tmp_path, prediction_type="sample")
    model = LoadedModel(TINY, load_checkpoint(str(copy)), compiler)
    model.prepare(like(sampler=Sampler.EULER))
    with pytest.raises(InvalidRequest, match="choose one of ddim, euler, "):
        model.prepare(like(sampler=Sampler.PNDM))
