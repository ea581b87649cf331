"""The values of a text encoder's config.json, checked and completed."""

from __future__ import annotations

from typing import Any

from sdjax_engine.models.activations import activation
from sdjax_engine.models.config import Config, check_divisible, check_layers, refuse, settle
from sdjax_engine.wording import quoted

NAME = "CLIPTextModel"
PROJECTED_NAME = "CLIPTextModelWithProjection"
UNKNOWN_END = 2
DEFAULTS: Config = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "eos_token_id": 49407,
    "projection_dim": 512,
}
SUPPORTED: dict[str, tuple[Any, ...]] = {
    "model_type": ("clip_text_model",),
    "use_attention_mask": (None, False),
}


def settle_text_config(config: Config) -> dict[str, Any]:
    """Return the values that a `CLIPTextModel` is built from; raises UnreadableCheckpoint.

    Other keys belong to the tokenizer or to the reference's library; they are ignored.
    """
    return settle_as(NAME, config)


def settle_projected_text_config(config: Config) -> dict[str, Any]:
    """Return the values that a `CLIPTextModelWithProjection` is built from; raises UnreadableCheckpoint."""
    return settle_as(PROJECTED_NAME, config)


def settle_as(model: str, config: Config) -> dict[str, Any]:
    supported = SUPPORTED | {"architectures": (model,)}
    values = settle(config, model=model, defaults=DEFAULTS, supported=supported, strict=False)
    refuse(
        model,
        [] if type(values["eos_token_id"]) is int else [f"eos_token_id={quoted(values['eos_token_id'])}"],
    )
    check_layers(model, key="num_hidden_layers", value=values["num_hidden_layers"])
    activation(values["hidden_act"], model=model)
    check_divisible(
        model, widths=(values["hidden_size"],), parts=(values["num_attention_heads"],), what="heads"
    )
    return values
