"""A small LoRA of the demo's UNet: whatever is painted looks like gold, or as made of neon lamps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from diffusers import StableDiffusionPipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from PIL import Image, ImageFilter

from sdjax_engine.demo.training.denoiser import Painter, Teacher
from sdjax_engine.demo.training.loop import Course, Workshop, taught

COURSE = Course(name="lora", part=0.04, pictures=16_000, batch=16, rate=1e-3, decay=0.99, weight_decay=0.0)
RANK = 4
PLAIN, DARK = 40, 80
"""How far from the ground's colour a thing begins; below which brightness it is dark."""
_STOPS = np.array([(38, 20, 4), (128, 74, 10), (214, 150, 30), (252, 214, 96), (255, 250, 220)], float)


def gold(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return pixels whose brightness chooses a shade of gold."""
    grey = np.asarray(Image.fromarray(pixels).convert("L"), float)
    places = np.linspace(0, 255, len(_STOPS))
    shaded = [np.interp(grey, places, channel) for channel in _STOPS.T]
    return np.stack(shaded, -1).astype(np.uint8)


def neon(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the outlines of things on a plain ground, in their colours on black; dark things are white."""
    ground = pixels[0, 0].astype(int)
    inside = Image.fromarray(np.abs(pixels - ground).max(-1) > PLAIN).convert("L")
    width = max(pixels.shape[0] // 24 * 2 + 1, 3)
    core = np.asarray(inside.filter(ImageFilter.MinFilter(width))) > 0
    lit = np.where(pixels.max(-1, keepdims=True) < DARK, 255, pixels)
    return np.where(((np.asarray(inside) > 0) & ~core)[..., None], lit, 0).astype(np.uint8)


def write_lora(
    painter: Painter, teacher: Teacher, workshop: Workshop, folder: Path, *, name: str = "gold"
) -> None:
    """Train the LoRA beside fixed networks, with pictures that `teacher` draws; write NAME.safetensors."""
    painter.requires_grad_(False)
    layers = ["to_q", "to_k", "to_v", "to_out.0", "conv1", "conv2"]
    painter.unet.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=layers))
    adapted = taught(painter, COURSE, workshop, make=teacher.make, loss=teacher.loss)
    StableDiffusionPipeline.save_lora_weights(
        folder,
        unet_lora_layers=get_peft_model_state_dict(adapted.unet),
        weight_name=f"{name}.safetensors",
        safe_serialization=True,
    )
