"""The networks of a file in the original layout: their configurations, and today's names of their tensors.

The UNet's blocks are numbered: `input_blocks.0` is the first convolution. Each later input block is a
residual block, with or without attention, or a downsampling convolution. `output_blocks` are residual blocks;
the last output block of each resolution includes the upsampling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdjax_engine.weights.networks import Part, infer_part
from sdjax_engine.weights.original.families import Family
from sdjax_engine.weights.tensors import Stored

Tensors = Mapping[str, Stored]
TRAINING = ("loss.", "model_ema.")
VAE_ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}
VAE_RULES = (
    (re.compile(r"(encoder|decoder)\.norm_out\."), r"\1.conv_norm_out."),
    (re.compile(r"(encoder|decoder)\.mid\.block_1\."), r"\1.mid_block.resnets.0."),
    (re.compile(r"(encoder|decoder)\.mid\.block_2\."), r"\1.mid_block.resnets.1."),
    (re.compile(r"encoder\.down\.(\d+)\.block\."), r"encoder.down_blocks.\1.resnets."),
    (re.compile(r"encoder\.down\.(\d+)\.downsample\."), r"encoder.down_blocks.\1.downsamplers.0."),
    (re.compile(r"\.nin_shortcut\."), ".conv_shortcut."),
)
IN_ATTENTION = re.compile(r"(encoder|decoder)\.mid\.attn_1\.(norm|q|k|v|proj_out)\.")
GOING_UP = re.compile(r"decoder\.up\.(\d+)\.(block|upsample)\.(?:(\d+)\.)?")


def vae_part(file: Path, tensors: Tensors, family: Family) -> Part:
    """Return the autoencoder of these tensors of `file`; raises UnreadableCheckpoint."""

    def config(_: Tensors) -> dict[str, Any]:
        return vae_config(tensors, family)

    return infer_part(file, "AutoencoderKL", "vae", lambda: vae_names(tensors), config)


def vae_names(tensors: Tensors) -> dict[str, Stored]:
    """Return the tensors of an autoencoder by vae_name's names; unknown names are not changed."""
    levels = level_count(tensors)
    used = {name: stored for name, stored in tensors.items() if not name.startswith(TRAINING)}
    return {vae_name(name, levels): stored for name, stored in used.items()}


def vae_config(tensors: Tensors, family: Family) -> dict[str, Any]:
    """Return the config.json of an autoencoder; raises KeyError if the file has no autoencoder.

    What no tensor shows is the family's.
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
        "scaling_factor": family.scaling_factor,
        "shift_factor": family.shift_factor,
        "sample_size": family.side,
    }


def level_count(tensors: Tensors) -> int:
    """Return the number of resolutions."""
    return len({name.split(".")[2] for name in tensors if name.startswith("encoder.down.")})


def vae_name(name: str, levels: int) -> str:
    """Return vae_name's name of one tensor; the original counts the decoder's blocks from the full size."""

    def upward(match: re.Match[str]) -> str:
        block = f"decoder.up_blocks.{levels - 1 - int(match[1])}"
        return f"{block}.resnets.{match[3]}." if match[2] == "block" else f"{block}.upsamplers.0."

    name = IN_ATTENTION.sub(
        lambda match: f"{match[1]}.mid_block.attentions.0.{VAE_ATTENTION[match[2]]}.", name
    )
    name = GOING_UP.sub(upward, name)
    for pattern, replacement in VAE_RULES:
        name = pattern.sub(replacement, name)
    return name


HEAD_WIDTH = 64  # of every CLIP text encoder; no tensor shows it
UNKNOWN_END = 2  # the end id of old configurations: the prompt ends at its largest id
POSITIONS = "transformer.text_model.embeddings.position_ids"  # ComfyUI saves them under OpenCLIP too
UNUSED_TEXTS = frozenset(
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
    unused = UNUSED_TEXTS.union(PROJECTIONS)
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
        if name in UNUSED_TEXTS or (match and int(match[1]) == last):
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


SD_1_CONTEXT, SD_XL_POOLED = 768, 1280  # widths of the encoding in SD 1, and of SDXL's pooled one
SIZE_OF_TIME = 6  # numbers beside the pooled prompt, each embedded
RESNET = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
ALONE = {
    "input_blocks.0.0": "conv_in",
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "label_emb.0.0": "add_embedding.linear_1",
    "label_emb.0.2": "add_embedding.linear_2",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}
NUMBERED = re.compile(r"(input_blocks|middle_block|output_blocks)\.(\d+)\.(.+)")
TRANSFORMER = re.compile(r"1\.transformer_blocks\.(\d+)\.")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One numbered block: its tensors by their original names."""

    tensors: Tensors

    @property
    def halves(self) -> bool:
        """Whether it is the convolution that halves height and width."""
        return "0.op.weight" in self.tensors

    @property
    def width(self) -> int:
        """Its channels."""
        return self.tensors["0.out_layers.3.weight"].shape[0]

    @property
    def attends(self) -> bool:
        """Whether attention follows the residual block."""
        return "1.proj_in.weight" in self.tensors

    @property
    def depth(self) -> int:
        """The number of transformer blocks of the attention."""
        numbers = [int(match[1]) for name in self.tensors if (match := TRANSFORMER.match(name))]
        return 1 + max(numbers, default=-1)


def unet_names(tensors: Tensors) -> dict[str, Stored]:
    """Return the tensors of a UNet by unet_name's names; unknown names are not changed."""
    levels = down_levels(tensors)
    places = input_places(levels) | output_places(levels)
    return {unet_name(name, places): stored for name, stored in tensors.items()}


def unet_config(tensors: Tensors, *, heads: Callable[[int], int], pooled_width: int | None) -> dict[str, Any]:
    """Return the config.json of a UNet; raises KeyError, IndexError or ValueError if the file has no UNet.

    `heads` returns the heads of a block with this many channels; no tensor shows them. `pooled_width` is the
    width of the pooled encoding in the conditioning on sizes.
    """
    half = half_config(tensors, pooled_width=pooled_width)
    outputs = numbered(tensors, "output_blocks")
    return half | {
        "out_channels": tensors["out.2.weight"].shape[0],
        "up_block_types": [kind.replace("Down", "Up") for kind in reversed(half["down_block_types"])],
        "attention_head_dim": [heads(width) for width in half["block_out_channels"]],
        **layers_going_up(down_levels(tensors), outputs),
    }


def half_config(tensors: Tensors, *, pooled_width: int | None) -> dict[str, Any]:
    """Return the values of `unet_config` for the way down and the middle, which a ControlNet has too."""
    levels = down_levels(tensors)
    contexts = {stored.shape[-1] for name, stored in tensors.items() if name.endswith("attn2.to_k.weight")}
    return {
        "in_channels": tensors["input_blocks.0.0.weight"].shape[1],
        "block_out_channels": [level[-1].width for level in levels],
        "down_block_types": [
            "CrossAttnDownBlock2D" if level[-1].attends else "DownBlock2D" for level in levels
        ],
        "layers_per_block": [len(level) for level in levels],
        "cross_attention_dim": contexts.pop() if len(contexts) == 1 else 0,
        "mid_block_type": mid_block_type(tensors),
        "transformer_layers_per_block": [joined([block.depth for block in level]) for level in levels],
        **size_conditioning(tensors, pooled_width),
    }


def mid_block_type(tensors: Tensors) -> str | None:
    """Return the class of the middle: SSD-1B and Vega have a residual block alone, Koala 700M has none."""
    if "middle_block.1.proj_in.weight" in tensors:
        return "UNetMidBlock2DCrossAttn"
    return "UNetMidBlock2D" if "middle_block.0.in_layers.0.weight" in tensors else None


def layers_going_up(levels: list[list[Block]], outputs: list[Block]) -> dict[str, Any]:
    """Return the depths of the attentions of the way up, nothing where they mirror the way down."""
    down = [[block.depth for block in level] for level in levels]
    up, rest = [], list(outputs)
    for level in reversed(levels):
        up.append([block.depth for block in rest[: len(level) + 1]])
        rest = rest[len(level) + 1 :]
    mirrored = [set(depths) for depths in up] == [set(depths) for depths in reversed(down)]
    return {} if mirrored else {"reverse_transformer_layers_per_block": [joined(each) for each in up]}


def joined(depths: list[int]) -> int | list[int]:
    """Return one depth for a block whose layers agree, else one per layer."""
    return max(depths[0], 1) if len(set(depths)) == 1 else depths


def size_conditioning(tensors: Tensors, pooled_width: int | None) -> dict[str, Any]:
    """Return the keys of SDXL's conditioning on the pooled prompt and on sizes, none without it."""
    if "label_emb.0.0.weight" not in tensors or pooled_width is None:
        return {}
    width = tensors["label_emb.0.0.weight"].shape[1]
    return {
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": (width - pooled_width) // SIZE_OF_TIME,
        "projection_class_embeddings_input_dim": width,
    }


def numbered(tensors: Tensors, room: str) -> list[Block]:
    """Return the blocks of `input_blocks` or `output_blocks` in order."""
    found: dict[int, dict[str, Stored]] = {}
    for name, stored in tensors.items():
        match = NUMBERED.fullmatch(name)
        if match and match[1] == room:
            found.setdefault(int(match[2]), {})[match[3]] = stored
    return [Block(tensors=found[index]) for index in sorted(found)]


def down_levels(tensors: Tensors) -> list[list[Block]]:
    """Return the residual blocks of each resolution, from the full picture down."""
    levels: list[list[Block]] = [[]]
    for block in numbered(tensors, "input_blocks")[1:]:
        if block.halves:
            levels.append([])
        else:
            levels[-1].append(block)
    return levels


def input_places(levels: list[list[Block]]) -> dict[str, tuple[str, int]]:
    """Return unet_name's block and layer of each of `input_blocks`, by its old name."""
    places, index = {}, 1
    for level, blocks in enumerate(levels):
        for layer in range(len(blocks) + (level < len(levels) - 1)):
            places[f"input_blocks.{index}"] = (f"down_blocks.{level}", layer)
            index += 1
    return places


def output_places(levels: list[list[Block]]) -> dict[str, tuple[str, int]]:
    """Return unet_name's block and layer of each of `output_blocks`: one layer more than in down blocks."""
    layers = [
        (block, layer) for block, level in enumerate(reversed(levels)) for layer in range(len(level) + 1)
    ]
    return {
        f"output_blocks.{index}": (f"up_blocks.{block}", layer) for index, (block, layer) in enumerate(layers)
    }


def unet_name(name: str, places: Mapping[str, tuple[str, int]]) -> str:
    """Return unet_name's name of one tensor."""
    stem, _, leaf = name.rpartition(".")
    if stem in ALONE:
        return f"{ALONE[stem]}.{leaf}"
    match = NUMBERED.fullmatch(name)
    if not match:
        return name
    room, number, inside = match.groups()
    if room == "middle_block":
        part, layer = ("attentions", 0) if number == "1" else ("resnets", int(number) // 2)
        return f"mid_block.{part}.{layer}.{in_part(part, inside)}"
    if f"{room}.{number}" not in places:
        return name
    block, layer = places[f"{room}.{number}"]
    first, _, rest = inside.partition(".")
    if rest.startswith("op."):
        return f"{block}.downsamplers.0.conv.{leaf}"
    if rest.startswith("conv."):
        return f"{block}.upsamplers.0.conv.{leaf}"
    part = "resnets" if first == "0" else "attentions"
    return f"{block}.{part}.{layer}.{in_part(part, rest)}"


def in_part(part: str, inside: str) -> str:
    stem, _, leaf = inside.rpartition(".")
    return f"{RESNET.get(stem, stem)}.{leaf}" if part == "resnets" else inside
