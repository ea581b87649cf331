"""INT8 weights in an engine: its pictures are those of the rounded weights, with LoRAs and from the cache."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engines import like
from safetensors.torch import load_file, save_file
from z_image_files import TRANSFORMER, make_tiny_z_image

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.kinds import KINDS
from sdjax_engine.request import Int8, Lora, Offer, Sampler
from sdjax_engine.startup.model_check import check_model
from sdjax_engine.weights import load_checkpoint

DEADLINE = 180
CLASSES = {"text_encoder": "Qwen3Model", "transformer": "ZImageTransformer2DModel"}
PLAIN = like(
    prompt="a red star",
    num_inference_steps=3,
    guidance_scale=0.0,
    sampler=Sampler.FLOW_EULER,
    width=32,
    height=32,
)
ADAPTED = like(PLAIN, loras=(Lora(name="bend", weight=4.0),))
BARELY = like(PLAIN, loras=(Lora(name="bend", weight=0.0),))
OF_ROUNDED, OF_TRUE = 1, 8
"""The most that a number of 0 to 255 differs from that of the rounded weights, and of the weights."""


def with_rounded_weights(folder: Path, copy: Path) -> Path:
    """Write a copy of a checkpoint whose weights are those that INT8 stands for."""
    shutil.copytree(folder, copy)
    for component, kind in CLASSES.items():
        [file] = (copy / component).glob("*.safetensors")
        tensors = load_file(file)
        names = KINDS[kind].int8
        assert names is not None
        for name in tensors:
            if names.fullmatch(name.removeprefix("model.")):
                scale = tensors[name].abs().amax(1, keepdim=True) / 127
                tensors[name] = torch.round(tensors[name] / scale) * scale
        save_file(tensors, file, metadata={"format": "pt"})
    return copy


def make_lora(file: Path) -> Path:
    generator, width = torch.Generator().manual_seed(1), TRANSFORMER["dim"]
    layer = "transformer.layers.1.attention.to_q"
    save_file(
        {
            f"{layer}.lora_A.weight": torch.randn((2, width), generator=generator),
            f"{layer}.lora_B.weight": torch.randn((width, 2), generator=generator),
        },
        file,
    )
    return file


def test_int8_is_refused_in_one_sentence_where_a_part_has_no_such_weights() -> None:
    for part in Int8:
        with pytest.raises(
            UnreadableCheckpoint, match=rf"has no {part} whose weights can be INT8: leave it out"
        ):
            load_checkpoint("demo", int8=(part,))


def test_a_weight_without_axes_is_refused_by_its_name(tmp_path: Path) -> None:
    checkpoint = make_tiny_z_image(tmp_path / "broken")
    [file] = (checkpoint / "text_encoder").glob("*.safetensors")
    name = "layers.0.mlp.up_proj.weight"
    save_file(load_file(file) | {f"model.{name}": torch.tensor(1.0)}, file, metadata={"format": "pt"})
    with pytest.raises(UnreadableCheckpoint, match=rf"1 of the wrong shape: {name} \(\) for"):
        load_checkpoint(str(checkpoint), int8=tuple(Int8))


def painted(config: EngineConfig) -> tuple[list[np.ndarray], int]:
    """The pictures without and with the LoRA, beside each other, and alone with the LoRA at no strength.

    They are numbers; also returns the bytes of all parameters.
    """
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        futures = [engine.submit(request) for request in (PLAIN, ADAPTED)]
        images = [future.result(DEADLINE) for future in futures]
        images.append(engine.submit(BARELY).result(DEADLINE))
        assert {image.int8 for image in images} == {config.models[0].offer.int8}
        pictures = [image.pixels.astype(np.int32) for image in images]
        return pictures, engine._models[PLAIN.model]._parameters.size


def difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> int:
    return max(int(np.abs(mine - other).max()) for mine, other in zip(ours, theirs, strict=True))


def test_pictures_of_int8_weights_are_those_of_the_rounded_weights_also_with_loras_and_from_the_cache(
    tmp_path: Path,
) -> None:
    checkpoint, lora = make_tiny_z_image(tmp_path / "true"), make_lora(tmp_path / "bend.safetensors")
    offer = Offer(
        model=PLAIN.model,
        sizes=((32, 32),),
        num_inference_steps=8,
        guidance_scale=0.0,
        sampler=Sampler.FLOW_EULER,
        loras=("bend",),
    )
    true = ModelSpec(offer=offer, source=str(checkpoint), loras={"bend": lora})
    int8 = replace(true, offer=replace(offer, int8=tuple(Int8)))
    rounded = replace(true, source=str(with_rounded_weights(checkpoint, tmp_path / "rounded")))
    config = EngineConfig(
        models=(true,), cpu_devices=1, seats_per_device=2, lanes=(PLAIN.lane,), cache_dir=tmp_path / "cache"
    )

    def of(spec: ModelSpec) -> tuple[list[np.ndarray], int]:
        return painted(replace(config, models=(spec,)))

    (of_true, whole), (of_rounded, _), (of_int8, small) = of(true), of(rounded), of(int8)
    assert difference(of_int8, of_rounded) <= OF_ROUNDED
    assert 0 < difference(of_int8, of_true) <= OF_TRUE
    plain, adapted, barely = of_int8
    assert difference([plain], [adapted]) > 10 * OF_ROUNDED
    assert difference([plain], [barely]) == 0
    from_cache, size = of(int8)
    assert difference(from_cache, of_int8) == 0
    assert difference(of(true)[0], of_true) == 0
    assert size == small < whole
    checked = [check_model(spec, dtype="float32", previews=False) for spec in (true, int8)]
    of_files = [each.size for each in checked if each is not None]
    assert of_files[0] - of_files[1] == whole - small
