"""The text encoders of a file in the original layout: CLIP's own, and OpenCLIP's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sdjax_engine.weights.tensors import Stored

Tensors = Mapping[str, Stored]
HEAD_WIDTH = 64  # of every CLIP text encoder; no tensor shows it
UNKNOWN_END = 2  # the end id of old configurations: the prompt ends at its largest id
POSITIONS = "transformer.text_model.embeddings.position_ids"  # ComfyUI saves them under OpenCLIP too
UNUSED = frozenset(
    {"logit_scale", "attn_mask", "transformer.attn_mask", "embeddings.position_ids", POSITIONS}
)
OPEN_CLIP = {
    "token_embedding.weight": "embeddings.token_embedding.weight",
    "positional_embedding": "embeddings.position_embedding.weight",
    "ln_final.weight": "final_layer_norm.weight",
    "ln_final.bias": "final_layer_norm.bias",
}
IN_LAYER = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
    "attn.out_proj": "self_attn.out_proj",
}
LAYER = re.compile(r"transformer\.resblocks\.(\d+)\.(.+)")
PROJECTIONS = ("text_projection", "text_projection.weight")  # OpenCLIP's, and a linear layer's: its transpose


def clip_names(tensors: Tensors) -> dict[str, Stored]:
    """Return the tensors of a `CLIPTextModel`, with or without the prefix `text_model.`."""
    plain = {name.removeprefix("text_model."): stored for name, stored in tensors.items()}
    unused = UNUSED.union(PROJECTIONS)
    return {name: stored for name, stored in plain.items() if name not in unused}


def open_clip_names(tensors: Tensors, *, projected: bool) -> dict[str, Stored]:
    """Return the tensors of OpenCLIP's text encoder by today's names.

    `projected`: as a `CLIPTextModelWithProjection`. Otherwise the encoder is used without its last layer and
    its projection, which some files leave out.
    """
    last = layer_count(tensors) - 1 if not projected and is_whole(tensors) else None
    prefix = "text_model." if projected else ""
    found: dict[str, Stored] = {}
    for name, stored in tensors.items():
        match = LAYER.fullmatch(name)
        if name in UNUSED or (match and int(match[1]) == last):
            continue
        if name in PROJECTIONS:
            if projected:
                found[PROJECTIONS[1]] = stored.turned() if name == PROJECTIONS[0] else stored
        elif match:
            renamed = in_layer(match[2], stored)
            found |= {f"{prefix}encoder.layers.{match[1]}.{inside}": each for inside, each in renamed.items()}
        else:
            found[prefix + OPEN_CLIP.get(name, name)] = stored
    return found


def in_layer(name: str, stored: Stored) -> dict[str, Stored]:
    """Return one tensor of a layer by today's names; OpenCLIP's queries, keys and values share one."""
    if name in ("attn.in_proj_weight", "attn.in_proj_bias"):
        leaf = name.rpartition("_")[2]
        return {f"self_attn.{each}_proj.{leaf}": stored.share(index, 3) for index, each in enumerate("qkv")}
    stem, _, leaf = name.rpartition(".")
    return {f"{IN_LAYER.get(stem, stem)}.{leaf}": stored}


def is_whole(tensors: Tensors) -> bool:
    """Return whether the encoder has the layer that SD 2.x leaves out, and with it the projection."""
    return any(name in tensors for name in PROJECTIONS) or layer_count(tensors) == 24


def layer_count(tensors: Tensors) -> int:
    return 1 + max((int(match[1]) for name in tensors if (match := LAYER.fullmatch(name))), default=-1)


def text_config(named: Tensors, *, hidden_act: str) -> dict[str, Any]:
    """Return the config.json of an encoder whose tensors have today's names; raises KeyError."""
    prefix = "text_model." if PROJECTIONS[1] in named else ""
    words, width = named[f"{prefix}embeddings.token_embedding.weight"].shape
    projection = named.get(PROJECTIONS[1])
    layers = {name.split(".layers.")[1].split(".")[0] for name in named if ".layers." in name}
    return {
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": named[f"{prefix}encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": len(layers),
        "num_attention_heads": width // HEAD_WIDTH,
        "max_position_embeddings": named[f"{prefix}embeddings.position_embedding.weight"].shape[0],
        "hidden_act": hidden_act,
        "eos_token_id": UNKNOWN_END,
        "projection_dim": width if projection is None else projection.shape[0],
    }
