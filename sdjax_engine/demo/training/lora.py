"""A small LoRA of the demo's UNet: whatever is painted looks like gold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from diffusers import StableDiffusionPipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from PIL import Image

from sdjax_engine.demo.training.denoiser import Painter, Teacher
from sdjax_engine.demo.training.loop import Course, Workshop, taught

COURSE = Course(name="gold", part=0.04, pictures=16_000, batch=16, rate=1e-3, decay=0.99, weight_decay=0.0)
RANK = 4
FILE = "gold.safetensors"
_STOPS = np.array([(38, 20, 4), (128, 74, 10), (214, 150, 30), (252, 214, 96), (255, 250, 220)], float)


def gold(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return pixels whose brightness chooses a shade of gold."""
    grey = np.asarray(Image.fromarray(pixels).convert("L"), float)
    places = np.linspace(0, 255, len(_STOPS))
    shaded = [np.interp(grey, places, channel) for channel in _STOPS.T]
    return np.stack(shaded, -1).astype(np.uint8)


def write_lora(painter: Painter, teacher: Teacher, workshop: Workshop, folder: Path) -> None:
    """Train the LoRA beside fixed networks, with pictures that `teacher` draws in gold; write its file."""
    painter.requires_grad_(False)
    layers = ["to_q", "to_k", "to_v", "to_out.0", "conv1", "conv2"]
    painter.unet.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=layers))
    adapted = taught(painter, COURSE, workshop, make=teacher.make, loss=teacher.loss)
    StableDiffusionPipeline.save_lora_weights(
        folder,
        unet_lora_layers=get_peft_model_state_dict(adapted.unet),
        weight_name=FILE,
        safe_serialization=True,
    )
