"""ControlNets from folders and single files, and files that are something else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
from checkpoint_files import original_unet
from checkpoints import UNET_XL, make_tiny_controlnet, randomise
from safetensors.numpy import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.controlnet_config import check_fits
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.controlnet import load_controlnet

TWO_LEVELS = {"block_out_channels": (64, 128), "norm_num_groups": 32}
KINDS: dict[str, dict[str, Any]] = {
    "SD 1": TWO_LEVELS | {"attention_head_dim": 8, "cross_attention_dim": 768},
    "SD 2": TWO_LEVELS | {"attention_head_dim": (1, 2), "cross_attention_dim": 96},
    "SDXL": UNET_XL
    | TWO_LEVELS
    | {"attention_head_dim": (1, 2), "projection_class_embeddings_input_dim": 1280 + 6 * 8},
}
NAME = "diffusion_pytorch_model.safetensors"
HINTS = {"conv_in": 0, "blocks.0": 2, "blocks.1": 4, "conv_out": 6}


def write_original(folder: Path, file: Path, *, prefix: str) -> Path:
    """Write the ControlNet in `folder` as one file of the original layout."""
    config = json.loads((folder / "config.json").read_text()) | {"up_block_types": ()}
    tensors = dict(load_file(folder / NAME))
    own = {name: tensors.pop(name) for name in list(tensors) if name.startswith("controlnet_")}
    found = original_unet(tensors, config)
    for name, tensor in own.items():
        stem, _, leaf = name.rpartition(".")
        kind, _, place = stem.partition(".")
        new = {
            "controlnet_cond_embedding": f"input_hint_block.{HINTS.get(place)}",
            "controlnet_down_blocks": f"zero_convs.{place}.0",
            "controlnet_mid_block": "middle_block_out.0",
        }[kind]
        found[f"{new}.{leaf}"] = tensor
    save_file({prefix + name: np.ascontiguousarray(each) for name, each in found.items()}, file)
    return file


def parameters(component: Component) -> dict[str, Any]:
    return {key: np.asarray(array) for key, array in component.parameters.items()}


@pytest.mark.parametrize("prefix", ["", "control_model."])
@pytest.mark.parametrize("kind", KINDS)
def test_a_single_file_of_either_layout_is_the_folder(kind: str, prefix: str, tmp_path: Path) -> None:
    folder = make_tiny_controlnet(tmp_path / "folder", unet=KINDS[kind])
    expected = load_controlnet(str(folder))
    original = load_controlnet(str(write_original(folder, tmp_path / "net.safetensors", prefix=prefix)))
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    renamed = load_controlnet(str((moved / NAME).rename(moved / "canny.safetensors")))

    for other in (original, renamed):
        assert parameters(other).keys() == parameters(expected).keys()
        for key, array in parameters(expected).items():
            np.testing.assert_array_equal(parameters(other)[key], array)
    heads = "num_attention_heads"
    assert tuple(original.config[heads]) == tuple(expected.config[heads])


def test_the_union_is_read_and_cached_as_it_is(tmp_path: Path) -> None:
    half = {key: value for key, value in UNET_XL.items() if key not in {"sample_size", "up_block_types"}}
    types = {"num_control_type": 6, "num_trans_channel": 32, "num_trans_head": 4, "num_proj_channel": 32}
    theirs = randomise(diffusers.ControlNetUnionModel(**half, **types), seed=1)
    theirs.save_pretrained(tmp_path / "union")

    first, again = (load_controlnet(str(tmp_path / "union"), cache_dir=tmp_path / "cache") for _ in range(2))

    task = theirs.task_embedding.detach().numpy()
    for each in (first, again):
        np.testing.assert_array_equal(each.parameters["task_embedding"], task)
        assert each.config["num_control_type"] == 6


def as_other(folder: Path, names: tuple[str, ...]) -> Path:
    file = folder / "other.safetensors"
    save_file({name: np.zeros((2, 2), np.float32) for name in names}, file)
    return file


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("lllite_unet_input_blocks_4_1.conditioning1.0.weight",), "a ControlNet-LLLite"),
        (("lora_controlnet", "input_blocks.1.0.in_layers.2.up"), "a control-LoRA"),
        (("adapter.body.0.block1.weight",), "a T2I-Adapter"),
        (("model.diffusion_model.input_blocks.0.0.weight",), "no ControlNet"),
        (("controlnet_cond_embedding.conv_in.weight",), r"needs its config\.json"),
        (("input_hint_block.0.weight",), "lacks what tells the shape"),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(
    names: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableCheckpoint, match=message):
        load_controlnet(str(as_other(tmp_path, names)))


def test_a_folder_of_another_class_and_a_missing_one_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableCheckpoint, match=r"There is no folder “.*/none”: name a folder with config"
    ):
        load_controlnet(str(tmp_path / "none"))
    folder = make_tiny_controlnet(tmp_path / "net", unet={})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"_class_name": "UNet2DConditionModel"}))
    with pytest.raises(
        UnreadableCheckpoint, match="class UNet2DConditionModel: name the folder or hub id of a"
    ):
        load_controlnet(str(folder))


def test_a_network_for_another_kind_of_model_is_refused_by_what_differs(tmp_path: Path) -> None:
    one, other = (
        load_controlnet(str(make_tiny_controlnet(tmp_path / kind, unet=KINDS[kind]))).config
        for kind in ("SD 1", "SDXL")
    )
    check_fits("canny", one, one, latent_channels=4, factor=2)
    for unet, latents, factor, message in (
        (other, 4, 2, "canny was made for another kind of model: .* cross_attention_dim, addition_embed"),
        (one, 16, 2, "in_channels"),
        (one, 4, 8, "conditioning_embedding_out_channels"),
    ):
        with pytest.raises(UnreadableCheckpoint, match=message):
            check_fits("canny", one, unet, latent_channels=latents, factor=factor)
