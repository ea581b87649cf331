"""A tiny Z-Image for the tests: a whole diffusers folder, random but seeded, written by the reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from checkpoints import WORDS, byte_letters, randomise
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    ZImagePipeline,
    ZImageTransformer2DModel,
)
from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3ForCausalLM

TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{{- message.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}{%- endif %}"
)
"""What Qwen3's own template does with one message of a user."""
SPECIAL = ("<|im_start|>", "<|im_end|>", "<think>", "</think>")
TRANSFORMER: dict[str, Any] = {
    "dim": 50,
    "n_layers": 2,
    "n_refiner_layers": 1,
    "n_heads": 5,
    "n_kv_heads": 5,
    "in_channels": 16,
    "cap_feat_dim": 26,
    "axes_dims": (2, 4, 4),
    "axes_lens": (1024, 64, 64),
}
ENCODER: dict[str, Any] = {
    "hidden_size": 26,
    "intermediate_size": 57,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "tie_word_embeddings": True,
}
VAE: dict[str, Any] = {
    "block_out_channels": (8, 16, 16, 16),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "latent_channels": 16,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "scaling_factor": 0.3611,
    "shift_factor": 0.1159,
    "sample_size": 64,
}
TURBO: dict[str, Any] = {"shift": 3.0}


def make_tiny_z_image(
    folder: Path, *, seed: int = 0, scheduler: Mapping[str, Any] = TURBO, **saving: Any
) -> Path:
    """Write the checkpoint into `folder` and return it; the same arguments give the same bytes.

    `saving` are options of the reference's `save_pretrained`.
    """
    tokenizer = build_chat_tokenizer()
    encoder = Qwen3Config(**ENCODER, vocab_size=len(tokenizer))
    ZImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(**scheduler),
        vae=randomise(AutoencoderKL(**VAE), seed=seed + 1),
        text_encoder=randomise(Qwen3ForCausalLM(encoder), seed=seed + 2),
        tokenizer=tokenizer,
        transformer=randomise(ZImageTransformer2DModel(**TRANSFORMER), seed=seed + 3),
    ).save_pretrained(folder, **saving)
    return folder


def original_tensors(tensors: Mapping[str, torch.Tensor], prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a transformer as the original code and ComfyUI's single files have them."""
    renamed = {
        "all_x_embedder.2-1": "x_embedder",
        "all_final_layer.2-1": "final_layer",
        "attention.to_out.0": "attention.out",
    }
    found = {"norm_final.weight": torch.ones(2)}
    for name, tensor in tensors.items():
        if ".attention.to_q." in name:
            fused = [tensors[name.replace("to_q", each)] for each in ("to_q", "to_k", "to_v")]
            found[name.replace("to_q", "qkv")] = torch.cat(fused)
        elif ".attention.norm_" in name:
            found[re.sub(r"norm_([qk])", r"\1_norm", name)] = tensor
        elif ".attention.to_k." not in name and ".attention.to_v." not in name:
            original = name
            for today, before in renamed.items():
                original = original.replace(today, before)
            found[original] = tensor
    return {f"{prefix}{name}": tensor.contiguous() for name, tensor in found.items()}


def build_chat_tokenizer() -> Qwen2Tokenizer:
    """A byte-level BPE of Qwen's kind that knows a few words whole and every other text by its bytes."""
    merges: dict[tuple[str, str], None] = {}
    for word in ("user", "assistant", *(f"Ġ{word}" for word in WORDS), *WORDS):
        so_far = word[0]
        for letter in word[1:]:
            merges[so_far, letter] = None
            so_far += letter
    tokens = [*byte_letters(), *("".join(pair) for pair in merges)]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=list(merges))
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL)})
    tokenizer.chat_template = TEMPLATE
    return tokenizer
