"""The family of checkpoints that a LoRA was made for, for the error where it is another than the model's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sdjax_engine.models.lora_bank import LayerShape
from sdjax_engine.weights.lora_names import LayerPath, Role, split_key

OF_WIDTH = {
    768: "SD 1",
    1024: "SD 2",
    2048: "SDXL",
}  # of the encoded prompt, which keys and values are made of
OF_PROMPT = re.compile(r".*attn2[._](processor\.)?to_(k|v)")
BY_NAMES = (
    (re.compile(r"(lora_unet_|transformer\.|lora_transformer_).*(double_blocks|single_).*"), "Flux"),
    (re.compile(r"(lora_unet_|diffusion_model\.).*joint_blocks.*"), "Stable Diffusion 3"),
    (re.compile(r"(transformer\.|lora_transformer_).*"), "a transformer, such as Stable Diffusion 3 or Flux"),
    (re.compile(r"(lora_te2_|text_encoder_2\.|lora_unet_(input|output|middle)_block).*"), "SDXL"),
)


def other_family(tensors: Mapping[str, tuple[int, ...]], shapes: Mapping[LayerPath, LayerShape]) -> list[str]:
    """Return a clause with the family of a LoRA's tensors if the model is of another, else nothing."""
    of_model = OF_WIDTH.get(
        next((each.width_in for place, each in shapes.items() if OF_PROMPT.fullmatch(place.path)), 0)
    )
    of_lora = family_of(tensors)
    if of_lora is None or of_lora == of_model:
        return []
    return [f"it was made for {of_lora}" + (f", and the model is {of_model}" if of_model else "")]


def family_of(tensors: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return the family by the width of prompts or by the names of layers, or None if nothing shows it."""
    for key, shape in tensors.items():
        part = split_key(key)
        if part and part[1] is Role.DOWN and len(shape) > 1 and OF_PROMPT.fullmatch(part[0]):
            return OF_WIDTH.get(shape[1])
    every = list(tensors)
    return next((name for pattern, name in BY_NAMES if any(map(pattern.fullmatch, every))), None)
