"""The names of the layers of FLUX.2's transformer in the original code, and in files that follow it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sdjax_engine.families.transformer_names import PREFIX, in_all_files

ALONE = {
    "img_in": "x_embedder",
    "txt_in": "context_embedder",
    "time_in.in_layer": "time_guidance_embed.timestep_embedder.linear_1",
    "time_in.out_layer": "time_guidance_embed.timestep_embedder.linear_2",
    "double_stream_modulation_img.lin": "double_stream_modulation_img.linear",
    "double_stream_modulation_txt.lin": "double_stream_modulation_txt.linear",
    "single_stream_modulation.lin": "single_stream_modulation.linear",
    "final_layer.linear": "proj_out",
}
LAST_NORM, ORIGINAL_LAST_NORM = "norm_out.linear", "final_layer.adaLN_modulation.1"
"""Today it has the scale first, in the original code the shift."""
BLOCKS = {"double_blocks": "transformer_blocks", "single_blocks": "single_transformer_blocks"}
IN_BLOCK = {
    "img_attn.norm.query_norm": "attn.norm_q",
    "img_attn.norm.key_norm": "attn.norm_k",
    "img_attn.proj": "attn.to_out.0",
    "img_mlp.0": "ff.linear_in",
    "img_mlp.2": "ff.linear_out",
    "txt_attn.norm.query_norm": "attn.norm_added_q",
    "txt_attn.norm.key_norm": "attn.norm_added_k",
    "txt_attn.proj": "attn.to_add_out",
    "txt_mlp.0": "ff_context.linear_in",
    "txt_mlp.2": "ff_context.linear_out",
    "linear1": "attn.to_qkv_mlp_proj",
    "linear2": "attn.to_out",
    "norm.query_norm": "attn.norm_q",
    "norm.key_norm": "attn.norm_k",
}
FUSED = {
    "img_attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "txt_attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
}
OF_BLOCK = re.compile(r"(\w+_blocks)\.(\d+)\.(.+)")
ADAPTED = {today: original for original, today in IN_BLOCK.items() if "norm" not in original}
"""The original names of the linear maps in a block."""
ALIASES = {"transformer_blocks.": "sformer_blocks."}
"""Some programs take too much off the beginning of a name."""


def current_names(name: str) -> tuple[str, ...]:
    """Return today's names of a tensor in a file of the original code: each is an equal share of its rows."""
    layer, _, leaf = name.removeprefix(PREFIX).rpartition(".")
    leaf = "weight" if leaf == "scale" else leaf
    return tuple(f"{today}.{leaf}" for today in today_of(layer))


def today_of(layer: str) -> tuple[str, ...]:
    """Return today's paths of a layer of the original code, or the path itself."""
    match = OF_BLOCK.fullmatch(layer)
    if match is None or match[1] not in BLOCKS:
        return (LAST_NORM if layer == ORIGINAL_LAST_NORM else ALONE.get(layer, layer),)
    inner = FUSED.get(match[3]) or (IN_BLOCK.get(match[3], match[3]),)
    return tuple(f"{BLOCKS[match[1]]}.{match[2]}.{each}" for each in inner)


def halves_exchanged(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether this is the tensor of the last norm in the original order: the shift, then the scale."""
    del config
    return name.removeprefix(PREFIX).startswith(ORIGINAL_LAST_NORM)


def spellings(path: str) -> list[str]:
    """Return how LoRA files write the path of a layer.

    The last norm has today's name alone. Files with its original name have its halves in the other order.
    """
    paths = [path, *original_of(path)]
    paths += [alias + path.removeprefix(name) for name, alias in ALIASES.items() if path.startswith(name)]
    return in_all_files(paths)


def original_of(path: str) -> list[str]:
    """Return the path of this layer in the original code, if a layer there is this layer alone."""
    match = OF_BLOCK.fullmatch(path)
    if match is None:
        return [original for original, today in ALONE.items() if today == path]
    blocks = [original for original, today in BLOCKS.items() if today == match[1]]
    return [f"{block}.{match[2]}.{ADAPTED[match[3]]}" for block in blocks if match[3] in ADAPTED]


def exchanged_spellings(paths: Iterable[str]) -> dict[str, str]:
    """Return nothing: files with the last norm's original name are not read."""
    del paths
    return {}


def joint_spellings(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the spellings of tensors for queries, keys and values, with the layers that share each."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        for fused, (queries, *others) in FUSED.items():
            if path.endswith(f".{queries}"):
                block = path.removesuffix(queries)
                number = block.split(".")[1]
                layers = tuple(f"{block}{each}" for each in (queries, *others))
                found |= dict.fromkeys(in_all_files([f"double_blocks.{number}.{fused}"]), layers)
    return found
