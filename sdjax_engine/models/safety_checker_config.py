"""The values of a safety checker's config.json, checked and completed; the decision by its scores."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.models.activations import activation
from sdjax_engine.models.config import Config, check_divisible, check_layers, refuse, settle
from sdjax_engine.wording import quoted

NAME = "StableDiffusionSafetyChecker"
CONCEPTS, SPECIAL_CARE = 17, 3
Array = TypeVar("Array", jax.Array, npt.NDArray[np.float32])
DIGITS = 3  # the reference decides on rounded scores
DEFAULTS: Config = {"projection_dim": 512}
VISION_DEFAULTS: Config = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}


def settle_safety_checker_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from: `projection_dim` and the checked `vision_config`.

    Old files repeat `vision_config` as `vision_config_dict`; `vision_config_dict` takes precedence. Raises
    UnreadableCheckpoint for unsupported values.
    """
    supported = {"architectures": (NAME,), "model_type": ("clip",)}
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=supported, strict=False)
    vision = config.get("vision_config_dict") or config.get("vision_config") or {}
    return values | {"vision_config": settle_vision_config(vision)}


def settle_vision_config(config: Config) -> dict[str, Any]:
    supported = {"model_type": ("clip_vision_model",), "num_channels": (3,)}
    values = settle(config, model=NAME, defaults=VISION_DEFAULTS, supported=supported, strict=False)
    sizes = ("image_size", "patch_size")
    refuse(NAME, [f"{key}={quoted(values[key])}" for key in sizes if type(values[key]) is not int])
    check_layers(NAME, key="num_hidden_layers", value=values["num_hidden_layers"])
    activation(values["hidden_act"], model=NAME)
    check_divisible(
        NAME, widths=(values["hidden_size"],), parts=(values["num_attention_heads"],), what="heads"
    )
    return values


def is_found(scores: Array) -> Any:
    """Whether each score means that its concept is in the picture: positive after rounding to `DIGITS`."""
    return scores.round(DIGITS) > 0
