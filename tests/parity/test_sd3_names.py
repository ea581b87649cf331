"""The names that other programs give to SD 3.5's layers, against the reference's conversion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import randomise
from diffusers import SD3Transformer2DModel
from diffusers.loaders.single_file_utils import convert_sd3_transformer_checkpoint_to_diffusers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sd3_files import TRANSFORMER, make_tiny_sd3, original_tensors

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.stable_diffusion_3 import names
from sdjax_engine.models.lora_bank import LayerPath, LayerShape
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.lora import read_factors, read_lora

pytestmark = pytest.mark.parity

Tensors = dict[str, torch.Tensor]
OTHERS = {
    "first_stage_model.decoder.conv_in.weight": torch.ones(2),
    "text_encoders.clip_l.transformer.text_model.final_layer_norm.weight": torch.ones(2),
}
"""Tensors of other networks, which files of whole checkpoints have."""


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    return dict(randomise(SD3Transformer2DModel(**TRANSFORMER), seed=3).state_dict())


def test_the_names_of_a_single_file_are_those_that_the_reference_finds(tensors: Tensors) -> None:
    stored = original_tensors(tensors)
    theirs = convert_sd3_transformer_checkpoint_to_diffusers(dict(stored))
    assert theirs.keys() == tensors.keys()
    assert all(torch.equal(theirs[name], tensors[name]) for name in tensors)
    assert {each for name in stored for each in names.current_names(name)} == set(tensors)
    assert all(names.current_names(name) == (name,) for name in tensors)


@pytest.mark.parametrize(
    ("prefix", "others"), [("", {}), ("model.diffusion_model.", OTHERS)], ids=["bare", "whole"]
)
def test_a_folder_with_the_original_codes_file_is_the_whole_checkpoint(
    prefix: str, others: Tensors, tmp_path: Path
) -> None:
    folder, file = make_tiny_sd3(tmp_path / "sd3"), tmp_path / "sd3.safetensors"
    whole = load_checkpoint(str(folder)).components["transformer"]
    own = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    save_file(original_tensors(load_file(own), prefix) | others, file)
    own.unlink()
    found = load_checkpoint(str(folder), denoiser=str(file)).components["transformer"]
    assert found.parameters.keys() == whole.parameters.keys()
    assert all((found.parameters[key] == whole.parameters[key]).all() for key in whole.parameters)


Products = dict[str, npt.NDArray[Any]]
OF_TEXT = {
    (component, f"text_model.encoder.layers.1.{layer}"): shape
    for component in ("text_encoder", "text_encoder_2")
    for layer, shape in (("self_attn.q_proj", (32, 32)), ("mlp.fc1", (64, 32)))
}
"""Layers of the text encoders, by component and path, and their shapes."""


def factors(layers: Mapping[str, tuple[int, ...]]) -> Tensors:
    """Random factors of rank 4 for the layers of these spellings."""
    generator, found = torch.Generator().manual_seed(5), {}
    for spelling, (height, width) in layers.items():
        found[f"{spelling}.lora_A.weight"] = torch.randn((4, width), generator=generator)
        found[f"{spelling}.lora_B.weight"] = torch.randn((height, 4), generator=generator)
    return found


def products(file: Path, tensors: Tensors) -> dict[str, npt.NDArray[Any]]:
    """What each layer's weight gets, (out, in), by component and path, as the engine reads a file."""
    linear = {
        LayerPath(component="transformer", path=name.removesuffix(".weight")): tensor.shape
        for name, tensor in tensors.items()
        if tensor.ndim == 2
    }
    of_text = {LayerPath(component=name, path=path): shape for (name, path), shape in OF_TEXT.items()}
    shapes = {
        place: LayerShape(width_in=width, width_out=height)
        for place, (height, width) in (linear | of_text).items()
    }
    lora = read_lora(file, shapes, names)
    with safe_open(file, "np") as opened:
        read = {place: read_factors(opened, layer, shapes[place]) for place, layer in lora.layers.items()}
    return {f"{place.component}.{place.path}": up.T @ down for place, (down, up) in read.items()}


def test_a_lora_in_the_references_spelling_adapts_all_layers_of_the_transformer_and_of_clip(
    tensors: Tensors, tmp_path: Path
) -> None:
    layers = {f"transformer.{name[:-7]}": each.shape for name, each in tensors.items() if each.ndim == 2}
    layers |= {f"{component}.{path}": tuple(shape) for (component, path), shape in OF_TEXT.items()}
    stored = factors(layers)
    save_file(stored, tmp_path / "lora.safetensors")
    ours = products(tmp_path / "lora.safetensors", tensors)
    assert ours.keys() == layers.keys()
    for path, product in ours.items():
        theirs = stored[f"{path}.lora_B.weight"] @ stored[f"{path}.lora_A.weight"]
        np.testing.assert_allclose(product, theirs.numpy(), atol=1e-4)


@pytest.mark.parametrize("kohya", [True, False], ids=["kohya", "ComfyUI"])
def test_a_lora_in_the_original_codes_spelling_adapts_what_its_sum_with_the_original_weights_adapts(
    kohya: bool, tensors: Tensors, tmp_path: Path
) -> None:
    def spelled(path: str) -> str:
        return f"lora_unet_{path.replace('.', '_')}" if kohya else f"diffusion_model.{path}"

    original = original_tensors(tensors)
    layers = {name[:-7]: each.shape for name, each in original.items() if adapted(name, each)}
    stored = factors({spelled(path): shape for path, shape in layers.items()})
    save_file(stored, tmp_path / "lora.safetensors")
    changed = dict(original)
    for path in layers:
        up, down = (stored[f"{spelled(path)}.lora_{each}.weight"] for each in "BA")
        changed[f"{path}.weight"] = original[f"{path}.weight"] + up @ down
    theirs = convert_sd3_transformer_checkpoint_to_diffusers(changed)
    ours = products(tmp_path / "lora.safetensors", tensors)
    assert len(ours) > 20
    for name, tensor in tensors.items():
        difference = ours.get(f"transformer.{name.removesuffix('.weight')}", np.zeros(1))
        np.testing.assert_allclose(tensor.numpy() + difference, theirs[name].numpy(), atol=1e-4)


def adapted(name: str, tensor: torch.Tensor) -> bool:
    """Whether a tensor is the weight of a linear map."""
    return tensor.ndim == 2 and name.endswith(".weight")


def test_a_layer_in_two_orders_of_its_halves_is_refused(tensors: Tensors, tmp_path: Path) -> None:
    names_of_one = ("transformer.norm_out.linear", "diffusion_model.final_layer.adaLN_modulation.1")
    of_each = [factors({name: (72, 36)}) for name in names_of_one]
    mixed = {
        key: tensor
        for stored, half in zip(of_each, "AB", strict=True)
        for key, tensor in stored.items()
        if f"lora_{half}" in key
    }
    save_file(mixed, tmp_path / "lora.safetensors")
    with pytest.raises(UnreadableCheckpoint, match="tensors of one layer twice"):
        products(tmp_path / "lora.safetensors", tensors)


@pytest.mark.parametrize(
    "layer",
    ["transformer.transformer_blocks.9.attn.to_q", "diffusion_model.joint_blocks.9.x_block.attn.proj"],
)
def test_a_lora_of_a_larger_sd3_names_its_layers_alone(layer: str, tensors: Tensors, tmp_path: Path) -> None:
    save_file(factors({layer: (36, 36)}), tmp_path / "lora.safetensors")
    with pytest.raises(UnreadableCheckpoint, match=f"as a LoRA: tensors of no layer of the model: {layer}"):
        products(tmp_path / "lora.safetensors", tensors)
