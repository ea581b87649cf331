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
    "demo" for the bundled checkpoint;
    `revision` and `variant` choose among a hub repository's states and files. `loras` are the files of the
    LoRAs in the offer, by the names they have there; those of one picture may have a rank of `lora_rank` all
    together (0: whatever they have). `preview_decoder` is the folder or hub id of a tiny autoencoder that
    decodes previews (None: they are a linear map of the latents). `picture_classifier` is the folder or hub
    id of a ViT image classifier that judges its pictures (None: they are not judged); its labels must be
    the `picture_labels` (None: any).
    """

    offer: Offer
    source: str
    revision: str | None = None
    variant: str | None = None
    safety_checker: bool = True
    loras: Mapping[str, Path] = field(default_factory=dict)
    lora_rank: int = 64
    preview_decoder: str | None = None
    picture_classifier: str | None = None
    picture_labels: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Refuse LoRAs that are not those on offer with a ValueError that says so."""
        if set(self.loras) != set(self.offer.loras):
            offered, there = list(self.offer.loras), list(self.loras)
            raise ValueError(f"{self.offer.model} offers the LoRAs {offered}, but has files of {there}")
        if self.lora_rank < 0:
            raise ValueError(f"{self.offer.model} cannot have a LoRA rank of {self.lora_rank}")


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The models of an engine and how it uses the devices.

    A lane has `seats_per_device` seats on every device (0: as many as suit the devices, see
    `seats.suitable_seats`). `cpu_devices` is how many devices the CPU is split into where there is no
    accelerator (0: one for each core); it is fixed for the process by the first use of JAX. `cache_dir`
    keeps compiled programs and converted weights between starts (None: nothing is kept); it is used only if
    no other user can write to it, with `cache_group` no user outside its group. `lanes` are the lanes to
    compile and serve (None: every lane that the offers reach); without `start_pictures` they paint from noise
    only, which spares the compilation of one program for each size. With `fitted_programs` a run uses a
    program of as many rows as its pictures need, with LoRAs only where one of them uses one, and pictures
    that it finishes are decoded up to four in a call; without, every run has the same program, and a picture
    the same bits in any company. None: on accelerators only.

    Of each device's memory `device_memory` bytes are used (0: what the device says). Devices that answer
    nothing for `stuck_after` seconds, beyond twenty times what their work usually takes, are taken for stuck
    (0: never). A request that wants previews gets one at most every `preview_seconds` (0: never), and less
    often where previews would take more than the `preview_share` of a lane's time.
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
        """Return the configuration with the values that depend on the kind of devices."""
        fitted = not on_cpu if self.fitted_programs is None else self.fitted_programs
        return replace(self, dtype=self.dtype.settled(on_cpu=on_cpu), fitted_programs=fitted)

    def __post_init__(self) -> None:
        """Refuse what can never work with a ValueError that says so."""
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
