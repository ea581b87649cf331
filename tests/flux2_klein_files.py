"""A tiny FLUX.2 klein for the tests: a diffusers folder, random but seeded, written by the reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checkpoints import randomise
from diffusers import (
    AutoencoderKLFlux2,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
)
from transformers import Qwen3Config, Qwen3ForCausalLM
from z_image_files import build_chat_tokenizer

ENCODER: dict[str, Any] = {
    "hidden_size": 18,
    "intermediate_size": 31,
    "num_hidden_layers": 29,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "tie_word_embeddings": True,
}
TRANSFORMER: dict[str, Any] = {
    "in_channels": 128,
    "num_layers": 2,
    "num_single_layers": 2,
    "attention_head_dim": 16,
    "num_attention_heads": 3,
    "joint_attention_dim": 54,
    "axes_dims_rope": (2, 4, 4, 6),
    "guidance_embeds": False,
}
VAE: dict[str, Any] = {
    "block_out_channels": (8, 16, 16, 16),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "latent_channels": 32,
}


def make_tiny_flux2_klein(folder: Path, *, seed: int = 0, distilled: bool = True, **saving: Any) -> Path:
    """Write the checkpoint into `folder` and return it; the same arguments give the same bytes.

    `saving` are options of the reference's `save_pretrained`.
    """
    tokenizer = build_chat_tokenizer()
    vae = randomise(AutoencoderKLFlux2(**VAE), seed=seed + 1)
    moments, channels = np.random.default_rng(seed), TRANSFORMER["in_channels"]
    vae.bn.running_mean.copy_(torch.from_numpy(moments.normal(size=channels)))
    vae.bn.running_var.copy_(torch.from_numpy(moments.uniform(2.9, 3.5, size=channels)))
    Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift=3.0),
        vae=vae,
        text_encoder=randomise(
            Qwen3ForCausalLM(Qwen3Config(**ENCODER, vocab_size=len(tokenizer))), seed=seed + 2
        ),
        tokenizer=tokenizer,
        transformer=randomise(Flux2Transformer2DModel(**TRANSFORMER), seed=seed + 3),
        is_distilled=distilled,
    ).save_pretrained(folder, **saving)
    return folder


def original_tensors(tensors: Mapping[str, torch.Tensor], prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a transformer as the original code and ComfyUI's single files have them."""
    found = {}
    for name, tensor in tensors.items():
        first = next((each for each in FUSED if f".{each}." in name), None)
        if first is not None:
            parts = [tensors[name.replace(first, each)] for each in (first, *FUSED[first])]
        elif name == "norm_out.linear.weight":
            parts = list(reversed(tensor.chunk(2)))  # the scale, then the shift
        else:
            parts = [tensor]
        if not any(f".{each}." in name for others in FUSED.values() for each in others):
            found[prefix + original_name(name)] = torch.cat(parts).contiguous()
    return found


def original_name(name: str) -> str:
    """The original code's name of a tensor; of queries, keys and values that of the queries."""
    name = name.replace("single_transformer_blocks.", "single_blocks.")
    name = name.replace("transformer_blocks.", "double_blocks.")
    for today, before in ORIGINAL.items():
        name = name.replace(today, before)
    if name.startswith("single_blocks."):
        name = name.replace("img_attn.norm", "norm")
    return name.replace("_norm.weight", "_norm.scale")


FUSED = {"to_q": ("to_k", "to_v"), "add_q_proj": ("add_k_proj", "add_v_proj")}
ORIGINAL = {
    "x_embedder": "img_in",
    "context_embedder": "txt_in",
    "time_guidance_embed.timestep_embedder.linear_1": "time_in.in_layer",
    "time_guidance_embed.timestep_embedder.linear_2": "time_in.out_layer",
    "modulation_img.linear": "modulation_img.lin",
    "modulation_txt.linear": "modulation_txt.lin",
    "stream_modulation.linear": "stream_modulation.lin",
    "proj_out": "final_layer.linear",
    "norm_out.linear": "final_layer.adaLN_modulation.1",
    "attn.to_qkv_mlp_proj": "linear1",
    "attn.to_q.": "img_attn.qkv.",
    "attn.add_q_proj": "txt_attn.qkv",
    "attn.to_out.0": "img_attn.proj",
    "attn.to_out": "linear2",
    "attn.to_add_out": "txt_attn.proj",
    "attn.norm_added_q": "txt_attn.norm.query_norm",
    "attn.norm_added_k": "txt_attn.norm.key_norm",
    "attn.norm_q": "img_attn.norm.query_norm",
    "attn.norm_k": "img_attn.norm.key_norm",
    "ff.linear_in": "img_mlp.0",
    "ff.linear_out": "img_mlp.2",
    "ff_context.linear_in": "txt_mlp.0",
    "ff_context.linear_out": "txt_mlp.2",
}
"""The original code's names of layers; those of a single block have no `img_attn`."""
