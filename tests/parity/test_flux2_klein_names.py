"""The names that other programs give to FLUX.2's layers, against the reference's conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import randomise
from diffusers import Flux2KleinPipeline, Flux2Transformer2DModel
from diffusers.loaders.single_file_utils import convert_flux2_transformer_checkpoint_to_diffusers
from flux2_klein_files import ORIGINAL, TRANSFORMER, make_tiny_flux2_klein, original_tensors
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.flux2_klein import names
from sdjax_engine.models.lora_bank import LayerPath, LayerShape
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.lora import read_factors, read_lora

pytestmark = pytest.mark.parity

Tensors = dict[str, torch.Tensor]
Products = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    return dict(randomise(Flux2Transformer2DModel(**TRANSFORMER), seed=3).state_dict())


def test_the_names_of_a_single_file_are_those_that_the_reference_finds(tensors: Tensors) -> None:
    stored = original_tensors(tensors)
    theirs = convert_flux2_transformer_checkpoint_to_diffusers(dict(stored))
    assert theirs.keys() == tensors.keys()
    assert all(torch.equal(theirs[name], tensors[name]) for name in tensors)
    assert {each for name in stored for each in names.current_names(name)} == set(tensors)
    assert all(names.current_names(name) == (name,) for name in tensors)


@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_a_folder_with_the_original_codes_file_is_the_whole_checkpoint(prefix: str, tmp_path: Path) -> None:
    folder, file = make_tiny_flux2_klein(tmp_path / "klein"), tmp_path / "klein.safetensors"
    whole = load_checkpoint(str(folder)).components["transformer"]
    own = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    save_file(original_tensors(load_file(own), prefix), file)
    own.unlink()
    found = load_checkpoint(str(folder), denoiser=str(file)).components["transformer"]
    assert found.parameters.keys() == whole.parameters.keys()
    assert all((found.parameters[key] == whole.parameters[key]).all() for key in whole.parameters)


def linear_maps(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The linear maps that LoRAs adapt, by path; the last norm has a test of its own."""
    return {
        name.removesuffix(".weight"): tensor
        for name, tensor in tensors.items()
        if tensor.ndim == 2 and "norm_out" not in name
    }


def factors(
    layers: Mapping[str, torch.Tensor], *, down: str, up: str, spell: Callable[[str], str]
) -> Tensors:
    """Random factors of rank 6 for these layers; those of a spelling with an alpha in the middle have one."""
    generator, found = torch.Generator().manual_seed(5), {}
    for path, tensor in layers.items():
        height, width = tensor.shape
        found[f"{spell(path)}.{down}.weight"] = torch.randn((6, width), generator=generator)
        found[f"{spell(path)}.{up}.weight"] = torch.randn((height, 6), generator=generator)
    return found


def with_alphas(tensors: Tensors) -> Tensors:
    """The same with an alpha beside each pair of factors."""
    layers = {name.split(".lora_")[0] for name in tensors}
    alphas = {f"{layer}.alpha": torch.tensor(0.5 + index) for index, layer in enumerate(sorted(layers))}
    return tensors | alphas


def in_blocks(tensors: Tensors) -> Tensors:
    """The same with thirds of queries, keys and values that use rows of their own of the first factor."""
    found = dict(tensors)
    for name, tensor in tensors.items():
        if "qkv.lora_up" in name:
            up = torch.zeros_like(tensor)
            rows = len(up) // 3
            for third in range(3):
                own = slice(third * rows, (third + 1) * rows), slice(2 * third, 2 * third + 2)
                up[own] = tensor[own]
            found[name] = up
    return found


def of_kohya(path: str) -> str:
    return f"lora_unet_{path.replace('.', '_')}"


def files(tensors: Tensors) -> dict[str, Tensors]:
    """A file of each form."""
    today = linear_maps(tensors)
    before = {
        name.removesuffix(".weight"): tensor
        for name, tensor in original_tensors(tensors).items()
        if tensor.ndim == 2 and "adaLN" not in name
    }
    few = {path: tensor for path, tensor in before.items() if "modulation" not in path}
    of_peft = {"down": "lora_A", "up": "lora_B"}
    kohya = factors(few, down="lora_down", up="lora_up", spell=of_kohya)
    cut = {path: tensor for path, tensor in today.items() if path.startswith("transformer_blocks.")}
    return {
        "peft": factors(today, **of_peft, spell=lambda path: f"transformer.{path}"),
        "ai-toolkit": factors(before, **of_peft, spell=lambda path: f"diffusion_model.{path}"),
        "peft alone": factors(before, **of_peft, spell=lambda path: f"base_model.model.{path}"),
        "cut": factors(
            cut, **of_peft, spell=lambda path: f"diffusion_model.sformer{path[len('transformer') :]}"
        ),
        "kohya": kohya,
        "kohya with alphas": with_alphas(kohya),
        "kohya in blocks": with_alphas(in_blocks(kohya)),
    }


def products(file: Path, tensors: Tensors) -> Products:
    """What each layer's weight gets, (out, in), by the path of the layer, as the engine reads a file."""
    shapes = {
        LayerPath(component="transformer", path=path): LayerShape(
            width_in=tensor.shape[1], width_out=tensor.shape[0]
        )
        for path, tensor in linear_maps(tensors).items()
    }
    lora = read_lora(file, shapes, names)
    with safe_open(file, "np") as opened:
        read = {place: read_factors(opened, layer, shapes[place]) for place, layer in lora.layers.items()}
    return {place.path: up.T @ down for place, (down, up) in read.items()}


def products_of_reference(tensors: Tensors) -> Products:
    """The same by the reference."""
    converted = Flux2KleinPipeline.lora_state_dict(dict(tensors))
    return {
        name.removeprefix("transformer.").removesuffix(".lora_A.weight"): (
            converted[name.replace("lora_A", "lora_B")] @ tensor
        ).numpy()
        for name, tensor in converted.items()
        if "lora_A" in name
    }


@pytest.mark.parametrize(
    "form", ["peft", "ai-toolkit", "peft alone", "cut", "kohya", "kohya with alphas", "kohya in blocks"]
)
def test_every_layer_gets_what_the_reference_gives_it(form: str, tensors: Tensors, tmp_path: Path) -> None:
    stored, file = files(tensors)[form], tmp_path / "lora.safetensors"
    save_file({name: tensor.clone() for name, tensor in stored.items()}, file)
    if form == "peft alone":
        (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "lora_alpha": 6, "r": 6}')
    ours, theirs = products(file, tensors), products_of_reference(stored)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 10
    for path, product in theirs.items():
        np.testing.assert_allclose(ours[path], product, atol=1e-4)


def test_the_original_name_of_the_last_norm_is_refused_for_its_halves_are_exchanged(
    tensors: Tensors, tmp_path: Path
) -> None:
    layer = {ORIGINAL["norm_out.linear"]: tensors["norm_out.linear.weight"]}
    stored = factors(layer, down="lora_A", up="lora_B", spell=lambda path: f"diffusion_model.{path}")
    save_file(stored, tmp_path / "lora.safetensors")
    with pytest.raises(UnreadableCheckpoint, match=r"of no layer of the model: .*adaLN_modulation"):
        products(tmp_path / "lora.safetensors", tensors)
