"""The checkpoints of `engine.py`: the demo, and random checkpoints from a tiny SD 1.x to full SDXL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import loading
import numpy as np
from legacy_flax import make_checkpoints

DEMO = Path(loading.DEMO)
SD_15 = loading.PARTS
TEXT = SD_15["text_encoder"]
XL_PARTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "text_encoder": TEXT,
    "text_encoder_2": (
        "CLIPTextModelWithProjection",
        "model",
        TEXT[2]
        | {
            "architectures": ["CLIPTextModelWithProjection"],
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "num_attention_heads": 20,
            "projection_dim": 1280,
            "hidden_act": "gelu",
        },
    ),
    "unet": (
        "UNet2DConditionModel",
        "diffusion_pytorch_model",
        {
            "_class_name": "UNet2DConditionModel",
            "sample_size": 128,
            "block_out_channels": [320, 640, 1280],
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
            "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
            "transformer_layers_per_block": [1, 2, 10],
            "attention_head_dim": [5, 10, 20],
            "cross_attention_dim": 2048,
            "use_linear_projection": True,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 256,
            "projection_class_embeddings_input_dim": 2816,
        },
    ),
    "vae": (*SD_15["vae"][:2], SD_15["vae"][2] | {"scaling_factor": 0.13025, "sample_size": 1024}),
}
XL_INDEX: dict[str, Any] = loading.INDEX | {
    "_class_name": "StableDiffusionXLPipeline",
    "tokenizer_2": ["transformers", "CLIPTokenizer"],
    "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
    "force_zeros_for_empty_prompt": True,
}
del XL_INDEX["safety_checker"], XL_INDEX["feature_extractor"]


def checkpoint(name: str, room: Path) -> Path:
    """Return the folder of the checkpoint of this name, written into `room` if missing."""
    folder = room / name
    if name == "demo":
        return DEMO
    if folder.exists():
        return folder
    if name == "sd15":
        loading.write_checkpoint(folder, "bfloat16")
    elif name == "sdxl":
        loading.write_checkpoint(folder, "bfloat16", parts=XL_PARTS, index=XL_INDEX)
    else:
        make_checkpoints(room, {name})
    return folder


def preview_decoder(room: Path) -> Path:
    """Return the folder of a decoder of previews of TAESD's size with random weights, written into `room`."""
    from sdjax_engine.weights.networks import Part, settle_config  # noqa: PLC0415
    from sdjax_engine.weights.tensors import reference_shape  # noqa: PLC0415

    folder, name = room / "taesd", "AutoencoderTiny"
    if not folder.exists():
        settled = settle_config(name, {}, origin=name)
        part = Part(model=name, config=settled, stored={}, origin=name)
        wanted = part.wanted
        shapes = {key: reference_shape(each.shape, each.leaf) for key, each in wanted.items()}
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"_class_name": name}))
        file = folder / "diffusion_pytorch_model.safetensors"
        loading.write_tensors(file, shapes, "float32", np.random.default_rng(0))
    return folder
