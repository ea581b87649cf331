"""Tools of the engine's tests: a small checkpoint and offer, valid requests, fingerprints."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.lane.runs import Occupant
from sdjax_engine.request import Image, Offer, Request, Sampler

# The fewest layers with which a network still uses its prompt, and pictures of twice the latents' size: the
# many programs of the engine's tests compile quickly. `tests/parity` has networks of every kind of block.
SMALLEST: dict[str, dict[str, Any]] = {
    "unet": {
        "block_out_channels": (32,),
        "down_block_types": ("CrossAttnDownBlock2D",),
        "mid_block_type": None,
        "up_block_types": ("UpBlock2D",),
    },
    "vae": {
        "block_out_channels": (8, 16),
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "mid_block_add_attention": False,
    },
    "text_encoder": {"num_hidden_layers": 1},
}

SUITED = tuple(sampler for sampler in Sampler if sampler is not Sampler.FLOW_EULER)
"""The samplers for a network that predicts noise, as that of the tiny checkpoint does."""

TINY = Offer(model="tiny", sizes=((16, 16),), num_inference_steps=4, guidance_scale=5.0, sampler=Sampler.DDIM)

PLAIN = Request(
    prompt="a red circle on a white background",
    seed=7,
    num_inference_steps=6,
    guidance_scale=5.0,
    sampler=Sampler.DDIM,
    height=16,
    width=16,
    model="tiny",
)

VARIED = (
    PLAIN,
    dataclasses.replace(PLAIN, seed=8, sampler=Sampler.EULER_ANCESTRAL, num_inference_steps=9),
    dataclasses.replace(PLAIN, seed=2**32 - 1, sampler=Sampler.PNDM, negative_prompt="a blue star"),
    dataclasses.replace(PLAIN, prompt="검은 원", sampler=Sampler.DPMPP_2M, guidance_scale=2.5),
    dataclasses.replace(PLAIN, sampler=Sampler.DPMPP_2M_KARRAS, num_inference_steps=1),
    dataclasses.replace(PLAIN, sampler=Sampler.EULER, guidance_scale=1.0),
    dataclasses.replace(PLAIN, sampler=Sampler.HEUN, guidance_interval=(0.2, 0.7)),
)


def like(request: Request = PLAIN, **changes: Any) -> Request:
    """`request` with some values changed."""
    return dataclasses.replace(request, **changes)


def file_of(pixels: npt.NDArray[Any]) -> bytes:
    """The file of a picture, or of a mask."""
    file = io.BytesIO()
    PIL.Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


ROWS, COLUMNS = np.mgrid[0:16, 0:16]
START = np.stack([ROWS * 16, COLUMNS * 16, (ROWS + COLUMNS) * 8], axis=-1)
MASK = np.where(COLUMNS < 8, 255, 0)  # the left half is repainted
FROM_PICTURE = like(init_image=file_of(START), strength=0.5)
PART = like(init_image=file_of(START), mask_image=file_of(MASK), strength=0.9, seed=9)


def tiny_config(checkpoint: Path, *, cache_dir: Path | None, **changes: Any) -> EngineConfig:
    """One tiny model, two seats on each of two devices, unless told otherwise."""
    values = {"cpu_devices": 2, "seats_per_device": 2, "cache_dir": cache_dir} | changes
    return EngineConfig(models=(ModelSpec(offer=TINY, source=str(checkpoint)),), **values)


def fingerprint(image: Image) -> str:
    """Equal for bit-equal pictures only."""
    return hashlib.sha256(image.pixels.tobytes()).hexdigest()


def with_own_seats(lane: DeviceLane) -> DeviceLane:
    """Return a lane with the same programs, whose seats are its own and need a `reset`."""
    other = copy.copy(lane)
    other._state, other._control, other._image = None, None, None
    other._occupants = defaultdict(Occupant)
    return other
