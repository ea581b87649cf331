"""Checkpoints without weights for `compiled.py`: configurations, and the shapes of their parameters."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import loading
import numpy as np
import tokenizers as tokenizers_library
from compiled_targets import replicated
from engine_checkpoints import DEMO, XL_PARTS
from jax.sharding import Mesh
from tokenizers.models import BPE

from sdjax_engine.families import pipelines
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need, sizes_of
from sdjax_engine.memory.residency import Owner, Residency
from sdjax_engine.prompts.chat import ChatTokenizer
from sdjax_engine.prompts.unigram import UnigramTokenizer
from sdjax_engine.request import Int8
from sdjax_engine.weights.checkpoint import Checkpoint, Component, Contents, check_together
from sdjax_engine.weights.folder import read_folder
from sdjax_engine.weights.load import assemble
from sdjax_engine.weights.load import parts_of as planned_parts
from sdjax_engine.weights.networks import Part, ordered_by_output, settle_config

SD_21_UNET = {
    "attention_head_dim": [5, 10, 20, 20],
    "cross_attention_dim": 1024,
    "sample_size": 96,
    "use_linear_projection": True,
}
LCM_UNET = {"time_cond_proj_dim": 256}
SD_21_TEXT = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 23,
    "num_attention_heads": 16,
    "hidden_act": "gelu",
}
QWEN3_4B = {
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rope_theta": 1e6,
}
Z_IMAGE_VAE = {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 2,
    "latent_channels": 16,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "scaling_factor": 0.3611,
    "shift_factor": 0.1159,
}
Z_IMAGE = {
    "text_encoder": ("Qwen3Model", QWEN3_4B),
    "transformer": ("ZImageTransformer2DModel", {}),
    "vae": ("AutoencoderKL", Z_IMAGE_VAE),
}
KLEIN = {
    "num_layers": 5,
    "num_single_layers": 20,
    "num_attention_heads": 24,
    "joint_attention_dim": 7680,
    "guidance_embeds": False,
}
FLUX2_KLEIN = {
    "text_encoder": ("Qwen3States", QWEN3_4B),
    "transformer": ("Flux2Transformer2DModel", KLEIN),
    "vae": ("AutoencoderKLFlux2", {}),
}
CLIP_L = XL_PARTS["text_encoder"][2] | {
    "architectures": ["CLIPTextModelWithProjection"],
    "projection_dim": 768,
}
SD3_MEDIUM = {
    "num_layers": 24,
    "num_attention_heads": 24,
    "caption_projection_dim": 1536,
    "pos_embed_max_size": 384,
    "dual_attention_layers": list(range(13)),
    "qk_norm": "rms_norm",
}
T5_XXL = {
    "d_model": 4096,
    "d_ff": 10240,
    "num_heads": 64,
    "num_layers": 24,
    "feed_forward_proj": "gated-gelu",
}
SD_35 = {
    "text_encoder": ("CLIPTextModelWithProjection", CLIP_L),
    "text_encoder_2": ("CLIPTextModelWithProjection", XL_PARTS["text_encoder_2"][2]),
    "text_encoder_3": ("T5EncoderModel", T5_XXL),
    "transformer": ("SD3Transformer2DModel", SD3_MEDIUM),
    "vae": ("AutoencoderKL", Z_IMAGE_VAE | {"scaling_factor": 1.5305, "shift_factor": 0.0609}),
}
UNREAD = tokenizers_library.Tokenizer(BPE())
FLOW = {"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}


def parts_of(name: str) -> tuple[dict[str, tuple[str, dict[str, Any]]], str]:
    """Return class and configuration of each network of a known checkpoint, and the pipeline's class."""
    sd_15 = {part: (model, config) for part, (model, _, config) in loading.PARTS.items()}
    match name:
        case "sd15":
            return sd_15, "StableDiffusionPipeline"
        case "lcm":
            model, config = sd_15["unet"]
            return sd_15 | {"unet": (model, config | LCM_UNET)}, "LatentConsistencyModelPipeline"
        case "sd21" | "turbo":
            changed = {"unet": SD_21_UNET, "text_encoder": SD_21_TEXT}
            merged = {
                part: (model, config | changed.get(part, {})) for part, (model, config) in sd_15.items()
            }
            return merged, "StableDiffusionPipeline"
        case "sdxl" | "sdxl-turbo":
            return {part: (model, config) for part, (model, _, config) in XL_PARTS.items()}, (
                "StableDiffusionXLPipeline"
            )
        case "z-image":
            return Z_IMAGE, "ZImagePipeline"
        case "flux2-klein":
            return FLUX2_KLEIN, "Flux2KleinPipeline"
        case "sd35-medium":
            return SD_35, "StableDiffusion3Pipeline"
    raise SystemExit(
        f"There is no checkpoint {name!r}: a folder, demo, sd15, lcm, sd21, turbo, sdxl, sdxl-turbo, "
        "z-image, flux2-klein, sd35-medium."
    )


def contents_of(name: str) -> Contents:
    """Return the contents of a known checkpoint, or of the folder of this name."""
    if name == "demo" or Path(name).is_dir():
        return read_folder(DEMO if name == "demo" else Path(name), variant=None, safety_checker=False)
    like = read_folder(DEMO, variant=None, safety_checker=False)
    parts, pipeline = parts_of(name)
    settled = {
        part: Part(model=model, config=settle_config(model, config, origin=part), stored={}, origin=part)
        for part, (model, config) in parts.items()
    }
    clips = sum(model.startswith("CLIP") for model, _ in parts.values())
    tokenizers: tuple[Any, ...] = like.tokenizers * clips
    if name == "sd35-medium":
        tokenizers = (*tokenizers, UnigramTokenizer(size=1, end_id=0, pad_id=0, pieces=UNREAD))
        like = replace(like, scheduler_config=FLOW)
    if name in {"z-image", "flux2-klein"}:
        tokenizers = (ChatTokenizer(size=1, pad_id=0, bpe=UNREAD),)
        like = replace(like, scheduler_config=FLOW, index={"is_distilled": True})
    contents = replace(
        like,
        origin=name,
        family=pipelines()[pipeline],
        pipeline=pipeline,
        components=settled,
        tokenizers=tokenizers,
    )
    check_together(contents)
    return contents


def int8_of(name: str) -> tuple[str, tuple[Int8, ...]]:
    """Return a checkpoint's name without `+int8` or `+PART`, and the parts whose weights are INT8."""
    known, _, part = name.partition("+")
    return known, tuple(Int8) if part == "int8" else (Int8(part),) if part else ()


def described_checkpoint(name: str, mesh: Mesh, *, dtype: str) -> Checkpoint:
    """Return a checkpoint whose parameters are shapes on every device of the mesh; see `int8_of`."""
    known, int8 = int8_of(name)
    contents, sharding = contents_of(known), replicated(mesh)
    by_output = devices.reads_kernels_by_output(mesh)

    def laid(shape: tuple[int, ...]) -> tuple[int, ...]:
        return ordered_by_output(np.broadcast_to(0, shape)).shape if by_output else shape

    def described(planned: Part) -> Component:
        shapes = {
            key: jax.ShapeDtypeStruct(laid(shape), of_it, sharding=sharding)
            for key, (shape, of_it) in planned.forms.items()
        }
        ordered: Any = dict(sorted(shapes.items()))
        as_planned = {key: shape for key, (shape, _) in planned.forms.items()}
        return Component(
            parameters=ordered,
            shapes=as_planned,
            blueprint=planned.blueprint,
            in_float32=planned.in_float32,
            config=planned.config,
            dtype=planned.dtype,
        )

    planned = planned_parts(contents, dtype, int8)
    components = {name: described(each) for name, each in planned.items()}
    return assemble(name, contents, components)


def bytes_of(tree: Any) -> int:
    """Return the bytes of all arrays or shapes of a tree."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


class DescribedResidency(Residency):
    """Takes shapes for parameters, and has room for everything.

    `held` are the claims, `parameters` the bytes of the models, `at_once` those that a program needs.
    """

    def __init__(self) -> None:
        self.held: dict[Hashable, Need] = {}
        self.parameters = self.at_once = 0
        self.owner = Owner()

    def adopt(
        self, name: str, arrays: Mapping[str, Any], *, together: Any = (), arrival: Hashable = None
    ) -> Any:
        """Return the shapes as a model's parameters."""
        del arrival
        size, at_once = sizes_of({group: bytes_of(each) for group, each in arrays.items()}, together)
        self.parameters += size
        self.at_once = max(self.at_once, at_once)
        return SimpleNamespace(name=name, shapes=arrays, size=size, at_once=at_once)

    def claim(self, owner: Hashable, need: Need, *, optional: bool = False) -> bool:
        """Note a claim."""
        del optional
        self.held[owner] = need
        return True
