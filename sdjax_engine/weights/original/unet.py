"""The UNet of a file in the original layout: its configuration, and today's names of its tensors.

The original layout numbers the blocks: `input_blocks.0` is the first convolution. Each later input block is a
residual block, with or without attention, or a downsampling convolution. `output_blocks` are residual blocks;
the last output block of each resolution includes the upsampling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sdjax_engine.weights.tensors import Stored

Tensors = Mapping[str, Stored]
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
    """Return the tensors of a UNet by today's names; unknown names are not changed."""
    levels = down_levels(tensors)
    places = input_places(levels) | output_places(levels)
    return {today(name, places): stored for name, stored in tensors.items()}


def unet_config(tensors: Tensors, *, heads: Callable[[int], int], pooled_width: int | None) -> dict[str, Any]:
    """Return the config.json of a UNet; raises KeyError, IndexError or ValueError if the file has no UNet.

    `heads` returns the heads of a block with this many channels; no tensor shows them. `pooled_width` is the
    width of the pooled encoding in the conditioning on sizes.
    """
    levels = down_levels(tensors)
    outputs = numbered(tensors, "output_blocks")
    contexts = {stored.shape[-1] for name, stored in tensors.items() if name.endswith("attn2.to_k.weight")}
    kinds = ["CrossAttnDownBlock2D" if level[-1].attends else "DownBlock2D" for level in levels]
    widths = [level[-1].width for level in levels]
    return {
        "in_channels": tensors["input_blocks.0.0.weight"].shape[1],
        "out_channels": tensors["out.2.weight"].shape[0],
        "block_out_channels": widths,
        "down_block_types": kinds,
        "up_block_types": [kind.replace("Down", "Up") for kind in reversed(kinds)],
        "layers_per_block": [len(level) for level in levels],
        "attention_head_dim": [heads(width) for width in widths],
        "cross_attention_dim": contexts.pop() if len(contexts) == 1 else 0,
        "mid_block_type": mid_block_type(tensors),
        **transformer_layers(levels, outputs),
        **size_conditioning(tensors, pooled_width),
    }


def mid_block_type(tensors: Tensors) -> str | None:
    """Return the class of the middle: SSD-1B and Vega have a residual block alone, Koala 700M has none."""
    if "middle_block.1.proj_in.weight" in tensors:
        return "UNetMidBlock2DCrossAttn"
    return "UNetMidBlock2D" if "middle_block.0.in_layers.0.weight" in tensors else None


def transformer_layers(levels: list[list[Block]], outputs: list[Block]) -> dict[str, Any]:
    """Return the depths of the attentions: one for a block whose layers agree, else one per layer."""
    down = [[block.depth for block in level] for level in levels]
    up, rest = [], list(outputs)
    for level in reversed(levels):
        up.append([block.depth for block in rest[: len(level) + 1]])
        rest = rest[len(level) + 1 :]
    mirrored = [set(depths) for depths in up] == [set(depths) for depths in reversed(down)]
    reverse = {} if mirrored else {"reverse_transformer_layers_per_block": [joined(each) for each in up]}
    return {"transformer_layers_per_block": [joined(each) for each in down], **reverse}


def joined(depths: list[int]) -> int | list[int]:
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
    """Return today's block and layer of each of `input_blocks`, by its old name."""
    places, index = {}, 1
    for level, blocks in enumerate(levels):
        for layer in range(len(blocks) + (level < len(levels) - 1)):
            places[f"input_blocks.{index}"] = (f"down_blocks.{level}", layer)
            index += 1
    return places


def output_places(levels: list[list[Block]]) -> dict[str, tuple[str, int]]:
    """Return today's block and layer of each of `output_blocks`: one layer more than in down blocks."""
    layers = [
        (block, layer) for block, level in enumerate(reversed(levels)) for layer in range(len(level) + 1)
    ]
    return {
        f"output_blocks.{index}": (f"up_blocks.{block}", layer) for index, (block, layer) in enumerate(layers)
    }


def today(name: str, places: Mapping[str, tuple[str, int]]) -> str:
    """Return today's name of one tensor."""
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
