"""The files that `load_checkpoint` reads, from every writer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

from sdjax_engine.guide.networks import as_removed
from sdjax_engine.weights import Checkpoint, load_checkpoint

Tensors = dict[str, np.ndarray]
VAE_FILE = "vae/diffusion_pytorch_model.safetensors"
TEXT_FILE = "text_encoder/model.safetensors"
UNET_FILE = "unet/diffusion_pytorch_model.safetensors"


def rewrite(file: Path, change: Callable[[Tensors], Tensors]) -> None:
    save_file({name: np.ascontiguousarray(x) for name, x in change(load_file(file)).items()}, file)


def parameters(checkpoint: Checkpoint) -> list[np.ndarray]:
    states = {name: each.parameters for name, each in checkpoint.components.items()}
    return [np.asarray(leaf) for leaf in jax.tree.leaves(states)]


def same_parameters(one: Path, other: Path) -> bool:
    pairs = zip(parameters(load_checkpoint(str(one))), parameters(load_checkpoint(str(other))), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_text_encoder_loads_with_the_prefix_of_older_files(original: Path, folder: Path) -> None:
    def as_older(tensors: Tensors) -> Tensors:
        prefixed = {f"text_model.{name}": tensor for name, tensor in tensors.items()}
        return prefixed | {"text_model.embeddings.position_ids": np.arange(77)[None]}

    rewrite(folder / TEXT_FILE, as_older)

    assert same_parameters(original, folder)


@pytest.mark.parametrize("window", [(), (1, 1)], ids=["linear", "convolution"])
def test_vae_loads_with_the_attention_names_of_older_files(
    window: tuple[int, ...], original: Path, folder: Path
) -> None:
    older = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}

    def as_older(tensors: Tensors) -> Tensors:
        renamed = {}
        for name, tensor in tensors.items():
            for new, old in older.items():
                if f".{new}." in name:
                    name = name.replace(new, old)  # noqa: PLW2901
                    tensor = tensor.reshape(*tensor.shape, *(window if tensor.ndim == 2 else ()))  # noqa: PLW2901
            renamed[name] = tensor
        return renamed

    rewrite(folder / VAE_FILE, as_older)

    assert any(".query." in name for name in load_file(folder / VAE_FILE))
    assert same_parameters(original, folder)


def test_shards_load_as_one_file(original: Path, folder: Path) -> None:
    tensors = load_file(folder / UNET_FILE)
    names = sorted(tensors)
    shards = {
        "diffusion_pytorch_model-00001-of-00002.safetensors": names[::2],
        "diffusion_pytorch_model-00002-of-00002.safetensors": names[1::2],
    }
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / "unet" / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    index = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / UNET_FILE).unlink()

    assert same_parameters(original, folder)


def test_files_of_the_variant_are_read_where_there_are_any(original: Path, folder: Path) -> None:
    halves = {
        name: (0.5 * tensor).astype(np.float16) for name, tensor in load_file(folder / VAE_FILE).items()
    }
    save_file(halves, folder / "vae" / "diffusion_pytorch_model.fp16.safetensors")

    plain = load_checkpoint(str(original)).components["vae"]
    variant = load_checkpoint(str(folder), variant="fp16").components["vae"]

    for a, b in zip(jax.tree.leaves(plain.parameters), jax.tree.leaves(variant.parameters), strict=True):
        assert b.dtype == np.float32
        np.testing.assert_allclose(np.asarray(b), 0.5 * np.asarray(a), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("stored", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parameters_have_the_requested_dtype_for_any_file(stored: type, dtype: str, folder: Path) -> None:
    for file in (UNET_FILE, VAE_FILE, TEXT_FILE):
        rewrite(folder / file, lambda tensors: {name: x.astype(stored) for name, x in tensors.items()})

    assert {str(leaf.dtype) for leaf in parameters(load_checkpoint(str(folder), dtype=dtype))} == {dtype}


def test_configurations_without_newer_keys_get_the_reference_defaults(original: Path, folder: Path) -> None:
    for part, keys in {
        "unet": ("act_fn", "norm_eps", "use_linear_projection", "mid_block_type", "num_attention_heads"),
        "vae": ("scaling_factor", "use_quant_conv", "mid_block_add_attention", "force_upcast"),
        "text_encoder": ("layer_norm_eps", "hidden_act"),
    }.items():
        file = folder / part / "config.json"
        config = json.loads(file.read_text())
        file.write_text(json.dumps({key: value for key, value in config.items() if key not in keys}))

    assert same_parameters(original, folder)
    for name in ("unet", "vae", "text_encoder"):
        one, other = (load_checkpoint(str(each)).components[name] for each in (original, folder))
        assert one.config == other.config


def test_number_of_heads_takes_precedence_over_the_misnamed_key(original: Path, folder: Path) -> None:
    file = folder / "unet" / "config.json"
    renamed = json.loads(file.read_text()) | {"num_attention_heads": 4, "attention_head_dim": 8}
    file.write_text(json.dumps(renamed))

    heads = load_checkpoint(str(folder)).components["unet"].config["num_attention_heads"]

    assert heads == load_checkpoint(str(original)).components["unet"].config["num_attention_heads"] == (4, 4)


def test_the_guide_changes_a_copy_of_the_network(original: Path) -> None:
    unet = load_checkpoint(str(original)).components["unet"]
    before = unet.blueprint.layout.graphdef
    assert as_removed(unet).blueprint.layout.graphdef != before
    assert nnx.graphdef(unet.module()) == before
