"""The autoencoder of a file in the original layout: its configuration, and today's names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdjax_engine.weights.networks import Part, infer_part
from sdjax_engine.weights.tensors import Stored

Tensors = Mapping[str, Stored]
TRAINING = ("loss.", "model_ema.")
ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}
RULES = (
    (re.compile(r"(encoder|decoder)\.norm_out\."), r"\1.conv_norm_out."),
    (re.compile(r"(encoder|decoder)\.mid\.block_1\."), r"\1.mid_block.resnets.0."),
    (re.compile(r"(encoder|decoder)\.mid\.block_2\."), r"\1.mid_block.resnets.1."),
    (re.compile(r"encoder\.down\.(\d+)\.block\."), r"encoder.down_blocks.\1.resnets."),
    (re.compile(r"encoder\.down\.(\d+)\.downsample\."), r"encoder.down_blocks.\1.downsamplers.0."),
    (re.compile(r"\.nin_shortcut\."), ".conv_shortcut."),
)
IN_ATTENTION = re.compile(r"(encoder|decoder)\.mid\.attn_1\.(norm|q|k|v|proj_out)\.")
GOING_UP = re.compile(r"decoder\.up\.(\d+)\.(block|upsample)\.(?:(\d+)\.)?")


def vae_part(file: Path, tensors: Tensors, *, scaling_factor: float, sample_size: int) -> Part:
    """Return the autoencoder of these tensors of `file`; raises UnreadableCheckpoint."""

    def config(_: Tensors) -> dict[str, Any]:
        return vae_config(tensors, scaling_factor=scaling_factor, sample_size=sample_size)

    return infer_part(file, "AutoencoderKL", "vae", lambda: vae_names(tensors), config)


def vae_names(tensors: Tensors) -> dict[str, Stored]:
    """Return the tensors of an autoencoder by today's names; unknown names are not changed."""
    levels = level_count(tensors)
    used = {name: stored for name, stored in tensors.items() if not name.startswith(TRAINING)}
    return {today(name, levels): stored for name, stored in used.items()}


def vae_config(tensors: Tensors, *, scaling_factor: float, sample_size: int) -> dict[str, Any]:
    """Return the config.json of an autoencoder; raises KeyError if the file has no autoencoder.

    `scaling_factor` is an argument because no tensor shows it.
    """
    levels = level_count(tensors)
    return {
        "in_channels": tensors["encoder.conv_in.weight"].shape[1],
        "out_channels": tensors["decoder.conv_out.weight"].shape[0],
        "latent_channels": tensors["decoder.conv_in.weight"].shape[1],
        "block_out_channels": [
            tensors[f"encoder.down.{level}.block.0.conv1.weight"].shape[0] for level in range(levels)
        ],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": len(
            {name.split(".")[4] for name in tensors if name.startswith("encoder.down.0.block.")}
        ),
        "mid_block_add_attention": "encoder.mid.attn_1.q.weight" in tensors,
        "use_quant_conv": "quant_conv.weight" in tensors,
        "use_post_quant_conv": "post_quant_conv.weight" in tensors,
        "scaling_factor": scaling_factor,
        "sample_size": sample_size,
    }


def level_count(tensors: Tensors) -> int:
    """Return the number of resolutions."""
    return len({name.split(".")[2] for name in tensors if name.startswith("encoder.down.")})


def today(name: str, levels: int) -> str:
    """Return today's name of one tensor; the original counts the decoder's blocks from the full size."""

    def upward(match: re.Match[str]) -> str:
        block = f"decoder.up_blocks.{levels - 1 - int(match[1])}"
        return f"{block}.resnets.{match[3]}." if match[2] == "block" else f"{block}.upsamplers.0."

    name = IN_ATTENTION.sub(lambda match: f"{match[1]}.mid_block.attentions.0.{ATTENTION[match[2]]}.", name)
    name = GOING_UP.sub(upward, name)
    for pattern, replacement in RULES:
        name = pattern.sub(replacement, name)
    return name
