"""Writes Flax weights beside a checkpoint's safetensors, which the removed classes cannot load.

    legacy_flax_convert.py FOLDER...   # in an environment with diffusers 0.39.0 and transformers 4.57.6

The UNet and the autoencoder are converted by diffusers' own function; nothing here needs torch.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from diffusers import FlaxAutoencoderKL, FlaxUNet2DConditionModel
from diffusers.models.modeling_flax_pytorch_utils import convert_pytorch_state_dict_to_flax
from flax.serialization import msgpack_serialize
from flax.traverse_util import unflatten_dict
from safetensors.numpy import load_file


class Tensor(np.ndarray):
    """An array with the methods of a torch tensor that the conversion calls."""

    def numpy(self) -> np.ndarray:
        return np.asarray(self)


class ShapesOnly:
    """A network that returns shapes in place of the random parameters that the conversion initialises."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def init_weights(self, key: jax.Array) -> Any:
        return jax.eval_shape(self.model.init_weights, key)


def convert_diffusers(kind: Any, folder: Path) -> None:
    model = ShapesOnly(kind.from_config(kind.load_config(folder)))
    tensors = load_file(folder / "diffusion_pytorch_model.safetensors")
    params = convert_pytorch_state_dict_to_flax(
        {name: each.view(Tensor) for name, each in tensors.items()}, model
    )
    write(params, folder / "diffusion_flax_model.msgpack")


def convert_text_encoder(folder: Path) -> None:
    """Convert a text encoder: transpose linear maps, rename the weights of norms and embeddings."""
    params = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        path = name.split(".")
        if path[0] not in ("text_model", "text_projection"):
            path.insert(0, "text_model")
        if path[-1] == "weight":
            is_norm, is_embedding = tensor.ndim == 1, path[-2].endswith("_embedding")
            path[-1] = "scale" if is_norm else "embedding" if is_embedding else "kernel"
            params[tuple(path)] = tensor if is_norm or is_embedding else np.ascontiguousarray(tensor.T)
        else:
            params[tuple(path)] = tensor
    write(unflatten_dict(params), folder / "flax_model.msgpack")


def write(params: Any, file: Path) -> None:
    file.write_bytes(msgpack_serialize(params))


def main() -> None:
    logging.disable(logging.WARNING)
    for folder in map(Path, sys.argv[1:]):
        convert_diffusers(FlaxUNet2DConditionModel, folder / "unet")
        convert_diffusers(FlaxAutoencoderKL, folder / "vae")
        for text_encoder in folder.glob("text_encoder*"):
            convert_text_encoder(text_encoder)


if __name__ == "__main__":
    main()
