"""The reference's classes of networks that there are here, and how the files of each are read.

A class is a line in `KINDS`; its network has the class's name, in the module that the line names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sdjax_engine.models.config import (
    current_qwen3_name,
    settle_autoencoder_tiny_config,
    settle_image_encoder_config,
    settle_projected_text_config,
    settle_qwen3_config,
    settle_qwen3_states_config,
    settle_safety_checker_config,
    settle_text_config,
    settle_vae_config,
    settle_vit_config,
    settle_z_image_config,
)
from sdjax_engine.models.controlnet_config import settle_controlnet_config, settle_controlnet_union_config
from sdjax_engine.models.flux2_config import settle_flux2_config, settle_flux2_vae_config
from sdjax_engine.models.image_prompt_config import settle_projection_config, settle_resampler_config
from sdjax_engine.models.sd3_config import settle_sd3_config, settle_t5_config
from sdjax_engine.models.unet_config import settle_unet_config

Config = Mapping[str, Any]
QWEN3_MAPS = re.compile(r"layers\.\d+\.(self_attn\.[qkvo]|mlp\.(gate|up|down))_proj\.weight")
Z_IMAGE_MAPS = re.compile(
    r"(layers|(noise|context)_refiner)\.\d+\.(attention\.to_(q|k|v|out\.0)|feed_forward\.w[123])\.weight"
)
FLUX2_MAPS = re.compile(
    r"(single_)?transformer_blocks\.\d+\."
    r"(attn\.(to_(q|k|v|out|out\.0|add_out|qkv_mlp_proj)|add_[qkv]_proj)|ff(_context)?\.linear_(in|out))\.weight"
)
SD3_MAPS = re.compile(
    r"transformer_blocks\.\d+\."
    r"(attn2?\.to_(q|k|v|out\.0)|attn\.(add_[qkv]_proj|to_add_out)|ff(_context)?\.net\.(0\.proj|2))\.weight"
)
T5_MAPS = re.compile(
    r"encoder\.block\.\d+\.layer\.\d\.(SelfAttention\.[qkvo]|DenseReluDense\.w(i_[01]|o))\.weight"
)
OLD_VAE_ATTENTION = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
OLD_VAE_NAME = re.compile(r"(\.attentions\.\d+)\.(query|key|value|proj_attn)\.")


def as_it_is(name: str, config: Config) -> str:
    """Return the name, whatever the configuration."""
    del config
    return name


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One class of networks: its `module`, and how its config.json is read.

    `today` returns the present name of a tensor in the files of a network with a configuration, None for
    tensors that are not used; `saved` the name under which the reference saves a tensor. `int8` matches the
    names of the weights that can be INT8: attention and perceptrons of all blocks; None where none can.
    """

    module: str
    settle: Callable[[Config], dict[str, Any]]
    today: Callable[[str, Config], str | None] = as_it_is
    saved: Callable[[str], str] = str
    int8: re.Pattern[str] | None = None


def without(prefix: str) -> Callable[[str, Config], str | None]:
    """Return a renaming that leaves out the tensors whose names have this prefix."""
    return lambda name, _config: None if name.startswith(prefix) else name


def of_projected_text(name: str, config: Config) -> str:
    """Return the name with the prefix that some files leave out."""
    del config
    return name if name.startswith(("text_model.", "text_projection.")) else f"text_model.{name}"


def of_autoencoder(name: str, config: Config) -> str:
    """Return the name of an autoencoder's tensor, whose attention had other names in older files."""
    del config
    return OLD_VAE_NAME.sub(lambda match: f"{match[1]}.{OLD_VAE_ATTENTION[match[2]]}.", name)


KINDS: Mapping[str, Kind] = {
    "CLIPTextModel": Kind(
        module="clip",
        settle=settle_text_config,
        today=lambda name, _config: name.removeprefix("text_model."),
        saved=lambda name: f"text_model.{name}",
    ),
    "CLIPTextModelWithProjection": Kind(
        module="clip", settle=settle_projected_text_config, today=of_projected_text
    ),
    "UNet2DConditionModel": Kind(module="unet", settle=settle_unet_config),
    "AutoencoderKL": Kind(module="autoencoders", settle=settle_vae_config, today=of_autoencoder),
    "AutoencoderTiny": Kind(
        module="autoencoders", settle=settle_autoencoder_tiny_config, today=without("encoder.")
    ),
    "StableDiffusionSafetyChecker": Kind(
        module="clip",
        settle=settle_safety_checker_config,
        today=lambda name, _config: name.replace("vision_model.vision_model.", "vision_model.", 1),
        saved=lambda name: name.replace("vision_model.", "vision_model.vision_model.", 1),
    ),
    "ViTForImageClassification": Kind(module="vit", settle=settle_vit_config, today=without("vit.pooler.")),
    "Qwen3Model": Kind(module="qwen3", settle=settle_qwen3_config, today=current_qwen3_name, int8=QWEN3_MAPS),
    "Qwen3States": Kind(
        module="qwen3", settle=settle_qwen3_states_config, today=current_qwen3_name, int8=QWEN3_MAPS
    ),
    "ZImageTransformer2DModel": Kind(module="z_image", settle=settle_z_image_config, int8=Z_IMAGE_MAPS),
    "Flux2Transformer2DModel": Kind(module="flux2", settle=settle_flux2_config, int8=FLUX2_MAPS),
    "AutoencoderKLFlux2": Kind(
        module="autoencoder_kl_flux2",
        settle=settle_flux2_vae_config,
        today=without("bn.num_batches_tracked"),
    ),
    "SD3Transformer2DModel": Kind(module="sd3", settle=settle_sd3_config, int8=SD3_MAPS),
    "T5EncoderModel": Kind(
        module="t5",
        settle=settle_t5_config,
        # Files have the words' vectors under one of these names, or under both.
        today=lambda name, _config: name.replace("encoder.embed_tokens.", "shared.", 1),
        int8=T5_MAPS,
    ),
    "ControlNetModel": Kind(module="controlnet", settle=settle_controlnet_config),
    "ControlNetUnionModel": Kind(module="controlnet", settle=settle_controlnet_union_config),
    "CLIPVisionModelWithProjection": Kind(module="clip", settle=settle_image_encoder_config),
    "ImageProjection": Kind(module="image_prompt", settle=settle_projection_config),
    "IPAdapterPlusImageProjection": Kind(module="image_prompt", settle=settle_resampler_config),
    "ImagePromptAttentions": Kind(module="image_prompt", settle=dict),
    "TrustMarkEncoder": Kind(module="trustmark", settle=dict),
    "TrustMarkDecoder": Kind(module="trustmark", settle=dict),
}
