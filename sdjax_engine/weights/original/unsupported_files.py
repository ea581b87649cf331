"""The errors for files that are no checkpoint in the original layout, by the names of their tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.tensors import shorten

# Tensors that training and other programs add to the networks.
BESIDE = re.compile(
    r"model_ema\..*|(alphas_cumprod|sqrt_|log_one_minus_|posterior_|lvlb_weights|logvar|ddim_|sigmas)\w*|betas"
    r"|denoiser\..*|v_pred|ztsnr|global_step|scale_factor|embedding_manager\..*"
    r"|(cond_stage_model|conditioner\.embedders\.0)\.(logit_scale|text_projection)(\.weight)?"
)
AUTOENCODER = "an autoencoder"
STRANGERS = (
    (
        re.compile(r".*(lora_|\.lora\.|lora\.(up|down)|hada_|lokr_).*"),
        "a LoRA, not a checkpoint: name it as a LoRA",
    ),
    (re.compile(r"(control_model|input_hint_block|controlnet_cond_embedding)\..*"), "a ControlNet"),
    (re.compile(r"(model\.diffusion_model\.)?joint_blocks\..*"), "a Stable Diffusion 3"),
    (re.compile(r"(model\.diffusion_model\.)?double_blocks\..*"), "a Flux"),
    (re.compile(r"edm_[\w.]+"), "a checkpoint with the EDM schedule"),
    (re.compile(r"conditioner\.embedders\.0\.model\..*"), "the refiner of SDXL"),
    (re.compile(r"(emb_params|clip_[gl]|string_to_param.*)"), "a textual inversion"),
    (
        re.compile(r"(down_blocks|up_blocks|mid_block|conv_in|encoder|decoder|text_model)\..*"),
        "one network of a checkpoint, without the others: give the folder that it belongs to",
    ),
)


def name_stranger(file: Path, names: Iterable[str], *, missing: Sequence[str] = ()) -> UnreadableCheckpoint:
    """Return the error for a file that is no checkpoint; it names the file's content if that is known.

    Otherwise it names the `missing` networks.
    """
    if known := known_stranger(file, names):
        return known
    remedy = ""
    if tuple(missing) == (AUTOENCODER,):
        remedy = f": name one in the key vae of [[models]], or put {file.stem}.vae.safetensors beside it"
    return UnreadableCheckpoint(
        f"{file} is not a whole Stable Diffusion checkpoint in the original layout: it lacks "
        f"{' and '.join(missing)}{remedy}."
    )


def known_stranger(file: Path, names: Iterable[str]) -> UnreadableCheckpoint | None:
    """Return the error for a file with tensors of another known kind, or None."""
    every = list(names)
    for pattern, meaning in STRANGERS:
        if any(pattern.fullmatch(name) for name in every):
            return UnreadableCheckpoint(f"{file} is not supported: it is {meaning}.")
    return None


def check_nothing_else(file: Path, names: Iterable[str]) -> None:
    """Raise UnreadableCheckpoint for tensors of no network, except known additions."""
    others = sorted(name for name in names if not BESIDE.fullmatch(name))
    if others:
        raise known_stranger(file, others) or UnreadableCheckpoint(
            f"{file} holds {len(others)} tensors that belong to none of its networks: {shorten(others)}."
        )
