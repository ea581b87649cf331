"""Messages with recipes for the tests of the menu “Use this recipe”, and what its form holds."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import PIL.Image
from front_tools import refusal
from PIL.PngImagePlugin import PngInfo

from bot.sandbox.client import Member
from sdjax_engine.images import encode_png
from sdjax_engine.request import Request, Sampler

MENU = "Use this recipe"
NONE = (
    "This message does not say how a picture was painted: choose one with generation data in its text, or "
    "with an original picture or workflow file."
)
A1111 = (
    "a {red, blue} boat <lora:fog:1>\nNegative prompt: rain\n"
    "Steps: 33, Sampler: Euler a, CFG scale: 6.125, Seed: 77, Size: 128x128, Model: dreamshaper, Clip skip: 2"
)
GRAPH = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "demo.safetensors"}},
    "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a boat", "clip": ["1", 1]}},
    "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "rain", "clip": ["1", 1]}},
    "4": {"class_type": "EmptyLatentImage", "inputs": {"width": 128, "height": 128, "batch_size": 1}},
    "5": {
        "class_type": "KSampler",
        "inputs": {
            "seed": 77,
            "steps": 33,
            "cfg": 6.5,
            "sampler_name": "euler",
            "scheduler": "normal",
            "denoise": 1.0,
            "model": ["1", 0],
            "positive": ["2", 0],
            "negative": ["3", 0],
            "latent_image": ["4", 0],
        },
    },
    "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": ["1", 2]}},
    "7": {"class_type": "SaveImage", "inputs": {"images": ["6", 0]}},
}
OWN = Request(
    prompt="a boat",
    negative_prompt="rain",
    seed=77,
    num_inference_steps=33,
    guidance_scale=6.5,
    sampler=Sampler.EULER,
    width=128,
    height=128,
    model="demo",
)
SMALL = PIL.Image.new("RGB", (16, 16), "navy")


def png(**written: str) -> bytes:
    """A picture whose file has these texts."""
    file, info = io.BytesIO(), PngInfo()
    for name, text in written.items():
        info.add_text(name, text)
    SMALL.save(file, "PNG", pnginfo=info)
    return file.getvalue()


def with_exif(kind: str) -> bytes:
    """A picture with A1111's text as its UserComment."""
    file, exif = io.BytesIO(), PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9286] = b"UNICODE\0" + A1111.encode("utf-16-be")
    SMALL.save(file, kind, exif=exif)
    return file.getvalue()


FILES = {
    "a1111.png": png(parameters=A1111),
    "a1111.jpg": with_exif("JPEG"),
    "a1111.webp": with_exif("WEBP"),
    "comfyui.png": png(prompt=json.dumps(GRAPH)),
    "own.png": encode_png(np.zeros((128, 128, 3), np.uint8), OWN),
    "workflow.json": json.dumps(GRAPH).encode(),
    "parameters.txt": A1111.encode(),
}


def said(modal: dict[str, Any]) -> str:
    """The text of the form beside its inputs."""
    return "\n".join(part["content"] for part in modal["components"] if part["type"] == 10)


async def opened(member: Member, message: dict[str, Any]) -> dict[str, Any]:
    return await member.modal_of(await member.menu(message, MENU))


async def told(member: Member, message: dict[str, Any]) -> str:
    return await refusal(member, await member.menu(message, MENU))
