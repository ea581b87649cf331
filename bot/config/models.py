"""[engine] and [[models]]: the devices, the checkpoints, and what people may ask of them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from bot.config.mistakes import InvalidValue, quoted
from bot.config.section import GivenPath, PathText, Section, repeated
from bot.domain.jobs import REFERENCES
from bot.domain.levels import DEFAULT_THRESHOLD, Level
from sdjax_engine.demo.painting import painting
from sdjax_engine.request import (
    MAX_CLIP_SKIP,
    MAX_GUIDANCE_SCALE,
    MAX_STEPS,
    WHOLE,
    ControlType,
    Int8,
    Offer,
    Sampler,
)


def _auto_or_switch(value: Any) -> Any:
    if value != "auto" and not isinstance(value, bool):
        raise InvalidValue('true, false or "auto" is wanted')
    return value


class EngineSection(Section):
    """How the engine uses this machine's devices. `EngineConfig` is the engine's own class."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    seats_per_device: Annotated[int, Field(ge=0, le=256)] = 0
    fitted_programs: Annotated[bool | Literal["auto"], BeforeValidator(_auto_or_switch)] = "auto"
    cpu_devices: Annotated[int, Field(ge=0, le=256)] = 0
    device_memory_gib: Annotated[float, Field(ge=0, le=4096)] = 0.0
    preview_seconds: Annotated[float, Field(ge=0, le=3600)] = 3.0
    stuck_seconds: Annotated[float, Field(ge=0, le=86400)] = 300.0
    cache_dir: PathText = "var/cache"
    cache_group: bool = False
    cache_wait: bool = False
    accelerator: Annotated[str, Field(max_length=64)] = ""


MIN_SIDE, MAX_SIDE, SIDE_MULTIPLE = 64, 2048, 8
MAX_PROMPT_CHUNKS, MAX_LORA_RANK = 8, 4096
MAX_NAME, MAX_LICENCE, MAX_LINK = 60, 80, 200
CHECKPOINT_DEFAULTS = frozenset({"sizes", "num_inference_steps", "guidance_scale", "sampler"})
"""Keys whose default comes from the checkpoint's own configuration files."""

FILE_NAME = r"[\w.+-]{1,60}"


def _check_sizes(values: tuple[str, ...]) -> tuple[str, ...]:
    mistakes = [mistake for value in values for mistake in _mistakes_in_size(value)]
    mistakes += [f"{quoted(value)} is named twice" for value in repeated(values)]
    if mistakes:
        raise InvalidValue(*mistakes)
    return values


def _mistakes_in_size(value: str) -> list[str]:
    width, cross, height = value.partition("x")
    if not (cross and width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        return [f"{quoted(value)} is not a size: write width x height in pixels, such as 512x512"]
    wanted = f"a multiple of {SIDE_MULTIPLE} from {MIN_SIDE} to {MAX_SIDE}"
    return [
        f"{value} cannot be painted: {side} is not {wanted}"
        for side in dict.fromkeys((int(width), int(height)))
        if side % SIDE_MULTIPLE or not MIN_SIDE <= side <= MAX_SIDE
    ]


def _check_loras(values: dict[str, str]) -> dict[str, str]:
    return _check_named_files(values, "a", "LoRA")


def _check_embeddings(values: dict[str, str]) -> dict[str, str]:
    return _check_named_files(values, "an", "embedding")


def _check_named_files(values: dict[str, str], article: str, kind: str) -> dict[str, str]:
    mistakes = [
        f"{quoted(name)} is no name for {article} {kind}: up to 60 letters, digits and . _ + - only"
        for name in values
        if not re.fullmatch(FILE_NAME, name)
    ]
    mistakes += [f"{quoted(name)} is named twice" for name in repeated(name.casefold() for name in values)]
    mistakes += [
        f"the {kind} {quoted(name)} has no file" for name, file in values.items() if not file.strip()
    ]
    if mistakes:
        raise InvalidValue(*mistakes)
    return values


class ControlNetConfig(Section):
    """A network that keeps the composition of a picture, and the types of control pictures that it takes."""

    source: GivenPath
    types: Annotated[tuple[ControlType, ...], Field(min_length=1)]


def _check_controlnets(values: dict[str, ControlNetConfig]) -> dict[str, ControlNetConfig]:
    mistakes = [
        f"{quoted(name)} is no name for a ControlNet: up to 60 letters, digits and . _ + - only"
        for name in values
        if not re.fullmatch(FILE_NAME, name)
    ]
    types = [kind for net in values.values() for kind in net.types]
    mistakes += [f"{kind.value!r} is named twice: one ControlNet takes each type" for kind in repeated(types)]
    if mistakes:
        raise InvalidValue(*mistakes)
    return values


def _check_int8(values: tuple[Int8, ...]) -> tuple[Int8, ...]:
    if twice := repeated(values):
        raise InvalidValue(*(f"{part.value!r} is named twice" for part in twice))
    return values


def _check_licence(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise InvalidValue("a name on one line is wanted, without spaces around")
    return value


_Shown = Literal["withhold", "hold", "spoiler", "show"]


def _for_each_level(value: Any) -> Any:
    """Return three values for one: the levels mild, explicit and extreme are shown the same."""
    if isinstance(value, str):
        if value not in (shown := get_args(_Shown)):
            *others, last = map(repr, shown)
            raise InvalidValue(f"{quoted(value)} is none of {', '.join(others)} or {last}")
        return (value,) * 3
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise InvalidValue("one value is wanted, or three, for the levels mild, explicit and extreme")
    return tuple(value)


def _for_each_level_or_none(value: Any) -> Any:
    return () if value in ("", [], ()) else _for_each_level(value)


_ByLevel = tuple[_Shown, _Shown, _Shown]


def _interval(value: Any) -> Any:
    """Return an interval within 0 to 1 as two numbers; raises InvalidValue unless the first is smaller."""
    pair = tuple(value) if isinstance(value, list | tuple) else ()
    numbers = all(type(each) in (int, float) for each in pair)
    if len(pair) != 2 or not numbers or not 0 <= pair[0] < pair[1] <= 1:
        raise InvalidValue(
            "two numbers from 0 to 1 are wanted, the parts of the steps after which guidance starts and, "
            "above it, stops, such as [0.0, 0.6]"
        )
    return tuple(map(float, pair))


class ModelConfig(Section):
    """One checkpoint, and what people may ask of it. The first size is the default.

    The defaults of sizes, steps and guidance are the demo's.
    """

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=r"^[\w.+-]+$")] = "demo"
    checkpoint: GivenPath = "demo"
    revision: str = ""
    variant: str = ""
    vae: PathText = ""
    denoiser: PathText = ""
    int8: Annotated[tuple[Int8, ...], AfterValidator(_check_int8)] = ()
    timestep_spacing: Literal["", "leading", "trailing", "linspace"] = ""
    sizes: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_check_sizes)] = Field(
        default_factory=lambda: tuple(painting()["sizes"])
    )
    num_inference_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = Field(
        default_factory=lambda: int(painting()["num_inference_steps"])
    )
    guidance_scale: Annotated[float, Field(ge=0, le=MAX_GUIDANCE_SCALE)] = Field(
        default_factory=lambda: float(painting()["guidance_scale"])
    )
    guidance_interval: Annotated[tuple[float, float], BeforeValidator(_interval)] = WHOLE
    clip_skip: Annotated[int, Field(ge=0, le=MAX_CLIP_SKIP)] = 0
    sampler: Sampler = Sampler.DDIM
    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = MAX_STEPS
    prompt_chunks: Annotated[int, Field(ge=1, le=MAX_PROMPT_CHUNKS)] = 3
    safety_checker: bool = True
    flagged: Annotated[_ByLevel, BeforeValidator(_for_each_level)] = ("withhold",) * 3
    flagged_spoiler: Annotated[_ByLevel | tuple[()], BeforeValidator(_for_each_level_or_none)] = ()
    flagged_age_restricted: Annotated[_ByLevel, BeforeValidator(_for_each_level)] = ("spoiler",) * 3
    picture_classifier: PathText = ""
    picture_levels: dict[str, Level] = Field(default_factory=dict)
    picture_threshold: Annotated[float, Field(gt=0, le=1)] = DEFAULT_THRESHOLD
    loras: Annotated[dict[str, PathText], AfterValidator(_check_loras)] = Field(default_factory=dict)
    lora_rank: Annotated[int, Field(ge=1, le=MAX_LORA_RANK)] = 64
    embeddings: Annotated[dict[str, PathText], AfterValidator(_check_embeddings)] = Field(
        default_factory=dict
    )
    controlnets: Annotated[dict[str, ControlNetConfig], AfterValidator(_check_controlnets)] = Field(
        default_factory=dict
    )
    image_prompt: PathText = ""
    image_encoder: PathText = ""
    references: Annotated[int, Field(ge=0, le=len(REFERENCES))] = 0
    preview_decoder: PathText = ""
    licence: Annotated[str, Field(max_length=MAX_LICENCE), AfterValidator(_check_licence)] = ""
    licence_link: Annotated[str, Field(max_length=MAX_LINK)] = ""
    _samplers: tuple[Sampler, ...] = ()  # the samplers that suit the checkpoint, once it has been read
    _most_skipped: int = 0  # this and the next are those of an `Offer`, once it has been read
    _usual_layer: int = 1

    @field_validator("revision", "variant")
    @classmethod
    def _only_for_fetched_checkpoints(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("checkpoint") == "demo":
            raise InvalidValue(f"the bundled demo checkpoint has no {info.field_name}")
        return value

    @field_validator("picture_levels")
    @classmethod
    def _only_with_a_classifier(cls, value: dict[str, Level], info: ValidationInfo) -> dict[str, Level]:
        if value and not info.data.get("picture_classifier"):
            raise InvalidValue("without a picture_classifier no label has a level")
        return value

    @field_validator("image_encoder")
    @classmethod
    def _only_with_an_image_prompt(cls, value: str, info: ValidationInfo) -> str:
        if value and not info.data.get("image_prompt"):
            raise InvalidValue("without an image_prompt no image encoder is used")
        return value

    @field_validator("licence_link")
    @classmethod
    def _of_a_licence(cls, value: str, info: ValidationInfo) -> str:
        if value and not re.fullmatch(r"https?://[^\s<>()]+", value):
            raise InvalidValue(f"{quoted(value)} is not an address of the form https://host/path")
        if value and not info.data.get("licence"):
            raise InvalidValue("which licence is at this address? Say licence as well")
        return value

    @field_validator("max_steps")
    @classmethod
    def _covers_the_default(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("num_inference_steps", 0) > value:
            raise InvalidValue(
                f"{value} is less than num_inference_steps = {info.data['num_inference_steps']}, the default"
            )
        return value

    @property
    def unset(self) -> frozenset[str]:
        """The keys that the file leaves to the checkpoint; none for the demo, whose values it has."""
        if self.checkpoint == "demo":
            return frozenset()
        return CHECKPOINT_DEFAULTS - self.model_fields_set

    def with_defaults(self, checkpoint: Offer) -> ModelConfig:
        """Return this model with the samplers and layers of the checkpoint, its values for keys in `unset`.

        A worker's offer may also name the licence, if this configuration does not.
        """
        values = {
            "sizes": tuple(f"{width}x{height}" for width, height in checkpoint.sizes),
            "num_inference_steps": min(checkpoint.num_inference_steps, self.max_steps),
            "guidance_scale": checkpoint.guidance_scale,
            "sampler": checkpoint.sampler,
        }
        licence = {} if self.licence else _licence_of(checkpoint)
        model = self.model_copy(update={name: values[name] for name in self.unset} | licence)
        model._samplers = checkpoint.samplers
        model._most_skipped, model._usual_layer = checkpoint.most_skipped, checkpoint.usual_layer
        return model

    @property
    def offer(self) -> Offer:
        """What people may ask of this model, in the engine's terms."""
        return Offer(
            model=self.name,
            sizes=tuple(_read_size(size) for size in self.sizes),
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            guidance_interval=self.guidance_interval,
            clip_skip=self.clip_skip,
            most_skipped=self._most_skipped,
            usual_layer=self._usual_layer,
            sampler=self.sampler,
            max_steps=self.max_steps,
            prompt_chunks=self.prompt_chunks,
            loras=tuple(self.loras),
            embeddings=tuple(self.embeddings),
            controlnets=tuple(self.controlnets),
            control_types=tuple((kind, name) for name, net in self.controlnets.items() for kind in net.types),
            image_prompts=bool(self.image_prompt),
            references=self.references,
            int8=self.int8,
            samplers=self._samplers,
            licence=self.licence,
            licence_link=self.licence_link,
        )


def _licence_of(offer: Offer) -> dict[str, str]:
    return {"licence": offer.licence, "licence_link": offer.licence_link}


def _read_size(size: str) -> tuple[int, int]:
    width, height = size.split("x")
    return int(width), int(height)
