"""Tiny checkpoints for the tests: a whole diffusers folder, random but seeded, written by the reference.

    make_tiny_checkpoint(folder)  # an SD 1.x in miniature: 64×64 pictures from 8×8 latents
    make_tiny_checkpoint(folder, unet={"use_linear_projection": True}, tokenizer={"form": "old"})
    make_tiny_checkpoint(folder, **FAMILIES["SDXL"])

Every keyword but `pipeline` and `seed` overrides configuration values of one component: `unet`, `vae`,
`text_encoder`, `text_encoder_2` (SDXL only), `scheduler` (`_class_name` chooses the class), `safety_checker`
(there is none unless it is named; `threshold` sets all of its thresholds), or the form of the `tokenizer`
files (`"old"` for vocab.json and merges.txt, `"new"` for tokenizer.json).
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import AutoencoderKL, AutoencoderTiny, ControlNetModel, UNet2DConditionModel
from diffusers.models.embeddings import ImageProjection, IPAdapterPlusImageProjection
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
from safetensors.torch import save_file
from transformers import (
    CLIPConfig,
    CLIPImageProcessor,
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

Overrides = Mapping[str, Any]

COMPONENTS = ("unet", "vae", "text_encoder", "text_encoder_2", "scheduler", "tokenizer", "safety_checker")
WORDS = (
    *("a", "an", "on", "of", "the", "red", "green", "blue", "black", "white", "small", "large"),
    *("circle", "square", "star", "heart", "left", "right", "above", "below"),
)
START, END = "<|startoftext|>", "<|endoftext|>"


def make_tiny_checkpoint(
    folder: Path, *, pipeline: str = "StableDiffusionPipeline", seed: int = 0, **overrides: Overrides
) -> Path:
    """Write the checkpoint into `folder` and return it; the same arguments give the same bytes.

    Raises TypeError for an unknown component, and whatever the reference raises for wrong values.
    """
    values = {name: dict(overrides.get(name, {})) for name in COMPONENTS}
    if unknown := overrides.keys() - values.keys():
        raise TypeError(f"there is no component called {', '.join(unknown)}: choose from {COMPONENTS}")
    tokenizer = build_tokenizer()
    unet = (UNET_XL if "XL" in pipeline else UNET) | values["unet"]
    text_config = CLIPTextConfig(**text_encoder_config(tokenizer) | values["text_encoder"])
    if "XL" in pipeline:
        others = build_second_encoder(values["text_encoder_2"], seed=seed)
    else:
        others = build_safety_checker(overrides.get("safety_checker"), seed=seed)
    getattr(diffusers, pipeline)(
        vae=randomise(AutoencoderKL(**VAE | values["vae"]), seed=seed + 1),
        text_encoder=randomise(CLIPTextModel(text_config), seed=seed + 2),
        tokenizer=tokenizer,
        unet=randomise(UNet2DConditionModel(**unet), seed=seed + 3),
        scheduler=build_scheduler(values["scheduler"]),
        **others,
    ).save_pretrained(folder)
    if values["tokenizer"].get("form", "new") == "old":
        use_old_tokenizer_files(folder / "tokenizer")
    return folder


def make_tiny_controlnet(
    folder: Path, *, unet: Overrides, seed: int = 0, kind: str = "ControlNetModel", **overrides: Any
) -> Path:
    """Write a ControlNet for the tiny checkpoint with this `unet`, and return `folder`.

    `kind` is the reference's class; a union has six types. Its pictures have twice the size of the latents,
    as in the engine's tests. Every weight is random: those of the reference add nothing.
    """
    half = {key: value for key, value in (UNET | dict(unet)).items() if key in CONTROLNET_KEYS}
    if kind == "ControlNetModel":
        half["mid_block_type"] = half.get("mid_block_type") or "UNetMidBlock2D"  # it always has one
    else:
        half.pop("mid_block_type", None)
        width = half["block_out_channels"][0]
        half |= {"num_trans_channel": width, "num_trans_head": 4, "num_proj_channel": width}
    values = half | {"in_channels": 4, "conditioning_embedding_out_channels": (8, 12)} | overrides
    randomise(getattr(diffusers, kind)(**values), seed=seed).save_pretrained(folder)
    return folder


def make_tiny_image_prompt(folder: Path, *, unet: Overrides, plus: bool = False, seed: int = 0) -> Path:
    """Write an IP-Adapter for the `unet` and its image encoder into `folder`, and return the adapter's file.

    The names are those of the published files, and the cross-attentions are in the reference's order.
    """
    theirs = UNet2DConditionModel(**unet)
    width = unet["cross_attention_dim"]
    encoder = CLIPVisionModelWithProjection(CLIPVisionConfig(**IMAGE_ENCODER))
    randomise(encoder, seed=seed + 1).save_pretrained(folder / "image_encoder")
    if plus:
        resampler = IPAdapterPlusImageProjection(
            embed_dims=32, output_dims=width, hidden_dims=24, heads=2, num_queries=5
        )
        tensors = published_resampler(randomise(resampler, seed=seed + 2))
    else:
        projection = ImageProjection(image_embed_dim=20, cross_attention_dim=width, num_image_text_embeds=4)
        found = randomise(projection, seed=seed + 2).state_dict()
        tensors = {name.replace("image_embeds", "proj"): each for name, each in found.items()}
    tensors = {f"image_proj.{name}": each for name, each in tensors.items()}
    random = torch.Generator().manual_seed(seed + 3)
    places = [name.removesuffix(".processor") for name in theirs.attn_processors if ".attn2." in name]
    for number, place in enumerate(places):
        rows = theirs.get_submodule(place).to_k.out_features
        for leaf in ("to_k_ip", "to_v_ip"):
            values = torch.randn(rows, width, generator=random) / width**0.5
            tensors[f"ip_adapter.{2 * number + 1}.{leaf}.weight"] = values
    file = folder / "ip-adapter.safetensors"
    save_file({name: each.detach().contiguous() for name, each in tensors.items()}, file)
    return file


def published_resampler(resampler: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of a Plus by the names of the published files, which have keys and values in one."""
    found = resampler.state_dict()
    for name in [name for name in found if "to_k." in name]:
        found[name.replace("to_k", "to_kv")] = torch.cat(
            [found.pop(name), found.pop(name.replace("to_k", "to_v"))]
        )
    names = {
        ".ln0.": ".0.norm1.",
        ".ln1.": ".0.norm2.",
        ".attn.to_out.0.": ".0.to_out.",
        ".attn.": ".0.",
        ".ff.0.": ".1.0.",
        ".ff.1.net.0.proj.": ".1.1.",
        ".ff.1.net.2.": ".1.3.",
    }
    for ours, theirs in names.items():
        found = {name.replace(ours, theirs): each for name, each in found.items()}
    return found


def make_tiny_decoder(folder: Path, *, seed: int = 0, **overrides: Any) -> Path:
    """Write a tiny autoencoder for previews, with the encoder that is not used, and return `folder`.

    Without overrides it suits the engine's tests: latents of four channels, pictures of twice the size.
    """
    values = {"decoder_block_out_channels": (8, 8), "num_decoder_blocks": (1, 1)} | overrides
    autoencoder = AutoencoderTiny(encoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1), **values)
    randomise(autoencoder, seed=seed).save_pretrained(folder)
    return folder


def make_tiny_classifier(folder: Path, *, seed: int = 0, **overrides: Any) -> Path:
    """Write a ViT image classifier of three labels and its processor, and return `folder`."""
    values = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "image_size": 32,
        "patch_size": 8,
        "id2label": {0: "drawing", 1: "bare", 2: "gore"},
    } | overrides
    randomise(ViTForImageClassification(ViTConfig(**values)), seed=seed).save_pretrained(folder)
    side = values["image_size"]
    ViTImageProcessorPil(size={"height": side, "width": side}).save_pretrained(folder)
    return folder


IMAGE_ENCODER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 7,
    "hidden_act": "gelu",
    "projection_dim": 20,
}
CONTROLNET_KEYS = inspect.signature(ControlNetModel.__init__).parameters.keys()
UNET: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (32, 64),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "attention_head_dim": 4,
    "cross_attention_dim": 32,
}
UNET_XL: dict[str, Any] = UNET | {
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "attention_head_dim": (2, 4),
    "transformer_layers_per_block": (1, 2),
    "use_linear_projection": True,
    "cross_attention_dim": 32 + 48,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 40 + 6 * 8,
}
VAE: dict[str, Any] = {
    "sample_size": 64,
    "block_out_channels": (8, 16, 16, 16),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "latent_channels": 4,
}
SCHEDULER: dict[str, Any] = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "steps_offset": 1,
}


SD_2: dict[str, Any] = {
    "unet": {"use_linear_projection": True, "attention_head_dim": (2, 4), "upcast_attention": True},
    "text_encoder": {"hidden_act": "gelu", "num_hidden_layers": 3, "num_attention_heads": 2},
}
FAMILIES: dict[str, dict[str, Any]] = {
    "SD 1": {},
    "SD 1 inpainting": {"pipeline": "StableDiffusionInpaintPipeline", "unet": {"in_channels": 9}},
    "SD 2": SD_2
    | {
        "scheduler": {
            "_class_name": "DDIMScheduler",
            "prediction_type": "v_prediction",
            "clip_sample": False,
            "set_alpha_to_one": False,
        }
    },
    "SD Turbo": SD_2
    | {"scheduler": {"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "trailing"}},
    "LCM": {
        "pipeline": "LatentConsistencyModelPipeline",
        "unet": {"time_cond_proj_dim": 24},
        "scheduler": {"_class_name": "LCMScheduler"},
    },
    "SDXL": {
        "pipeline": "StableDiffusionXLPipeline",
        "scheduler": {"_class_name": "EulerDiscreteScheduler"},
    },
    "SDXL inpainting": {
        "pipeline": "StableDiffusionXLInpaintPipeline",
        "unet": {"in_channels": 9},
        "scheduler": {"_class_name": "EulerDiscreteScheduler"},
    },
}


def text_encoder_config(tokenizer: CLIPTokenizer) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "projection_dim": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 77,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def build_second_encoder(overrides: Overrides, *, seed: int) -> dict[str, Any]:
    """SDXL's second text encoder and its tokenizer, which pads with exclamation marks."""
    tokenizer = build_tokenizer(pad_token="!")
    config = text_encoder_config(tokenizer) | {
        "hidden_size": 48,
        "projection_dim": 40,
        "hidden_act": "gelu",
        "num_hidden_layers": 3,
    }
    encoder = CLIPTextModelWithProjection(CLIPTextConfig(**config | dict(overrides)))
    return {"text_encoder_2": randomise(encoder, seed=seed + 4), "tokenizer_2": tokenizer}


def build_safety_checker(overrides: Overrides | None, *, seed: int) -> dict[str, Any]:
    """The safety checker and its picture processor; both None without overrides."""
    if overrides is None:
        return {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    values = dict(overrides)
    threshold = values.pop("threshold", None)
    checker = randomise(
        StableDiffusionSafetyChecker(CLIPConfig(vision_config=VISION | values, projection_dim=16)),
        seed=seed + 5,
    )
    for thresholds in (checker.concept_embeds_weights, checker.special_care_embeds_weights):
        thresholds.data = thresholds - 1.0 if threshold is None else torch.full_like(thresholds, threshold)
    return {"safety_checker": checker, "feature_extractor": CLIPImageProcessor()}


VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 224,
    "patch_size": 32,
}


def build_scheduler(overrides: Overrides) -> Any:
    """Return the scheduler that the overrides' `_class_name` names; without one PNDM, as in SD 1.x."""
    values = SCHEDULER | dict(overrides)
    name = values.pop("_class_name", "PNDMScheduler")
    if name == "PNDMScheduler":
        values = {"skip_prk_steps": True, "set_alpha_to_one": False} | values
    return getattr(diffusers, name)(**values)


def randomise(model: torch.nn.Module, *, seed: int) -> Any:
    """Fill every parameter from `seed` and return the model.

    With scales of one and biases of zero a forgotten or swapped norm would go unnoticed.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith(("embedding.weight", "embed_tokens.weight", "pad_token")):
                parameter.copy_(noise)
            elif parameter.ndim > 1:
                parameter.copy_(noise * parameter[0].numel() ** -0.5)
            elif name.endswith(".bias"):
                parameter.copy_(0.1 * noise)
            else:
                parameter.copy_(1.0 + 0.2 * noise)
    return model.eval()


def build_tokenizer(**special: str) -> CLIPTokenizer:
    """A byte-level BPE of CLIP's kind that knows a few words whole and every other text by its bytes."""
    vocabulary, merges = vocabulary_and_merges()
    return CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77, **special)


def vocabulary_and_merges() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return token → id in CLIP's order (bytes, bytes that end a word, merges, start, end) and the merges."""
    merges: dict[tuple[str, str], None] = {}
    for word in WORDS:
        symbols = [*word[:-1], word[-1] + "</w>"]
        so_far = symbols[0]
        for symbol in symbols[1:]:
            merges[so_far, symbol] = None
            so_far += symbol
    letters = byte_letters()
    tokens = [
        *letters,
        *(letter + "</w>" for letter in letters),
        *("".join(pair) for pair in merges),
        START,
        END,
    ]
    return {token: index for index, token in enumerate(tokens)}, list(merges)


def byte_letters() -> list[str]:
    """The 256 visible letters that stand for bytes in a byte-level BPE, in CLIP's order."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    return [chr(byte) for byte in visible] + [chr(256 + index) for index in range(256 - len(visible))]


def use_old_tokenizer_files(folder: Path) -> None:
    """Replace tokenizer.json by the vocab.json + merges.txt that folders from before transformers 5 hold."""
    vocabulary, merges = vocabulary_and_merges()
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def configure(path: str, **values: Any) -> Callable[[Path], object]:
    """Return a change of a checkpoint: its file `path` of settings gets these values."""

    def change(folder: Path) -> None:
        file = folder / path
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change
