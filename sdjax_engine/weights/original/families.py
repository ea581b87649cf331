"""Facts of the family of a file in the original layout, which no tensor shows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

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
    the training pictures, in pixels. `schedule` is the reference's schedule for this family.
    """

    pipeline: str
    encoders: tuple[Encoder, ...]
    scaling_factor: float
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
