"""An engine with an impossible configuration does not start, and gives the reason."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import jax
import pytest
from checkpoints import FAMILIES, make_tiny_checkpoint
from engines import TINY, like, tiny_config

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.engine import Engine
from sdjax_engine.errors import DevicesFailed, InvalidRequest, UnreadableCheckpoint
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.model.defaults import default_offer
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Sampler
from sdjax_engine.weights import load_checkpoint


def changed(checkpoint: Path, folder: Path, **scheduler_config: Any) -> Path:
    """A copy of the checkpoint with these settings of its scheduler changed."""
    copy = shutil.copytree(checkpoint, folder / "changed")
    file = copy / "scheduler" / "scheduler_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | scheduler_config))
    return copy


def test_a_schedule_that_an_offered_sampler_does_not_support_is_refused_at_the_start(
    checkpoint: Path, tmp_path: Path
) -> None:
    copy = changed(checkpoint, tmp_path, prediction_type="flow_prediction")
    with pytest.raises(UnreadableCheckpoint, match="prediction_type"):
        Engine.open(tiny_config(copy, cache_dir=None), report=lambda _line: None)


def test_an_old_folder_is_offered_with_the_sampler_that_its_pipeline_corrects(
    checkpoint: Path, tmp_path: Path
) -> None:
    copy = changed(checkpoint, tmp_path, _class_name="DDIMScheduler", clip_sample=True)
    index = copy / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"_class_name": "StableDiffusionPipeline"}))
    offer = default_offer(str(copy))
    assert offer.sampler is Sampler.DDIM
    assert Sampler.DDIM in offer.samplers


def test_a_cache_folder_that_others_can_write_to_is_reported_once_and_not_used(
    checkpoint: Path, tmp_path: Path
) -> None:
    copy, folder = changed(checkpoint, tmp_path, prediction_type="flow_prediction"), tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    before, said = jax.config.values["jax_compilation_cache_dir"], list[str]()
    with pytest.raises(UnreadableCheckpoint):  # once its weights have been read
        Engine.open(tiny_config(copy, cache_dir=folder), report=said.append)
    refusals = [
        line for line in said if line.startswith("Nothing is kept between starts, because every user")
    ]
    assert len(refusals) == 1
    assert list(folder.iterdir()) == []
    assert jax.config.values["jax_compilation_cache_dir"] == before


def test_a_size_that_the_checkpoint_cannot_paint_is_refused_at_the_start(
    checkpoint: Path, compiler: Compiler
) -> None:
    offer = dataclasses.replace(TINY, sizes=((16, 16), (15, 16), (16, 17)))
    with pytest.raises(UnreadableCheckpoint, match=r"in 15x16, 16x17: .* multiples of 2\."):
        LoadedModel(offer, load_checkpoint(str(checkpoint)), compiler)


def test_a_guidance_interval_of_a_network_that_is_conditioned_on_the_scale_is_refused(
    compiler: Compiler, tmp_path: Path
) -> None:
    source = make_tiny_checkpoint(tmp_path / "lcm", **FAMILIES["LCM"])
    offer = dataclasses.replace(TINY, sampler=Sampler.LCM, guidance_interval=(0.0, 0.6))
    with pytest.raises(UnreadableCheckpoint, match=r"from 0 to 0\.6 .* Leave guidance_interval out"):
        LoadedModel(offer, load_checkpoint(str(source)), compiler)


@pytest.mark.parametrize("platform", ["cuda", "no_such_platform"])
def test_a_platform_without_devices_raises_one_sentence(platform: str) -> None:
    code = (
        "from sdjax_engine import DevicesFailed\nfrom sdjax_engine.memory import devices\n"
        "try: devices.open_mesh()\n"
        "except DevicesFailed as error: print(error)"
    )
    environ = os.environ | {"JAX_PLATFORMS": platform}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"JAX finds no device of the platform {platform}: ")
    assert done.stdout.count("\n") == 1


def test_devices_that_fail_at_the_start_raise_one_sentence(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> NoReturn:
        raise jax.errors.JaxRuntimeError("INTERNAL: lost a device\nand a table of it")

    monkeypatch.setattr(DeviceLane, "reset", fail)
    with pytest.raises(DevicesFailed, match=r"^The devices cannot hold what is offered: [^\n]+device\.$"):
        Engine.open(tiny_config(checkpoint, cache_dir=None), report=lambda _line: None)


def test_a_sampler_that_does_not_suit_the_checkpoint_is_refused_by_submit(
    checkpoint: Path, compiler: Compiler, tmp_path: Path
) -> None:
    copy = changed(checkpoint, tmp_path, prediction_type="sample")
    model = LoadedModel(TINY, load_checkpoint(str(copy)), compiler)
    model.prepare(like(sampler=Sampler.EULER))
    with pytest.raises(InvalidRequest, match="choose from ddim, euler, "):
        model.prepare(like(sampler=Sampler.PNDM))
