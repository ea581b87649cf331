"""The layer and the factor of a key in a LoRA file, in all common spellings.

For example the layer `down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q` of `unet` is written
    unet.down_blocks.0.….attn1.to_q              diffusers and peft; in old files `attn1.processor.to_q_lora`
    lora_unet_down_blocks_0_…_attn1_to_q         kohya's scripts, LyCORIS
    lora_unet_input_blocks_1_1_…_attn1_to_q      as before, for SDXL, with the original code's blocks
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from sdjax_engine.families.family import ForeignNames
from sdjax_engine.models.lora_bank import LayerPath
from sdjax_engine.weights.original.networks import ALONE, RESNET

KOHYA_PREFIXES = {
    "unet": ("lora_unet_",),
    "text_encoder": ("lora_te_", "lora_te1_"),
    "text_encoder_2": ("lora_te2_",),
}
ROLES = re.compile(
    r"(?P<layer>.+?)(?:"
    r"(?:_lora|\.lora|\.lora_linear_layer)\.(?P<plain>down|up)\.weight"
    r"|\.lora_(?P<named>down|up|A|B)(?:\.default)?\.weight"
    r"|(?:_lora|\.lora)?\.(?P<alpha>alpha))"
)
OTHER_KINDS = {
    "dora_scale": "DoRA",
    "lora_magnitude_vector": "DoRA",
    "hada_": "LoHa",
    "lokr_": "LoKr",
    "lora_mid": "LoRA with a core tensor (Tucker)",
    "oft_": "OFT",
    "w_norm": "trained norms",
    "b_norm": "trained norms",
    ".diff": "whole differences of weights",
    ".on_input": "IA3",
    "ia3_l": "IA3",
    ".a1.weight": "GLoRA",
    ".a2.weight": "GLoRA",
    ".b1.weight": "GLoRA",
    ".b2.weight": "GLoRA",
    "bundle_emb.": "a LoRA with embeddings in its file",
}
ORIGINAL_RESNET = {today: original for original, today in RESNET.items()}
ORIGINAL_ALONE = {today: original for original, today in ALONE.items()}
OF_PEFT = "base_model.model."  # peft's own files, which have their alphas in a second file
MIDDLE = {"resnets.0": 0, "attentions.0": 1, "resnets.1": 2}
IN_BLOCK = re.compile(r"(down|up)_blocks\.(\d+)\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.+)")
IN_MIDDLE = re.compile(r"mid_block\.((?:resnets|attentions)\.\d+)\.(.+)")


class Role(StrEnum):
    """The role of a tensor in its layer."""

    DOWN = "down"
    UP = "up"
    ALPHA = "alpha"


def other_kind(key: str) -> str | None:
    """Return the name of the method of a key, if it is not LoRA, else None."""
    return next((kind for mark, kind in OTHER_KINDS.items() if mark in key), None)


def split_key(key: str) -> tuple[str, Role] | None:
    """Return the spelling of the layer of `key` and the tensor's role, or None for other keys."""
    match = ROLES.fullmatch(key)
    if match is None:
        return None
    mark = match["plain"] or match["named"] or match["alpha"]
    role = {"A": Role.DOWN, "B": Role.UP}.get(mark) or Role(mark)
    return match["layer"].removeprefix(OF_PEFT).replace(".processor.", "."), role


def spellings(places: Iterable[LayerPath], names: ForeignNames | None = None) -> dict[str, LayerPath]:
    """Return every spelling of these layers, without the factor's name; `names` are their family's."""
    places = tuple(places)
    if names is not None:
        return {
            spelling: place
            for place in places
            for spelling in (
                spellings_in_text_encoder(place) if is_of_texts(place) else names.spellings(place.path)
            )
        }
    original = original_names(place.path for place in places if place.component == "unet")
    return {
        spelling: place
        for place in places
        for spelling in (
            spellings_in_unet(place, original.get(place.path))
            if place.component == "unet"
            else spellings_in_text_encoder(place)
        )
    }


def joint_spellings(
    places: Iterable[LayerPath], names: ForeignNames | None
) -> dict[str, tuple[LayerPath, ...]]:
    """Return the spellings of tensors that several of these layers share."""
    if names is None:
        return {}
    known = {place.path: place for place in places if not is_of_texts(place)}
    joint = names.joint_spellings(known)
    return {spelling: tuple(known[path] for path in paths) for spelling, paths in joint.items()}


def exchanged_spellings(places: Iterable[LayerPath], names: ForeignNames | None) -> dict[str, LayerPath]:
    """Return the spellings of layers of which a file has the second half of the rows first."""
    if names is None:
        return {}
    known = {place.path: place for place in places if not is_of_texts(place)}
    exchanged = names.exchanged_spellings(known)
    return {spelling: known[path] for spelling, path in exchanged.items() if path in known}


def is_of_texts(place: LayerPath) -> bool:
    """Whether a layer is a text encoder's."""
    return place.component.startswith("text_encoder")


def spellings_in_unet(place: LayerPath, original: str | None) -> list[str]:
    """Return the spellings of a UNet layer; files with only the UNet may omit the prefix `unet.`."""
    dotted = [place.path, place.path.removesuffix(".0")] if place.path.endswith("to_out.0") else [place.path]
    return [
        *dotted,
        *(f"{place.component}.{path}" for path in dotted),
        *kohya_spellings("unet", [place.path, *([original] if original else [])]),
    ]


def spellings_in_text_encoder(place: LayerPath) -> list[str]:
    """Return the spellings of a text encoder's layer: with and without `text_model`."""
    path = place.path.removeprefix("text_model.")
    old = re.sub(r"self_attn\.(q|k|v|out)_proj$", r"self_attn.to_\1", path)
    written = [f"{around}{each}" for around in ("", "text_model.") for each in dict.fromkeys((path, old))]
    return [
        *(f"{place.component}.{each}" for each in written),
        *kohya_spellings(place.component, [path, f"text_model.{path}"]),
    ]


def kohya_spellings(component: str, paths: Iterable[str]) -> list[str]:
    return [prefix + path.replace(".", "_") for prefix in KOHYA_PREFIXES.get(component, ()) for path in paths]


def original_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the original code's names of the layers of a UNet with these paths.

    The original code numbers the input and output blocks: each residual block with its transformer is one
    block, and each downsampling is one. An upsampling belongs to the residual block before it.
    """
    paths = tuple(paths)
    numbers = block_numbers(paths)
    names = {}
    for path in paths:
        if path in ORIGINAL_ALONE:
            names[path] = ORIGINAL_ALONE[path]
        elif match := IN_MIDDLE.fullmatch(path):
            names[path] = f"middle_block.{MIDDLE[match[1]]}.{inner_name(*match.groups())}"
        elif match := IN_BLOCK.fullmatch(path):
            way, block, kind, index, inner = match.groups()
            names[path] = f"{numbers[way, int(block), kind, int(index)]}.{inner_name(kind, inner)}"
    return names


def inner_name(kind: str, inner: str) -> str:
    """Return the original name of the layer `inner` of a part of this kind."""
    if kind.startswith("resnets"):
        return ORIGINAL_RESNET.get(inner, inner)
    return "op" if kind == "downsamplers" else inner


def block_numbers(paths: Iterable[str]) -> Mapping[tuple[str, int, str, int], str]:
    """Return the original name of each part (way, block, kind, index) of the down and up blocks."""
    parts = {
        (match[1], int(match[2]), match[3], int(match[4]))
        for match in map(IN_BLOCK.fullmatch, paths)
        if match is not None
    }
    numbers: dict[tuple[str, int, str, int], str] = {}
    for way, name, first in (("down", "input_blocks", 1), ("up", "output_blocks", 0)):
        count = first
        for _, block, _, index in sorted(part for part in parts if part[0] == way and part[2] == "resnets"):
            numbers[way, block, "resnets", index] = f"{name}.{count}.0"
            numbers[way, block, "attentions", index] = f"{name}.{count}.1"
            behind = 2 if (way, block, "attentions", index) in parts else 1
            numbers[way, block, "upsamplers", 0] = f"{name}.{count}.{behind}"
            count += 1
            if (way, block, "downsamplers", 0) in parts and (way, block, "resnets", index + 1) not in parts:
                numbers[way, block, "downsamplers", 0] = f"{name}.{count}.0"
                count += 1
    return numbers
