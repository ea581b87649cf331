"""The names that other programs give to Z-Image's layers, against the reference's conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from checkpoints import randomise
from diffusers import ZImageTransformer2DModel
from diffusers.loaders.lora_conversion_utils import _convert_non_diffusers_z_image_lora_to_diffusers
from diffusers.loaders.single_file_utils import convert_z_image_transformer_checkpoint_to_diffusers
from safetensors.torch import load_file, save_file
from z_image_files import TRANSFORMER, make_tiny_z_image, original_tensors

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.z_image import names
from sdjax_engine.models.lora_bank import LayerPath
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.lora import sort_keys
from sdjax_engine.weights.lora_names import Role

pytestmark = pytest.mark.parity

Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    return dict(randomise(ZImageTransformer2DModel(**TRANSFORMER), seed=3).state_dict())


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_a_single_file_has_the_tensors_that_the_reference_finds_in_it(prefix: str, tensors: Tensors) -> None:
    stored = original_tensors(tensors, prefix)
    ours: Tensors = {}
    for name, tensor in stored.items():
        current = names.current_names(name)
        ours |= zip(current, tensor.chunk(max(len(current), 1)), strict=False)
    theirs = convert_z_image_transformer_checkpoint_to_diffusers(dict(stored))
    assert ours.keys() == theirs.keys() == tensors.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_folder_with_comfyuis_file_is_the_whole_checkpoint(tmp_path: Path) -> None:
    folder, file = make_tiny_z_image(tmp_path / "z"), tmp_path / "z.safetensors"
    whole = load_checkpoint(str(folder)).components["transformer"]
    own = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    save_file(original_tensors(load_file(own), "model.diffusion_model."), file)
    own.unlink()
    found = load_checkpoint(str(folder), denoiser=str(file)).components["transformer"]
    assert found.parameters.keys() == whole.parameters.keys()
    assert all((found.parameters[key] == whole.parameters[key]).all() for key in whole.parameters)


def test_a_file_of_a_denoiser_is_for_folders_of_families_that_have_such_files(tmp_path: Path) -> None:
    folder, file = make_tiny_z_image(tmp_path / "z"), tmp_path / "z.safetensors"
    save_file({"layers.0.strange": torch.ones(1)}, file)
    for source, denoiser, reason in (
        (str(folder), str(file), "left over: layers.0.strange"),
        (str(folder), str(tmp_path / "nothing.safetensors"), "There is no file"),
        ("demo", str(file), "no such files"),
        (str(file), str(file), "is one file"),
    ):
        with pytest.raises(UnreadableCheckpoint, match=reason):
            load_checkpoint(source, denoiser=denoiser)


def layers(tensors: Mapping[str, torch.Tensor]) -> dict[LayerPath, torch.Tensor]:
    """The linear maps that LoRAs adapt."""
    return {
        LayerPath(component="transformer", path=name.removesuffix(".weight")): tensor
        for name, tensor in tensors.items()
        if name.endswith(".weight") and tensor.ndim == 2
    }


SPELLINGS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "peft": (lambda path: f"transformer.{path}", ".lora_A.weight", ".lora_B.weight"),
    "ComfyUI": (lambda path: f"diffusion_model.{path}", ".lora_A.weight", ".lora_B.weight"),
    "kohya": (lambda path: f"lora_unet_{path.replace('.', '_')}", ".lora_down.weight", ".lora_up.weight"),
    "default": (lambda path: f"diffusion_model.{path}", ".lora_A.default.weight", ".lora_B.default.weight"),
    "dotted": (lambda path: path.replace(".to_", ".to."), ".lora.down.weight", ".lora.up.weight"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_layer_is_found_in_every_spelling_as_by_the_reference(name: str, tensors: Tensors) -> None:
    spell, down, up = SPELLINGS[name]
    places = {place: tensor for place, tensor in layers(tensors).items() if ".attention." in place.path}
    if name == "dotted":
        places = {place: tensor for place, tensor in places.items() if "to_out" not in place.path}
    for place in places:
        keys = [spell(place.path) + down, spell(place.path) + up]
        found, problems = sort_keys(keys, places, names)
        assert (list(found), problems) == ([place], [])
        theirs = _convert_non_diffusers_z_image_lora_to_diffusers(
            {key.removeprefix("transformer."): torch.ones(2, 2) for key in keys}
        )
        assert f"transformer.{place.path}.lora_A.weight" in theirs


def test_a_tensor_of_queries_keys_and_values_counts_unless_there_are_separate_ones(tensors: Tensors) -> None:
    places = layers(tensors)
    block = "lora_unet_layers_0_attention_"
    fused = [f"{block}qkv.lora_{way}.weight" for way in ("down", "up")]
    found, problems = sort_keys(fused, places, names)
    assert problems == []
    assert {place.path: layer.share for place, layer in found.items()} == {
        f"layers.0.attention.to_{name}": (index, 3) for index, name in enumerate("qkv")
    }

    split = [f"{block}to_q.lora_{way}.weight" for way in ("down", "up")]
    found, _ = sort_keys([*fused, *split], places, names)
    assert {place.path for place in found} == {"layers.0.attention.to_q"}
    out = [f"{block}out.lora_{way}.weight" for way in ("down", "up")]
    found, _ = sort_keys(out, places, names)
    assert [(place.path, set(layer.roles)) for place, layer in found.items()] == [
        ("layers.0.attention.to_out.0", {Role.DOWN, Role.UP})
    ]
