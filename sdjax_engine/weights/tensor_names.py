"""Tensor names and layouts: the reference's and this package's.

Parameters have the reference's paths, with three differences: a weight is called `kernel` (of linear maps
and convolutions), `scale` (of norms) or `embedding`; kernels are (in, out) and (height, width, in, out), not
(out, in) and (out, in, height, width) as in the reference; and a 1×1 convolution is a linear map.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WEIGHT_LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight"}
ONE_BY_ONE = frozenset({"conv_shortcut", "quant_conv", "post_quant_conv"})
"""The linear maps that are convolutions in the reference."""
OLD_VAE_ATTENTION = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
OLD_VAE_NAME = re.compile(r"(\.attentions\.\d+)\.(query|key|value|proj_attn)\.")


def reference_name(path: Sequence[str | int]) -> str:
    """Return the reference's name of the parameter at `path`."""
    *modules, leaf = path
    return ".".join([*map(str, modules), WEIGHT_LEAVES.get(str(leaf), str(leaf))])


def current_name(model: str, name: str) -> str | None:
    """Return the present name of a tensor in a file of a network of class `model`.

    None for tensors that are not used: position ids, the encoder of a tiny autoencoder, and the pooler of a
    classifier.
    """
    if name.endswith("embeddings.position_ids"):
        return None
    if model == "AutoencoderTiny":
        return None if name.startswith("encoder.") else name
    if model == "ViTForImageClassification":
        return None if name.startswith("vit.pooler.") else name
    if model == "CLIPTextModel":
        return name.removeprefix("text_model.")
    if model == "CLIPTextModelWithProjection":
        inside = name.startswith(("text_model.", "text_projection."))
        return name if inside else f"text_model.{name}"
    if model == "StableDiffusionSafetyChecker":
        return name.replace("vision_model.vision_model.", "vision_model.", 1)
    if model == "AutoencoderKL":
        return OLD_VAE_NAME.sub(lambda match: f"{match[1]}.{OLD_VAE_ATTENTION[match[2]]}.", name)
    return name


def saved_name(model: str, name: str) -> str:
    """Return the name under which a file of a network of class `model` has the tensor `name`."""
    if model == "CLIPTextModel":
        return f"text_model.{name}"
    if model == "StableDiffusionSafetyChecker":
        return name.replace("vision_model.", "vision_model.vision_model.", 1)
    return name


def fits(shape: Sequence[int], ours: Sequence[int], leaf: str) -> bool:
    """Return whether a tensor of `shape` in a file has the shape `ours` in this package's layout."""
    return tuple(squeezed(shape, reference_shape(ours, leaf))) == tuple(reference_shape(ours, leaf))


def reference_shape(ours: Sequence[int], leaf: str) -> tuple[int, ...]:
    """Return the shape in the reference's layout of a parameter of the shape `ours`."""
    if leaf != "kernel":
        return tuple(ours)
    *window, width_in, width_out = ours
    return (width_out, width_in, *window)


def squeezed(shape: Sequence[int], like: Sequence[int]) -> tuple[int, ...]:
    """Return `shape` without the 1×1 window of a convolution if `like` is of a linear map."""
    surplus = len(shape) - len(like)
    if len(like) == 2 and surplus > 0 and all(size == 1 for size in shape[2:]):
        return tuple(shape[:2])
    return tuple(shape)


def arrange(tensor: npt.NDArray[Any], ours: Sequence[int], leaf: str) -> npt.NDArray[Any]:
    """Return a file's tensor in this package's layout."""
    if leaf != "kernel":
        return tensor
    tensor = tensor.reshape(reference_shape(ours, leaf))
    window = range(2, tensor.ndim)
    return np.transpose(tensor, (*window, 1, 0))


def reference_layout(array: npt.NDArray[Any], path: Sequence[str | int]) -> npt.NDArray[Any]:
    """Return the parameter at `path` as a tensor in the reference's layout, the inverse of `arrange`."""
    if path[-1] != "kernel":
        return array
    window = range(array.ndim - 2)
    tensor = np.ascontiguousarray(np.transpose(array, (array.ndim - 1, array.ndim - 2, *window)))
    is_convolution = tensor.ndim == 2 and str(path[-2]) in ONE_BY_ONE
    return tensor[:, :, None, None] if is_convolution else tensor
