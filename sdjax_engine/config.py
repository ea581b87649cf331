"""The configuration that an engine is opened with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from sdjax_engine.request import Lane, Offer


class Dtype(StrEnum):
    """The number format of the networks; the denoising arithmetic around them is always float32.

    `AUTO` is bfloat16 on an accelerator, whose fused kernels compute in it, and float32 on a CPU.
    """

    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"

    def settled(self, *, on_cpu: bool) -> Dtype:
        """Return the format itself, or what `AUTO` stands for."""
        if self is not Dtype.AUTO:
            return self
        return Dtype.FLOAT32 if on_cpu else Dtype.BFLOAT16


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """One model to load: what it offers and where its checkpoint is.

    `source` is a folder in the diffusers layout, a hub id, a .safetensors file in the original layout, or
    "demo" for the bundled checkpoint. `revision` is a branch, tag or commit of a hub repository. `variant`
    selects weight files by a part of their names, such as fp16. `vae` names another autoencoder than the
    checkpoint's: a folder, a hub id or a .safetensors file. `denoiser` names a .safetensors
    file of the denoiser alone, in place of the folder's. `timestep_spacing` ("leading", "trailing" or
    "linspace") replaces the schedule's. `loras` are the LoRA files by their names in the offer. The ranks of
    one picture's LoRAs may add up to `lora_rank` (0: no limit). `controlnets` are the ControlNets by their
    names in the offer, all of one architecture: folders, hub ids or .safetensors files. `embeddings` are the
    files of embeddings (textual inversion) by the names that people type in prompts. `image_prompt` is the
    .safetensors file of an IP-Adapter, `image_encoder` the folder, hub id or file of its image encoder (None:
    the folder image_encoder beside the adapter). `preview_decoder` is
    the folder or hub id of a tiny autoencoder that decodes previews (None: they are a linear map of the
    latents). `picture_classifier` is the folder or hub id of a ViT image classifier that judges the model's
    pictures (None: they are not judged); its labels must be the `picture_labels` (None: any). With
    `safety_checker`, the safety checker of the checkpoint is used if there is one.
    """

    offer: Offer
    source: str
    revision: str | None = None
    variant: str | None = None
    vae: str | None = None
    denoiser: str | None = None
    timestep_spacing: str | None = None
    safety_checker: bool = True
    loras: Mapping[str, Path] = field(default_factory=dict)
    lora_rank: int = 64
    preview_decoder: str | None = None
    picture_classifier: str | None = None
    picture_labels: frozenset[str] | None = None
    controlnets: Mapping[str, str] = field(default_factory=dict)
    embeddings: Mapping[str, Path] = field(default_factory=dict)
    image_prompt: str | None = None
    image_encoder: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if the LoRA files are not those of the offer, or the LoRA rank is negative."""
        if set(self.loras) != set(self.offer.loras):
            offered, files = list(self.offer.loras), list(self.loras)
            raise ValueError(f"{self.offer.model} offers the LoRAs {offered}, but has files of {files}")
        if tuple(self.controlnets) != self.offer.controlnets:
            offered, named = list(self.offer.controlnets), list(self.controlnets)
            raise ValueError(f"{self.offer.model} offers the ControlNets {offered}, but has {named}")
        if tuple(self.embeddings) != self.offer.embeddings:
            offered, files = list(self.offer.embeddings), list(self.embeddings)
            raise ValueError(f"{self.offer.model} offers the embeddings {offered}, but has files of {files}")
        if self.offer.image_prompts != (self.image_prompt is not None):
            raise ValueError(
                f"{self.offer.model} offers image prompts if, and only if, it has a file for them"
            )
        if self.lora_rank < 0:
            raise ValueError(f"{self.offer.model} cannot have a LoRA rank of {self.lora_rank}")


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The models of an engine and how it uses the devices.

    A lane has `seats_per_device` seats on every device (0: as many as suit the devices, see
    `lane_queue.suitable_seats`). Without an accelerator, the CPU is split into `cpu_devices` devices (0: one
    for each core); the first use of JAX fixes their number for the process. `cache_dir` keeps compiled
    programs and converted weights between starts (None: nothing is kept). It is used only if no other user
    can write to it; with `cache_group`, the users of its group may. `lanes` are the lanes to compile and
    serve (None: every lane that the offers reach). Without `start_pictures` they paint from noise only, which
    saves the compilation of one program for each size. With `fitted_programs` a run uses a program with as
    many rows as its pictures need, and with LoRAs only if one of them has a LoRA. Without, every run has the
    same program, and a picture has the same bits whatever is painted with it. None: on accelerators only.

    At most `device_memory` bytes of each device are used (0: what the device reports, less a reserve). The
    devices are stuck if they do not answer for `stuck_after` seconds plus twenty times the usual duration of
    their work (0: never). A request that wants previews gets one at most every `preview_seconds` (0: never),
    and less often if previews would take more than the `preview_share` of a lane's time.
    """

    models: tuple[ModelSpec, ...]
    dtype: Dtype = Dtype.AUTO
    seats_per_device: int = 0
    cpu_devices: int = 0
    cache_dir: Path | None = None
    cache_group: bool = False
    lanes: tuple[Lane, ...] | None = None
    start_pictures: bool = True
    fitted_programs: bool | None = None
    device_memory: int = 0
    stuck_after: float = 300.0
    preview_seconds: float = 0.0
    preview_share: float = 0.015

    def settled(self, *, on_cpu: bool) -> EngineConfig:
        """Return the configuration with `dtype` and `fitted_programs` decided for the kind of devices."""
        fitted = not on_cpu if self.fitted_programs is None else self.fitted_programs
        return replace(self, dtype=self.dtype.settled(on_cpu=on_cpu), fitted_programs=fitted)

    def __post_init__(self) -> None:
        """Raise ValueError for a configuration that can never work."""
        names = [spec.offer.model for spec in self.models]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"an engine needs at least one model, each of its own name, not {names}")
        if self.seats_per_device < 0:
            raise ValueError(f"a device cannot have {self.seats_per_device} seats")
        if self.cpu_devices < 0:
            raise ValueError(f"the CPU cannot be split into {self.cpu_devices} devices")
        for name in ("device_memory", "stuck_after", "preview_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} cannot be {getattr(self, name)}, less than nothing")
        if not self.preview_share > 0:
            raise ValueError(f"preview_share cannot be {self.preview_share}: it is above 0")
        if self.lanes == ():
            raise ValueError("an engine needs at least one lane, not none")
        for lane in self.lanes or ():
            if not any(spec.offer.reaches(lane) for spec in self.models):
                raise ValueError(f"an engine cannot serve {lane}, which none of its models offers")
