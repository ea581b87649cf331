"""A single safetensors file in the original layout, the form of most community checkpoints.

The tensors show the text encoders and the UNet's input channels. The family gives the numbers of heads, the
autoencoder's scaling and the schedule. Files beside `NAME.safetensors` tell more:
`NAME.scheduler_config.json` is the schedule, `NAME.yaml`, the configuration of the original code, tells
whether the UNet predicts v, and `NAME.vae.safetensors` is an autoencoder that replaces the file's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families import pipelines
from sdjax_engine.families.stable_diffusion.latents import scale_of
from sdjax_engine.families.stable_diffusion.parts import TEXT_ENCODERS
from sdjax_engine.json_files import read_json
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.weights.checkpoint import Contents
from sdjax_engine.weights.files import PICKLES, Report
from sdjax_engine.weights.folder import read_autoencoder, read_autoencoder_file
from sdjax_engine.weights.networks import Part, infer_part
from sdjax_engine.weights.original.families import (
    AN_AUTOENCODER,
    CLIP,
    FAMILIES,
    OPEN_CLIP,
    SD_XL,
    Encoder,
    Family,
    check_nothing_else,
    latent_size,
    name_stranger,
    prediction_of,
    scheduler_config_of,
)
from sdjax_engine.weights.original.networks import (
    clip_names,
    open_clip_names,
    text_config,
    unet_config,
    unet_names,
    vae_part,
)
from sdjax_engine.weights.tensors import WHY_NO_PICKLES, Stored, read_header, scaled

Tensors = dict[str, Stored]
UNET = "model.diffusion_model."
VAES = ("first_stage_model.", "vae.")
INPUT = "input_blocks.0.0.weight"
LCM_CONDITIONING = "time_embed.cond_proj.weight"
MASK = 1  # input channel of an inpainting UNet, beside two latents


@dataclass(frozen=True, kw_only=True)
class Original:
    """A recognised file: its family, and the networks' tensors by their names in the file."""

    file: Path
    family: Family
    unet: Tensors
    vae: Part
    encoders: Mapping[str, Tensors]
    scheduler_config: dict[str, Any]
    sample_size: Any
    inpaints: bool

    @property
    def pipeline(self) -> str:
        """The reference's class for such a file."""
        return f"{self.family.pipeline}{'Inpaint' if self.inpaints else ''}Pipeline"


def read_single_file(
    file: Path, *, vae: str | None = None, variant: str | None = None, report: Report | None = None
) -> Contents:
    """Return the contents of the checkpoint `file`, with the autoencoder called `vae` if there is a name.

    Raises UnreadableCheckpoint.
    """
    original = recognise(file, vae=vae, variant=variant, report=report)
    texts = {each.name: text_part(original, each) for each in original.family.encoders}
    pooled = texts["text_encoder_2"].config["projection_dim"] if original.family is SD_XL else None
    return Contents(
        origin=str(file),
        family=pipelines()[original.pipeline],
        pipeline=original.pipeline,
        components={**texts, "unet": unet_part(original, pooled_width=pooled), "vae": original.vae},
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
    )


def recognise(
    file: Path,
    *,
    vae: str | None = None,
    variant: str | None = None,
    weights: bool = True,
    report: Report | None = None,
) -> Original:
    """Return what a file's header tells of its family and networks; raises UnreadableCheckpoint.

    Without `weights` an autoencoder on the hub is known by its configuration alone.
    """
    if any(file.match(pattern) for pattern in PICKLES):
        raise UnreadableCheckpoint(f"{file} holds pickled weights, and {WHY_NO_PICKLES}.")
    header, notes = read_header(file)
    tensors = scaled(file, header)
    family = next((each for each in FAMILIES if each.matches(frozenset(tensors))), None)
    unet, own_vae = inside(tensors, UNET), inside(tensors, *VAES)
    beside = file.with_name(f"{file.stem}.vae.safetensors")
    has_vae = vae is not None or beside.is_file() or "decoder.conv_in.weight" in own_vae
    found = {"a UNet": INPUT in unet, AN_AUTOENCODER: has_vae, "a text encoder": family is not None}
    if family is None or not all(found.values()):
        raise name_stranger(file, tensors, missing=[part for part, is_there in found.items() if not is_there])
    prefixes = (UNET, *VAES, *(each.prefix for each in family.encoders))
    check_nothing_else(file, [name for name in tensors if not name.startswith(prefixes)])
    if LCM_CONDITIONING in unet:
        raise UnreadableCheckpoint(
            f"{file} is not supported: it is an LCM with its own conditioning on the guidance scale, which "
            f"loads only as a folder in the diffusers layout."
        )
    if vae is not None:
        autoencoder = read_autoencoder(vae, family, variant=variant, weights=weights, report=report)
    elif beside.is_file():
        autoencoder = read_autoencoder_file(beside, family)
    else:
        autoencoder = vae_part(file, own_vae, family)
    latent = int(autoencoder.config["latent_channels"])
    inpaints = channels_into(unet[INPUT]) == 2 * latent + MASK
    scheduler = own_scheduler(file) or scheduler_config_of(
        family, tensors, prediction_of(file, header, notes), inpaints=inpaints
    )
    return Original(
        file=file,
        family=family,
        unet=unet,
        vae=autoencoder,
        encoders={each.name: inside(tensors, each.prefix) for each in family.encoders},
        scheduler_config=scheduler,
        sample_size=latent_size(family, scheduler, notes, scale=scale_of(autoencoder.config)),
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
    return infer_part(original.file, model, encoder.name, named, config)


def unet_part(original: Original, *, pooled_width: int | None) -> Part:
    """Return the UNet."""

    def config(_: Tensors) -> dict[str, Any]:
        inferred = unet_config(original.unet, heads=original.family.heads_of, pooled_width=pooled_width)
        return inferred | {"sample_size": original.sample_size}

    return infer_part(
        original.file, "UNet2DConditionModel", "unet", lambda: unet_names(original.unet), config
    )


TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")
HUB_ID = "openai/clip-vit-large-patch14"  # the reference's source
OPEN_CLIP_PAD = "!"  # its id is 0; CLIP pads prompts with the end token


def find_tokenizer(file: Path, *, name: str, is_open_clip: bool, report: Report | None) -> Tokenizer:
    """Return the tokenizer of a text encoder of the checkpoint `file`.

    A folder called `name` or `tokenizer` beside the file is used before the hub, whose cache works without a
    network. Raises UnreadableCheckpoint.
    """
    beside = [folder for each in (name, "tokenizer") if (folder := file.parent / each).is_dir()]
    folder = beside[0] if beside else download_vocabulary(file, report)
    return Tokenizer.load(folder, pad=OPEN_CLIP_PAD if is_open_clip else None)


def download_vocabulary(file: Path, report: Report | None) -> Path:
    """Return the folder of the vocabulary in the hub's cache, downloaded if missing."""
    from sdjax_engine.weights.hub import fetch  # noqa: PLC0415 - the hub's client is slow to import

    try:
        return fetch(HUB_ID, TOKENIZER_FILES, revision=None, report=report)
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(
            f"{file} comes without a vocabulary, and that of {HUB_ID} cannot be fetched from the hub: put "
            f"its tokenizer files into {file.parent / 'tokenizer'}."
        ) from error
