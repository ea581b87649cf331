"""A single safetensors file in the original layout, the form of most community checkpoints.

The tensors show the text encoders and the UNet's input channels. The family gives the numbers of heads, the
autoencoder's scaling and the schedule. A few checkpoints, such as SD-Turbo and SDXL-Turbo, have another
schedule than their family: a file `NAME.scheduler_config.json` beside `NAME.safetensors` sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.contents import TEXT_ENCODERS, Contents
from sdjax_engine.weights.file_names import PICKLES, Report
from sdjax_engine.weights.headers import WHY_NO_PICKLES, read_header
from sdjax_engine.weights.networks import Part, settle_config
from sdjax_engine.weights.original.autoencoder import level_count, vae_config, vae_names
from sdjax_engine.weights.original.families import (
    CLIP,
    FAMILIES,
    OPEN_CLIP,
    SD_XL,
    Encoder,
    Family,
    latent_size,
    scheduler_config_of,
)
from sdjax_engine.weights.original.text_encoders import clip_names, open_clip_names, text_config
from sdjax_engine.weights.original.unet import unet_config, unet_names
from sdjax_engine.weights.original.unsupported_files import check_nothing_else, name_stranger
from sdjax_engine.weights.tensors import Stored, tensors_in
from sdjax_engine.weights.vocabulary import find_tokenizer
from sdjax_engine.wording import first_line

Tensors = dict[str, Stored]
UNET = "model.diffusion_model."
VAES = ("first_stage_model.", "vae.")
MASK = 1  # input channel of an inpainting UNet, beside two latents


@dataclass(frozen=True, kw_only=True)
class Original:
    """A recognised file: its family, and the networks' tensors by their names in the file."""

    file: Path
    family: Family
    unet: Tensors
    vae: Tensors
    encoders: Mapping[str, Tensors]
    scheduler_config: dict[str, Any]
    sample_size: Any
    inpaints: bool

    @property
    def pipeline(self) -> str:
        """The reference's class for such a file."""
        return f"{self.family.pipeline}{'Inpaint' if self.inpaints else ''}Pipeline"


def read_single_file(file: Path, *, report: Report | None) -> Contents:
    """Return the contents of the checkpoint `file`; raises UnreadableCheckpoint."""
    original = recognise(file)
    texts = {each.name: text_part(original, each) for each in original.family.encoders}
    pooled = texts["text_encoder_2"].config["projection_dim"] if original.family is SD_XL else None
    return Contents(
        origin=str(file),
        pipeline=original.pipeline,
        parts={**texts, "unet": unet_part(original, pooled_width=pooled), "vae": vae_part(original)},
        tokenizers=tuple(
            find_tokenizer(
                file,
                name=each.name.replace("text_encoder", "tokenizer"),
                is_open_clip=each.is_open_clip,
                report=report,
            )
            for each in original.family.encoders
        ),
        scheduler_config=original.scheduler_config,
        force_zeros_for_empty_prompt=original.family is SD_XL,
    )


def recognise(file: Path) -> Original:
    """Return what a file's header tells of its family and networks; raises UnreadableCheckpoint."""
    if any(file.match(pattern) for pattern in PICKLES):
        raise UnreadableCheckpoint(f"{file} holds pickled weights, and {WHY_NO_PICKLES}.")
    header = read_header(file)
    tensors = tensors_in(file, header)
    family = next((each for each in FAMILIES if each.matches(frozenset(tensors))), None)
    unet, vae = inside(tensors, UNET), inside(tensors, *VAES)
    if family is None or "input_blocks.0.0.weight" not in unet or "decoder.conv_in.weight" not in vae:
        raise name_stranger(file, tensors)
    prefixes = (UNET, *VAES, *(each.prefix for each in family.encoders))
    check_nothing_else(file, [name for name in tensors if not name.startswith(prefixes)])
    latent = channels_into(vae["decoder.conv_in.weight"])
    inpaints = channels_into(unet["input_blocks.0.0.weight"]) == 2 * latent + MASK
    scheduler = own_scheduler(file) or scheduler_config_of(family, tensors, header.notes, inpaints=inpaints)
    return Original(
        file=file,
        family=family,
        unet=unet,
        vae=vae,
        encoders={each.name: inside(tensors, each.prefix) for each in family.encoders},
        scheduler_config=scheduler,
        sample_size=latent_size(family, scheduler, header.notes, scale=2 ** (level_count(vae) - 1)),
        inpaints=inpaints,
    )


def channels_into(convolution: Stored) -> int:
    """Return the input channels of a convolution's weight; 0 for another tensor."""
    return convolution.shape[1] if len(convolution.shape) == 4 else 0


def own_scheduler(file: Path) -> dict[str, Any] | None:
    """Return the schedule in the file beside the checkpoint, or None."""
    beside = file.with_name(f"{file.stem}.scheduler_config.json")
    return read_json(beside) if beside.is_file() else None


def inside(tensors: Tensors, *prefixes: str) -> Tensors:
    """Return the tensors whose names start with one of `prefixes`; the prefix is removed."""
    found = {}
    for name, stored in tensors.items():
        for prefix in prefixes:
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = stored
    return found


def text_part(original: Original, encoder: Encoder) -> Part:
    """Return a text encoder; the second of two has a projection."""
    projected = encoder.name == TEXT_ENCODERS[1]
    tensors = original.encoders[encoder.name]

    def named() -> Tensors:
        if encoder.is_open_clip:
            return open_clip_names(tensors, projected=projected)
        return clip_names(tensors)

    def config(renamed: Tensors) -> dict[str, Any]:
        return text_config(renamed, hidden_act=OPEN_CLIP if encoder.is_open_clip else CLIP)

    model = "CLIPTextModelWithProjection" if projected else "CLIPTextModel"
    return part(original, model, encoder.name, named, config)


def unet_part(original: Original, *, pooled_width: int | None) -> Part:
    """Return the UNet."""

    def config(_: Tensors) -> dict[str, Any]:
        inferred = unet_config(original.unet, heads=original.family.heads_of, pooled_width=pooled_width)
        return inferred | {"sample_size": original.sample_size}

    return part(original, "UNet2DConditionModel", "unet", lambda: unet_names(original.unet), config)


def vae_part(original: Original) -> Part:
    """Return the autoencoder."""
    family = original.family

    def config(_: Tensors) -> dict[str, Any]:
        return vae_config(original.vae, scaling_factor=family.scaling_factor, sample_size=family.side)

    return part(original, "AutoencoderKL", "vae", lambda: vae_names(original.vae), config)


def part(
    original: Original,
    model: str,
    name: str,
    named: Callable[[], Tensors],
    config: Callable[[Tensors], dict[str, Any]],
) -> Part:
    """Return a network whose configuration is inferred; raises UnreadableCheckpoint where there is none."""
    origin = f"the {name} in {original.file}"
    try:
        stored = named()
        inferred = config(stored)
    except (KeyError, IndexError, ValueError) as error:
        raise UnreadableCheckpoint(
            f"{original.file} lacks what tells the shape of its {name}: {first_line(error)}"
        ) from error
    settled = settle_config(model, inferred, origin=origin)
    return Part(model=model, config=settled, stored=stored, origin=origin)
