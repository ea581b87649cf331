"""A tiny SD 3.5 for the tests: a whole diffusers folder, random but seeded, written by the reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from checkpoints import WORDS, build_second_encoder, build_tokenizer, randomise, text_encoder_config
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
)
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, T5Config, T5EncoderModel, T5Tokenizer
from z_image_files import VAE

TRANSFORMER: dict[str, Any] = {
    "in_channels": 16,
    "num_layers": 3,
    "attention_head_dim": 12,
    "num_attention_heads": 3,
    "joint_attention_dim": 88,
    "caption_projection_dim": 36,
    "pooled_projection_dim": 72,
    "pos_embed_max_size": 9,
    "dual_attention_layers": (0, 1),
    "qk_norm": "rms_norm",
    "sample_size": 8,
}
T5: dict[str, Any] = {
    "d_model": 88,
    "d_kv": 6,
    "d_ff": 37,
    "num_layers": 2,
    "num_heads": 5,
    "feed_forward_proj": "gated-gelu",
    "dropout_rate": 0.0,
}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:;()[]&~-"


def make_tiny_sd3(folder: Path, *, seed: int = 0, with_t5: bool = True, **saving: Any) -> Path:
    """Write the checkpoint into `folder` and return it; the same arguments give the same bytes.

    `saving` are options of the reference's `save_pretrained`.
    """
    tokenizer = build_tokenizer()
    # Published checkpoints have the wrong id of the end.
    first = CLIPTextConfig(
        **text_encoder_config(tokenizer) | {"num_hidden_layers": 3, "eos_token_id": 2, "bos_token_id": 0}
    )
    StableDiffusion3Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=randomise(
            AutoencoderKL(**VAE | {"scaling_factor": 1.5305, "shift_factor": 0.0609}), seed=seed + 1
        ),
        text_encoder=randomise(CLIPTextModelWithProjection(first), seed=seed + 2),
        tokenizer=tokenizer,
        transformer=randomise(SD3Transformer2DModel(**TRANSFORMER), seed=seed + 3),
        **build_second_encoder({"num_hidden_layers": 4}, seed=seed),
        **third_encoder(with_t5=with_t5, seed=seed),
    ).save_pretrained(folder, **saving)
    return folder


def third_encoder(*, with_t5: bool, seed: int) -> dict[str, Any]:
    """T5 and its tokenizer; both None without it."""
    if not with_t5:
        return {"text_encoder_3": None, "tokenizer_3": None}
    tokenizer = build_unigram_tokenizer()
    encoder = T5EncoderModel(T5Config(**T5, vocab_size=len(tokenizer) + 5))
    return {"text_encoder_3": randomise(encoder, seed=seed + 6), "tokenizer_3": tokenizer}


def build_unigram_tokenizer() -> T5Tokenizer:
    """A tokenizer of T5's kind that knows a few words whole, and letters."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(f"▁{word}", -3.0 - index / 8) for index, word in enumerate(WORDS)]
    pieces += [(letter, -7.0 - index / 16) for index, letter in enumerate(LETTERS)]
    return T5Tokenizer(vocab=pieces, extra_ids=0, additional_special_tokens=[])


FUSED = {
    "attn.to_q": ("x_block.attn.qkv", ("attn.to_k", "attn.to_v")),
    "attn2.to_q": ("x_block.attn2.qkv", ("attn2.to_k", "attn2.to_v")),
    "attn.add_q_proj": ("context_block.attn.qkv", ("attn.add_k_proj", "attn.add_v_proj")),
}
ORIGINAL = {
    "attn.norm_q": "x_block.attn.ln_q",
    "attn.norm_k": "x_block.attn.ln_k",
    "attn.to_out.0": "x_block.attn.proj",
    "attn2.norm_q": "x_block.attn2.ln_q",
    "attn2.norm_k": "x_block.attn2.ln_k",
    "attn2.to_out.0": "x_block.attn2.proj",
    "ff.net.0.proj": "x_block.mlp.fc1",
    "ff.net.2": "x_block.mlp.fc2",
    "norm1.linear": "x_block.adaLN_modulation.1",
    "attn.norm_added_q": "context_block.attn.ln_q",
    "attn.norm_added_k": "context_block.attn.ln_k",
    "attn.to_add_out": "context_block.attn.proj",
    "ff_context.net.0.proj": "context_block.mlp.fc1",
    "ff_context.net.2": "context_block.mlp.fc2",
    "norm1_context.linear": "context_block.adaLN_modulation.1",
    "pos_embed.proj": "x_embedder.proj",
    "time_text_embed.timestep_embedder.linear_1": "t_embedder.mlp.0",
    "time_text_embed.timestep_embedder.linear_2": "t_embedder.mlp.2",
    "time_text_embed.text_embedder.linear_1": "y_embedder.mlp.0",
    "time_text_embed.text_embedder.linear_2": "y_embedder.mlp.2",
    "context_embedder": "context_embedder",
    "proj_out": "final_layer.linear",
    "norm_out.linear": "final_layer.adaLN_modulation.1",
}
"""The original code's names of layers, in a block and alone."""


def original_tensors(tensors: Mapping[str, torch.Tensor], prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a transformer as the original code and ComfyUI's single files have them."""
    last = TRANSFORMER["num_layers"] - 1
    exchanged = ("norm_out.linear", f"transformer_blocks.{last}.norm1_context.linear")
    later = {each for _, others in FUSED.values() for each in others}
    found = {}
    for name, tensor in tensors.items():
        block, layer, leaf = parts_of(name)
        if layer in later:
            continue
        if layer in FUSED:
            original, others = FUSED[layer]
            parts = [tensor, *(tensors[name.replace(layer, each)] for each in others)]
        else:
            original = ORIGINAL.get(layer, layer)
            # The shift, then the scale.
            parts = list(reversed(tensor.chunk(2))) if name.startswith(exchanged) else [tensor]
        found[f"{prefix}{block}{original}{leaf}"] = torch.cat(parts).contiguous()
    found[f"{prefix}pos_embed"] = found.pop(f"{prefix}pos_embed.pos_embed")
    return found


def parts_of(name: str) -> tuple[str, str, str]:
    """A tensor's original block, today's name of its layer there, and the rest, all with their dots."""
    layer, _, leaf = name.rpartition(".")
    if not layer.startswith("transformer_blocks."):
        return ("", layer, f".{leaf}")
    _, number, inner = layer.split(".", 2)
    return f"joint_blocks.{number}.", inner, f".{leaf}"
