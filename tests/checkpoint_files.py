"""The tiny checkpoint as one file of the original layout.

    make_tiny_checkpoint(folder, **original_form("SDXL"))
    write_original(folder, file)

The original layout has no configurations, so values that no tensor shows must be those of the family: groups
of 32 channels, 64 channels per head (8 heads in SD 1.x).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import FAMILIES
from safetensors.numpy import load_file, save_file

Tensors = dict[str, np.ndarray]
ENCODER = {"hidden_size": 64, "num_attention_heads": 1}
TWO_LEVELS = {"block_out_channels": (64, 128), "norm_num_groups": 32, "cross_attention_dim": 64}
VAE = {"block_out_channels": (32,) * 4, "norm_num_groups": 32}
UNETS: dict[str, dict[str, Any]] = {
    "SD 1": {"attention_head_dim": 8},
    "SD 2": {"attention_head_dim": (1, 2)},
    "SDXL": {
        "attention_head_dim": (1, 2),
        "cross_attention_dim": 64 + 128,
        "projection_class_embeddings_input_dim": 40 + 6 * 8,
    },
}


def original_form(family: str) -> dict[str, Any]:
    """Return the arguments of `make_tiny_checkpoint` for a checkpoint that the original layout can hold."""
    values = FAMILIES[family]
    base = family.removesuffix(" inpainting")
    form = values | {
        "unet": dict(values.get("unet", {})) | TWO_LEVELS | UNETS[base],
        "text_encoder": dict(values.get("text_encoder", {})) | ENCODER | {"eos_token_id": 2},
        "vae": VAE | {"scaling_factor": 0.13025 if base == "SDXL" else 0.18215},
    }
    if base == "SDXL":
        form["text_encoder_2"] = {"hidden_size": 128, "num_attention_heads": 2, "eos_token_id": 2}
    return form


def write_original(folder: Path, file: Path, *, whole_encoder: bool = True, **notes: str) -> Path:
    """Write the checkpoint in `folder` as one file and return it.

    `whole_encoder`: an SD 2.x text encoder is written with its last layer and projection, which nothing uses.
    """
    unet_config = json.loads((folder / "unet" / "config.json").read_text())
    tensors = {
        **prefixed("model.diffusion_model.", original_unet(read(folder / "unet"), unet_config)),
        **prefixed("first_stage_model.", original_vae(read(folder / "vae"))),
        "model_ema.decay": np.zeros((), np.float32),
        "alphas_cumprod": np.zeros(1000, np.float32),
    }
    clip = read(folder / "text_encoder")
    if (folder / "text_encoder_2").is_dir():
        tensors |= prefixed("conditioner.embedders.0.transformer.text_model.", clip)
        second = open_clip(read(folder / "text_encoder_2"))
        tensors |= prefixed("conditioner.embedders.1.model.", second)
    elif unet_config["use_linear_projection"]:
        with_more = with_unused(clip) if whole_encoder else clip
        tensors |= prefixed("cond_stage_model.model.", open_clip(with_more))
    else:
        tensors |= prefixed("cond_stage_model.transformer.text_model.", clip)
    save_file({name: np.ascontiguousarray(x) for name, x in tensors.items()}, file, metadata=notes or None)
    return file


def read(folder: Path) -> Tensors:
    (file,) = folder.glob("*.safetensors")
    return dict(load_file(file))


def prefixed(prefix: str, tensors: Tensors) -> Tensors:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def renamed(tensors: Tensors, table: Mapping[str, str]) -> Tensors:
    """Return the tensors with the longest matching prefix of each name replaced."""
    found = {}
    for name, tensor in tensors.items():
        old = max((start for start in table if name.startswith(start)), key=len)
        found[table[old] + name.removeprefix(old)] = tensor
    return found


def original_unet(tensors: Tensors, config: Mapping[str, Any]) -> Tensors:
    table = {
        "conv_in.": "input_blocks.0.0.",
        "time_embedding.linear_1.": "time_embed.0.",
        "time_embedding.linear_2.": "time_embed.2.",
        "add_embedding.linear_1.": "label_emb.0.0.",
        "add_embedding.linear_2.": "label_emb.0.2.",
        "mid_block.resnets.0.": "middle_block.0.",
        "mid_block.attentions.0.": "middle_block.1.",
        "mid_block.resnets.1.": "middle_block.2.",
        "conv_norm_out.": "out.0.",
        "conv_out.": "out.2.",
        **dict(block_starts(config)),
    }
    inside = {
        ".norm1.": ".in_layers.0.",
        ".conv1.": ".in_layers.2.",
        ".time_emb_proj.": ".emb_layers.1.",
        ".norm2.": ".out_layers.0.",
        ".conv2.": ".out_layers.3.",
        ".conv_shortcut.": ".skip_connection.",
    }
    found = {}
    for name, tensor in tensors.items():
        old = max((start for start in table if name.startswith(start)), key=len)
        new = table[old] + name.removeprefix(old)
        if ".resnets." in name:
            for part, original in inside.items():
                new = new.replace(part, original)
        found[new] = tensor
    return found


def block_starts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the prefixes of the numbered blocks' names, today's and the original."""
    blocks, layers = len(config["block_out_channels"]), config["layers_per_block"]
    index = 1
    for block in range(blocks):
        for layer in range(layers):
            yield f"down_blocks.{block}.resnets.{layer}.", f"input_blocks.{index}.0."
            yield f"down_blocks.{block}.attentions.{layer}.", f"input_blocks.{index}.1."
            index += 1
        yield f"down_blocks.{block}.downsamplers.0.conv.", f"input_blocks.{index}.0.op."
        index += 1
    index = 0
    for block, kind in enumerate(config["up_block_types"]):
        for layer in range(layers + 1):
            yield f"up_blocks.{block}.resnets.{layer}.", f"output_blocks.{index}.0."
            yield f"up_blocks.{block}.attentions.{layer}.", f"output_blocks.{index}.1."
            index += 1
        place = 2 if kind.startswith("CrossAttn") else 1
        yield f"up_blocks.{block}.upsamplers.0.conv.", f"output_blocks.{index - 1}.{place}.conv."


def original_vae(tensors: Tensors) -> Tensors:
    found = {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        new = name.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
        new = new.replace("mid_block.resnets.0", "mid.block_1").replace("mid_block.resnets.1", "mid.block_2")
        if parts[1] == "down_blocks":
            new = new.replace("down_blocks", "down").replace(".resnets.", ".block.")
            new = new.replace("downsamplers.0", "downsample")
        elif parts[1] == "up_blocks":
            new = new.replace(f"up_blocks.{parts[2]}", f"up.{3 - int(parts[2])}").replace(
                ".resnets.", ".block."
            )
            new = new.replace("upsamplers.0", "upsample")
        elif "attentions" in parts:
            new = new.replace("mid_block.attentions.0", "mid.attn_1").replace("group_norm", "norm")
            for today, original in (("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("to_out.0", "proj_out")):
                new = new.replace(today, original)
            tensor = tensor[..., None, None] if tensor.ndim == 2 else tensor  # noqa: PLW2901
        found[new] = tensor
    return found


def with_unused(clip: Tensors) -> Tensors:
    """Return the encoder with one more layer, the projection and OpenCLIP's other tensors."""
    last = max(int(name.split(".")[2]) for name in clip if name.startswith("encoder.layers."))
    more = {
        name.replace(f".{last}.", f".{last + 1}."): tensor + 1
        for name, tensor in clip.items()
        if name.startswith(f"encoder.layers.{last}.")
    }
    width = clip["final_layer_norm.bias"].size
    return (
        clip
        | more
        | {
            "text_projection.weight": np.ones((width, width), np.float32),
            "logit_scale": np.ones((), np.float32),
        }
    )


def open_clip(clip: Tensors) -> Tensors:
    """Return a CLIP text encoder as OpenCLIP names its tensors."""
    plain = {name.removeprefix("text_model."): tensor for name, tensor in clip.items()}
    table = {
        "embeddings.token_embedding.weight": "token_embedding.weight",
        "embeddings.position_embedding.weight": "positional_embedding",
        "final_layer_norm.": "ln_final.",
        "encoder.layers.": "transformer.resblocks.",
        "text_projection.weight": "text_projection",
        "logit_scale": "logit_scale",
    }
    found = renamed(plain, table)
    for old, new in (
        ("layer_norm1", "ln_1"),
        ("layer_norm2", "ln_2"),
        ("mlp.fc1", "mlp.c_fc"),
        ("mlp.fc2", "mlp.c_proj"),
        ("self_attn", "attn"),
    ):
        found = {name.replace(old, new): tensor for name, tensor in found.items()}
    for name in [name for name in found if ".q_proj." in name]:
        three = [found.pop(name.replace("q_proj", f"{each}_proj")) for each in "qkv"]
        found[name.replace("q_proj.", "in_proj_")] = np.concatenate(three)
    if "text_projection" in found:
        found["text_projection"] = found["text_projection"].T
    return found
