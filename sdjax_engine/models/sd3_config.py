"""Reading config.json of SD 3.5's denoising network and of its T5 encoder: values checked and completed."""

from __future__ import annotations

from typing import Any

from sdjax_engine.errors import quoted
from sdjax_engine.models.config import Config, check_layers, check_positive, is_count, refuse, settle

SD3 = "SD3Transformer2DModel"
PATCH = 2
SD3_DEFAULTS: Config = {
    "attention_head_dim": 64,
    "caption_projection_dim": 1152,
    "dual_attention_layers": (),
    "in_channels": 16,
    "joint_attention_dim": 4096,
    "num_attention_heads": 18,
    "num_layers": 18,
    "out_channels": 16,
    "pooled_projection_dim": 2048,
    "pos_embed_max_size": 96,
    "qk_norm": None,
}
SD3_SUPPORTED: dict[str, tuple[Any, ...]] = {"patch_size": (PATCH,), "qk_norm": (None, "rms_norm")}
SD3_UNUSED = frozenset({"sample_size"})  # the position table is cut to each picture's size
SD3_NO_COUNTS = frozenset({"dual_attention_layers", "qk_norm"})


def settle_sd3_config(config: Config) -> dict[str, Any]:
    """Return the values that an `SD3Transformer2DModel` is built from; raises UnreadableCheckpoint."""
    values = settle(config, model=SD3, defaults=SD3_DEFAULTS, supported=SD3_SUPPORTED, unused=SD3_UNUSED)
    _check_counts(SD3, values, besides=SD3_NO_COUNTS)
    check_layers(SD3, key="num_layers", value=values["num_layers"])
    inner = values["num_attention_heads"] * values["attention_head_dim"]
    dual = values["dual_attention_layers"]
    wrong = [] if values["caption_projection_dim"] == inner else ["caption_projection_dim"]
    wrong += (
        []
        if isinstance(dual, tuple) and set(dual) <= set(range(values["num_layers"]))
        else ["dual_attention_layers"]
    )
    wrong += [] if values["in_channels"] == values["out_channels"] else ["out_channels"]
    refuse(SD3, [f"{key}={quoted(values[key])}" for key in wrong])
    return values


T5 = "T5EncoderModel"
T5_DEFAULTS: Config = {
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "feed_forward_proj": "relu",
    "layer_norm_epsilon": 1e-6,
    "num_heads": 8,
    "num_layers": 6,
    "relative_attention_max_distance": 128,
    "relative_attention_num_buckets": 32,
    "vocab_size": 32128,
}
T5_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "architectures": (T5, "T5ForConditionalGeneration"),
    "feed_forward_proj": ("gated-gelu",),
    "model_type": ("t5",),
    "quantization_config": (None,),
}


def settle_t5_config(config: Config) -> dict[str, Any]:
    """Return the values that a `T5EncoderModel` is built from; raises UnreadableCheckpoint.

    The reference's default of `feed_forward_proj`, "relu", is another network, so the key must be there.
    """
    given = {**T5_DEFAULTS, **config}
    values = settle(given, model=T5, defaults=T5_DEFAULTS, supported=T5_SUPPORTED, strict=False)
    _check_counts(T5, values, besides=frozenset({"feed_forward_proj", "layer_norm_epsilon"}))
    check_positive(T5, values, keys=("layer_norm_epsilon",))
    check_layers(T5, key="num_layers", value=values["num_layers"])
    buckets, farthest = (values[f"relative_attention_{each}"] for each in ("num_buckets", "max_distance"))
    if buckets % 4 or farthest <= buckets // 4:
        refuse(
            T5, [f"relative_attention_num_buckets={buckets}", f"relative_attention_max_distance={farthest}"]
        )
    return values


def _check_counts(model: str, values: Config, *, besides: frozenset[str]) -> None:
    counts = {key: value for key, value in values.items() if key not in besides}
    refuse(model, [f"{key}={quoted(value)}" for key, value in counts.items() if not is_count(value)])
