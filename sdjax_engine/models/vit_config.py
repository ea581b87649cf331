"""The values of a ViT image classifier's config.json, checked and completed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdjax_engine.models.activations import activation
from sdjax_engine.models.config import Config, check_divisible, check_layers, refuse, settle
from sdjax_engine.wording import quoted

NAME = "ViTForImageClassification"
MOST_LABELS = 1000
LABELS = "id2label"
DEFAULTS: Config = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "image_size": 224,
    "patch_size": 16,
    "qkv_bias": True,
    LABELS: {},
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "architectures": (NAME,),
    "model_type": ("vit",),
    "num_channels": (3,),
    "problem_type": (None, "single_label_classification"),
    "qkv_bias": (True, False),
}


def settle_vit_config(config: Config) -> dict[str, Any]:
    """Return the values that the network is built from; raises UnreadableCheckpoint."""
    values = settle(config, model=NAME, defaults=DEFAULTS, supported=SUPPORTED, strict=False)
    sizes = ("image_size", "patch_size", "hidden_size", "intermediate_size", "num_attention_heads")
    refuse(NAME, [f"{key}={quoted(values[key])}" for key in sizes if not is_count(values[key])])
    if not is_count(values["num_hidden_layers"]):
        refuse(NAME, [f"num_hidden_layers={quoted(values['num_hidden_layers'])}"])
    check_layers(NAME, key="num_hidden_layers", value=values["num_hidden_layers"])
    activation(values["hidden_act"], model=NAME)
    check_divisible(
        NAME, widths=(values["hidden_size"],), parts=(values["num_attention_heads"],), what="heads"
    )
    check_divisible(NAME, widths=(values["image_size"],), parts=(values["patch_size"],), what="patches")
    if not has_labels(values[LABELS]):
        refuse(NAME, [f"{LABELS}={quoted(values[LABELS])}"])
    return values


def labels_of(values: Config) -> tuple[str, ...]:
    """Return the labels of a settled configuration, in the order of the network's outputs."""
    named = {int(number): str(label) for number, label in values[LABELS].items()}
    return tuple(named[number] for number in range(len(named)))


def is_count(value: object) -> bool:
    return type(value) is int and value > 0


def has_labels(named: object) -> bool:
    """Whether each of 2 to 1000 outputs has a label, and no two have the same."""
    if not isinstance(named, Mapping) or not 2 <= len(named) <= MOST_LABELS:
        return False
    numbers = {str(number) for number in named}
    return numbers == {str(number) for number in range(len(named))} and len(
        {str(label) for label in named.values()}
    ) == len(named)
