"""What no tensor of a file in the original layout shows: facts of its family, and what its UNet predicts.

The prediction is by, in order of precedence: `NAME.yaml` beside the file, which is the configuration of the
original code, the marks of training tools, and the step at which the training ended.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sdjax_engine.errors import UnreadableCheckpoint, first_line, in_bytes, quoted
from sdjax_engine.weights.tensors import Stored, read_numbers, shorten

CLIP, OPEN_CLIP = "quick_gelu", "gelu"
SCHEDULE: dict[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
    "clip_sample": False,
}
HEAD_WIDTH = 64
RESOLUTION = re.compile(r"(\d{2,5})x(\d{2,5})")


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A text encoder in the file: the prefix of its tensors, and the library that wrote them."""

    name: str
    prefix: str
    is_open_clip: bool = False


@dataclass(frozen=True, kw_only=True)
class Family:
    """Checkpoints of one architecture.

    `heads` is the number of heads of every block; None means heads of 64 channels each. `side` is the side of
    the training pictures, in pixels. `schedule` is the reference's schedule for this family. The denoiser's
    latents are the autoencoder's less `shift_factor`, times `scaling_factor`.
    """

    pipeline: str
    encoders: tuple[Encoder, ...]
    scaling_factor: float
    shift_factor: float | None = None
    side: int
    schedule: dict[str, Any] = field(default_factory=dict)
    heads: int | None = None

    def heads_of(self, width: int) -> int:
        """The heads of a block of this many channels."""
        return self.heads or width // HEAD_WIDTH

    def matches(self, names: frozenset[str]) -> bool:
        """Return whether a file with tensors of these names is of this family."""
        return all(any(name.startswith(each.prefix) for name in names) for each in self.encoders)


SD_1 = Family(
    pipeline="StableDiffusion",
    encoders=(Encoder(name="text_encoder", prefix="cond_stage_model.transformer."),),
    scaling_factor=0.18215,
    side=512,
    schedule=SCHEDULE | {"_class_name": "PNDMScheduler"},
    heads=8,
)
SD_2 = Family(
    pipeline="StableDiffusion",
    encoders=(Encoder(name="text_encoder", prefix="cond_stage_model.model.", is_open_clip=True),),
    scaling_factor=0.18215,
    side=768,
    schedule=SCHEDULE | {"_class_name": "DDIMScheduler", "prediction_type": "v_prediction"},
)
SD_XL = Family(
    pipeline="StableDiffusionXL",
    encoders=(
        Encoder(name="text_encoder", prefix="conditioner.embedders.0.transformer."),
        Encoder(name="text_encoder_2", prefix="conditioner.embedders.1.model.", is_open_clip=True),
    ),
    scaling_factor=0.13025,
    side=1024,
    schedule=SCHEDULE | {"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "leading"},
)
FAMILIES = (SD_XL, SD_2, SD_1)


def family_of(pipeline: str) -> Family:
    """Return the family whose autoencoder a pipeline of this class has: SD 1's and SD 2's are alike."""
    return SD_XL if "XL" in pipeline else SD_1


def scheduler_config_of(
    family: Family, names: Collection[str], prediction: str | None, *, inpaints: bool
) -> dict[str, Any]:
    """Return the scheduler_config.json of a file that has none.

    The reference uses the family's schedule, in which SD 2.x predicts v; its inpainting form was trained from
    the form that predicts noise. The `prediction` that the file tells takes precedence (None: nothing tells
    it), and so does the empty tensor `ztsnr` of later checkpoints; `names` are the file's tensors.
    """
    config = dict(family.schedule)
    if inpaints:
        config.pop("prediction_type", None)
    if prediction is not None:
        config["prediction_type"] = prediction
    if "ztsnr" in names:
        config |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    return config


def latent_size(family: Family, scheduler: Mapping[str, Any], notes: Mapping[str, str], *, scale: int) -> Any:
    """Return the UNet's `sample_size`: from the file's metadata, else the family's.

    SD 2.x that predicts noise was trained at 512 pixels.
    """
    noted = RESOLUTION.fullmatch(notes.get("modelspec.resolution", ""))
    if noted:
        return [int(noted[2]) // scale, int(noted[1]) // scale]
    predicts_noise = scheduler.get("prediction_type", "epsilon") == "epsilon"
    side = SD_1.side if family is SD_2 and predicts_noise else family.side
    return side // scale


NOISE, V = "epsilon", "v_prediction"
STEP = "global_step"
LAST_STEP_OF_SD_2_BASE = 875_000  # by it the reference knows the form of SD 2 that predicts noise
MOST_BYTES = 64 * 2**10
PARAMETERIZATIONS = {"eps": NOISE, "v": V}


def prediction_of(file: Path, tensors: Mapping[str, Stored], notes: Mapping[str, str]) -> str | None:
    """Return "epsilon" or "v_prediction", or None if nothing tells it; raises UnreadableCheckpoint."""
    beside = file.with_suffix(".yaml")
    if beside.is_file() and (prediction := prediction_in(beside)):
        return prediction
    noted = notes.get("modelspec.prediction_type", "")
    if noted in ("v", V) or "v_pred" in tensors:
        return V
    steps = {name: entry for name, entry in tensors.items() if name == STEP}
    ended = read_numbers(file, steps).get(STEP) if steps else None
    return NOISE if noted == NOISE or ended == LAST_STEP_OF_SD_2_BASE else None


def prediction_in(file: Path) -> str | None:
    """Return the prediction by a configuration of the original code, or None for a configuration of SDXL's.

    Raises UnreadableCheckpoint.
    """
    params = settings_in(file)
    if "parameterization" not in params:
        return None if "denoiser_config" in params else NOISE
    prediction = PARAMETERIZATIONS.get(str(params["parameterization"]))
    if prediction is None:
        raise UnreadableCheckpoint(
            f"{file}: parameterization is {quoted(params['parameterization'])}, which is not supported; "
            f"known are {' and '.join(PARAMETERIZATIONS)}."
        )
    return prediction


def settings_in(file: Path) -> Mapping[str, Any]:
    """Return model.params of a configuration of the original code; raises UnreadableCheckpoint."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UnreadableCheckpoint(f"{file} has more than {in_bytes(MOST_BYTES)} of YAML.")
        # This loader makes texts, lists and mappings only: no tags, no merged keys, whose number can explode.
        content = yaml.load(data, yaml.BaseLoader)  # noqa: S506
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UnreadableCheckpoint(f"{file} cannot be read: {first_line(error)}") from error
    except RecursionError:
        raise UnreadableCheckpoint(f"{file} is YAML that is nested too deep.") from None
    for key in ("model", "params"):
        content = content.get(key) if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping):
        raise UnreadableCheckpoint(
            f"{file} is no configuration of the original code: it has no model.params."
        )
    return content


# Tensors that training and other programs add to the networks.
BESIDE = re.compile(
    r"model_ema\..*|(alphas_cumprod|sqrt_|log_one_minus_|posterior_|lvlb_weights|logvar|ddim_|sigmas)\w*|betas"
    r"|denoiser\..*|v_pred|ztsnr|global_step|scale_factor|embedding_manager\..*"
    r"|(cond_stage_model|conditioner\.embedders\.0)\.(logit_scale|text_projection)(\.weight)?"
)
AN_AUTOENCODER = "an autoencoder"
STRANGERS = (
    (
        re.compile(r".*(lora_|\.lora\.|lora\.(up|down)|hada_|lokr_).*"),
        "a LoRA, not a checkpoint: name it as a LoRA",
    ),
    (re.compile(r"(control_model|input_hint_block|controlnet_cond_embedding)\..*"), "a ControlNet"),
    (
        re.compile(r"(model\.diffusion_model\.)?joint_blocks\..*"),
        "a Stable Diffusion 3: name a folder with its encoders, and the file in the key denoiser",
    ),
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
    if tuple(missing) == (AN_AUTOENCODER,):
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
