"""The names that the original code and other programs give to the layers of SD 3's transformer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sdjax_engine.families.transformer_names import PREFIX, in_all_files

OTHER_NETWORKS = ("first_stage_model.", "text_encoders.", "vae.")
"""How tensors of the encoders and the autoencoder begin, which some files of the whole checkpoint have."""
ALONE = {
    "x_embedder.proj": "pos_embed.proj",
    "context_embedder": "context_embedder",
    "t_embedder.mlp.0": "time_text_embed.timestep_embedder.linear_1",
    "t_embedder.mlp.2": "time_text_embed.timestep_embedder.linear_2",
    "y_embedder.mlp.0": "time_text_embed.text_embedder.linear_1",
    "y_embedder.mlp.2": "time_text_embed.text_embedder.linear_2",
    "final_layer.linear": "proj_out",
}
LAST_NORM, ORIGINAL_LAST_NORM = "norm_out.linear", "final_layer.adaLN_modulation.1"
POSITIONS, TODAY_POSITIONS = "pos_embed", "pos_embed.pos_embed"
IN_BLOCK = {
    "x_block.attn.ln_q": "attn.norm_q",
    "x_block.attn.ln_k": "attn.norm_k",
    "x_block.attn.proj": "attn.to_out.0",
    "x_block.attn2.ln_q": "attn2.norm_q",
    "x_block.attn2.ln_k": "attn2.norm_k",
    "x_block.attn2.proj": "attn2.to_out.0",
    "x_block.mlp.fc1": "ff.net.0.proj",
    "x_block.mlp.fc2": "ff.net.2",
    "x_block.adaLN_modulation.1": "norm1.linear",
    "context_block.attn.ln_q": "attn.norm_added_q",
    "context_block.attn.ln_k": "attn.norm_added_k",
    "context_block.attn.proj": "attn.to_add_out",
    "context_block.mlp.fc1": "ff_context.net.0.proj",
    "context_block.mlp.fc2": "ff_context.net.2",
}
PROMPT_NORM, ORIGINAL_PROMPT_NORM = "norm1_context.linear", "context_block.adaLN_modulation.1"
"""Today both norms have the scale first, before the shift: the second norm in the last block alone."""
FUSED = {
    "x_block.attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "x_block.attn2.qkv": ("attn2.to_q", "attn2.to_k", "attn2.to_v"),
    "context_block.attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
}
ORIGINAL_BLOCKS, BLOCKS = "joint_blocks", "transformer_blocks"
OF_BLOCK = re.compile(rf"({ORIGINAL_BLOCKS}|{BLOCKS})\.(\d+)\.(.+)")


def current_names(name: str) -> tuple[str, ...]:
    """Return today's names of a tensor in a file of the original code: each is an equal share of its rows.

    Tensors of the other networks of a checkpoint are not used.
    """
    if name.startswith(OTHER_NETWORKS):
        return ()
    name = name.removeprefix(PREFIX)
    if name == POSITIONS:
        return (TODAY_POSITIONS,)
    layer, _, leaf = name.rpartition(".")
    return tuple(f"{today}.{leaf}" for today in today_of(layer))


def today_of(layer: str) -> tuple[str, ...]:
    """Return today's paths of a layer of the original code, or the path itself."""
    match = OF_BLOCK.fullmatch(layer)
    if match is None or match[1] != ORIGINAL_BLOCKS:
        return (LAST_NORM if layer == ORIGINAL_LAST_NORM else ALONE.get(layer, layer),)
    today = PROMPT_NORM if match[3] == ORIGINAL_PROMPT_NORM else IN_BLOCK.get(match[3], match[3])
    inner = FUSED.get(match[3]) or (today,)
    return tuple(f"{BLOCKS}.{match[2]}.{each}" for each in inner)


def halves_exchanged(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether this is a tensor of the last norm, or of the prompt's norm in the last block."""
    of_last_block = f"{ORIGINAL_BLOCKS}.{config['num_layers'] - 1}.{ORIGINAL_PROMPT_NORM}"
    return name.removeprefix(PREFIX).startswith((f"{ORIGINAL_LAST_NORM}.", f"{of_last_block}."))


def spellings(path: str) -> list[str]:
    """Return how LoRA files write the path of a layer, whose rows are in today's order."""
    return in_all_files([path, *original_of(path)])


def original_of(path: str) -> list[str]:
    """Return the path of this layer in the original code, if a layer there is this layer alone."""
    match = OF_BLOCK.fullmatch(path)
    if match is None:
        return [original for original, today in ALONE.items() if today == path]
    return [
        f"{ORIGINAL_BLOCKS}.{match[2]}.{original}"
        for original, today in IN_BLOCK.items()
        if today == match[3]
    ]


def exchanged_spellings(paths: Iterable[str]) -> dict[str, str]:
    """Return the original code's spellings of the last norm, and of the prompt's in the last block."""
    originals = {LAST_NORM: ORIGINAL_LAST_NORM}
    numbers = numbers_of_prompt_norms(paths)
    if numbers:
        last = max(numbers)
        originals[f"{BLOCKS}.{last}.{PROMPT_NORM}"] = f"{ORIGINAL_BLOCKS}.{last}.{ORIGINAL_PROMPT_NORM}"
    return {spelling: today for today, original in originals.items() for spelling in in_all_files([original])}


def numbers_of_prompt_norms(paths: Iterable[str]) -> list[int]:
    """Return the blocks whose norm of the prompt is one of these layers."""
    matches = (OF_BLOCK.fullmatch(path) for path in paths)
    return [int(match[2]) for match in matches if match is not None and match[3] == PROMPT_NORM]


def joint_spellings(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the spellings of tensors for queries, keys and values, with the layers that share each.

    The prompt's norms are here too, those of all blocks but the last.
    """
    paths, found = tuple(paths), dict[str, tuple[str, ...]]()
    for number in sorted(numbers_of_prompt_norms(paths))[:-1]:
        spelled = in_all_files([f"{ORIGINAL_BLOCKS}.{number}.{ORIGINAL_PROMPT_NORM}"])
        found |= dict.fromkeys(spelled, (f"{BLOCKS}.{number}.{PROMPT_NORM}",))
    for path in paths:
        match = OF_BLOCK.fullmatch(path)
        for fused, layers in FUSED.items():
            if match is not None and match[3] == layers[0]:
                shared = tuple(f"{BLOCKS}.{match[2]}.{each}" for each in layers)
                found |= dict.fromkeys(in_all_files([f"{ORIGINAL_BLOCKS}.{match[2]}.{fused}"]), shared)
    return found
