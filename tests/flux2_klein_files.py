"""A tiny FLUX.2 klein for the tests: a diffusers folder, random but seeded, written by the reference."""

from __future__ import annotations

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
