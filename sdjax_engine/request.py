"""Requests to the engine and its answers; no JAX here, so anything may import it."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import InvalidRequest


@dataclass(frozen=True, kw_only=True)
class PictureScores:
    """The probability of each label of a picture classifier; both in the classifier's order.

    The probabilities are from 0 to 1, and their sum is 1.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def by_label(self) -> dict[str, float]:
        """The probabilities by their labels."""
        return dict(zip(self.labels, self.probabilities, strict=True))


MAX_SEED = 2**32 - 1
MAX_CLIP_SKIP = 11
"""The most layers of CLIP that a request may skip; the smallest encoder has 12."""
MAX_STEPS = 150
MAX_GUIDANCE_SCALE = 30.0
MAX_PROMPT_CHARACTERS = 2000
MAX_LORA_WEIGHT = 4.0
MAX_VARIATIONS = 8
MAX_CONTROL_STRENGTH = 2.0
MAX_REFERENCES = 4
"""The most reference pictures of a request: what FLUX.2 klein was made for."""
WHOLE = (0.0, 1.0)
"""The guidance interval that includes every evaluation."""
SHAPE_TOLERANCE = 0.03  # between the logarithms of two proportions: 1216x832 counts as 3:2


class Sampler(StrEnum):
    """The sampling methods, by the names people type."""

    DDIM = "ddim"
    PNDM = "pndm"
    EULER = "euler"
    EULER_ANCESTRAL = "euler_ancestral"
    DPMPP_2M = "dpmpp_2m"
    DPMPP_2M_KARRAS = "dpmpp_2m_karras"
    DPMPP_2M_SDE = "dpmpp_2m_sde"
    DPMPP_2M_SDE_KARRAS = "dpmpp_2m_sde_karras"
    DPMPP_SDE = "dpmpp_sde"
    HEUN = "heun"
    UNIPC = "unipc"
    LCM = "lcm"
    TCD = "tcd"
    DDPM = "ddpm"
    FLOW_EULER = "flow_euler"


SAMPLER_NAMES: Mapping[Sampler, str] = MappingProxyType(
    {
        Sampler.DDIM: "DDIM",
        Sampler.PNDM: "PNDM",
        Sampler.EULER: "Euler",
        Sampler.EULER_ANCESTRAL: "Euler ancestral",
        Sampler.DPMPP_2M: "DPM++ 2M",
        Sampler.DPMPP_2M_KARRAS: "DPM++ 2M Karras",
        Sampler.DPMPP_2M_SDE: "DPM++ 2M SDE",
        Sampler.DPMPP_2M_SDE_KARRAS: "DPM++ 2M SDE Karras",
        Sampler.DPMPP_SDE: "DPM++ SDE",
        Sampler.HEUN: "Heun",
        Sampler.UNIPC: "UniPC",
        Sampler.LCM: "LCM",
        Sampler.TCD: "TCD",
        Sampler.DDPM: "DDPM",
        Sampler.FLOW_EULER: "Flow Euler",
    }
)


class ControlType(StrEnum):
    """What a control picture shows, and whether it is made of an ordinary picture first.

    Edges, lines and tiles are made. All others are control pictures already; `PICTURE` does not say what it
    shows, which suits a network of one type.
    """

    EDGES = "edges"
    LINES = "lines"
    TILE = "tile"
    PICTURE = "picture"
    POSE = "pose"
    DEPTH = "depth"
    SCRIBBLE = "scribble"
    NORMAL = "normal"
    SEGMENTS = "segments"


MADE_OF_PICTURES = frozenset({ControlType.EDGES, ControlType.LINES, ControlType.TILE})
"""The types of control pictures that are made of ordinary pictures first."""
UNION_TYPES: Mapping[ControlType, int] = MappingProxyType(
    {
        ControlType.POSE: 0,
        ControlType.DEPTH: 1,
        ControlType.SCRIBBLE: 2,
        ControlType.EDGES: 3,
        ControlType.LINES: 3,
        ControlType.NORMAL: 4,
        ControlType.SEGMENTS: 5,
        ControlType.TILE: 6,
    }
)
"""The number of each type in SDXL's union of ControlNets; those of six types lack the last."""


@dataclass(frozen=True, kw_only=True, order=True)
class Lane:
    """What fixes a compiled program's shapes: images of one lane can share a device batch."""

    model: str
    height: int
    width: int
    guided: bool
    references: int = 0

    def __str__(self) -> str:
        lane = f"{self.model}:{self.width}x{self.height}:{'guided' if self.guided else 'unguided'}"
        return f"{lane}:{self.references} references" if self.references else lane


@dataclass(frozen=True, kw_only=True, order=True)
class Lora:
    """One LoRA of a request, by the name under which the model offers it, and how strongly it works."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Variation:
    """Turns the initial noise towards that of `seed`; `strength` 0 keeps the noise, 1 replaces it."""

    seed: int
    strength: float


@dataclass(frozen=True, kw_only=True)
class SecondPass:
    """A second pass: the finished picture is enlarged to this size, in pixels, and painted again from there.

    `strength`, from 0 to 1, says how much the enlarged picture may change, as with a start picture.
    """

    height: int
    width: int
    num_inference_steps: int
    strength: float


@dataclass(frozen=True, kw_only=True)
class Request:
    """One image to paint.

    The picture depends on these values only, and bit for bit if the same programs paint it. Names follow the
    reference pipeline's parameters. `height` and `width` are in pixels. The noise is drawn from `seed` alone.
    `init_image` is a picture file of any size to start from; `strength` from 0 to 1 says how much it may
    change. The white parts of `mask_image`, a picture file too, are painted again and the black parts kept;
    it needs an `init_image`. `variations` change the initial noise, one after the other, but not the fresh
    noise of the evaluations. With a `second_pass` the picture has the size of that pass.
    `guidance_interval` is (start, stop), shares of a pass's evaluations: those outside are made without
    guidance (`Table.guided`). The prompt's encoding is taken `clip_skip` layers of CLIP before the usual one,
    as the reference counts: AUTOMATIC1111's web UI says 1 more.
    A `control_image`, a picture file too, holds the composition: the ControlNet called `controlnet` (empty:
    the model's first) sees what `control_type` says of it, with `control_strength` in the shares of a pass's
    evaluations that `control_interval` says.
    An `image_prompt`, a picture file too, is a prompt beside the text: its middle, a square, works with
    `image_prompt_strength` from 0 to 1.
    The `references`, picture files too, are what the prompt may speak of: an edited picture, a face, a style.
    """

    prompt: str
    negative_prompt: str = ""
    seed: int
    num_inference_steps: int
    guidance_scale: float
    sampler: Sampler
    height: int
    width: int
    model: str
    init_image: bytes | None = field(default=None, repr=False)
    mask_image: bytes | None = field(default=None, repr=False)
    strength: float = 1.0
    loras: tuple[Lora, ...] = ()
    variations: tuple[Variation, ...] = ()
    second_pass: SecondPass | None = None
    guidance_interval: tuple[float, float] = WHOLE
    clip_skip: int = 0
    control_image: bytes | None = field(default=None, repr=False)
    controlnet: str = ""
    control_type: ControlType = ControlType.EDGES
    control_strength: float = 1.0
    control_interval: tuple[float, float] = WHOLE
    image_prompt: bytes | None = field(default=None, repr=False)
    image_prompt_strength: float = 1.0
    references: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def guided(self) -> bool:
        """Whether the unconditional half is computed at all."""
        return self.guidance_scale > 1.0

    @property
    def lane(self) -> Lane:
        """The lane of the first pass."""
        return Lane(
            model=self.model,
            height=self.height,
            width=self.width,
            guided=self.guided,
            references=len(self.references),
        )

    @property
    def second(self) -> Request:
        """The request of the second pass, without its start picture; AttributeError without a second pass."""
        second = self.second_pass
        if second is None:
            raise AttributeError("the request has no second pass")
        return replace(
            self,
            height=second.height,
            width=second.width,
            num_inference_steps=second.num_inference_steps,
            strength=second.strength,
            init_image=None,
            mask_image=None,
            second_pass=None,
        )

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes of all passes, in order."""
        return (self.lane,) if self.second_pass is None else (self.lane, self.second.lane)


class Int8(StrEnum):
    """The parts of a model whose weights can be INT8: rounded to 8 bits, with a scale for each output."""

    TEXT_ENCODER = "text_encoder"
    DENOISER = "denoiser"


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The values that one model accepts, its defaults, guidance interval and `clip_skip` of its pictures.

    `sizes` are (width, height) in pixels, the first being the default. A prompt may fill `prompt_chunks`
    encodings of the text encoder's length; a longer prompt is cut. `loras` are the names people may ask for.
    `samplers` are those that suit the checkpoint; empty before the checkpoint is read, when any is accepted.
    `licence` names the checkpoint's licence, `licence_link` is its address; empty where unknown.
    `embeddings` are the words of prompts that have vectors of their own.
    `controlnets` are the names of the networks that hold a picture to a control picture, `control_types` the
    types that people may choose, each with the name of its network; empty: any type. With `image_prompts`
    pictures may be prompts. A request may skip
    `most_skipped` layers of CLIP, but at most `clip_skip` before the checkpoint is read. If none is skipped,
    the encoding is that of CLIP's layer `usual_layer`, counted from the last, which is 1; in SDXL it is 2.
    A request may have as many reference pictures as `references` says; each number has lanes of its own.
    The weights of the parts in `int8` are rounded to INT8.
    """

    model: str
    sizes: tuple[tuple[int, int], ...]
    num_inference_steps: int
    guidance_scale: float
    sampler: Sampler
    max_steps: int = MAX_STEPS
    prompt_chunks: int = 3
    loras: tuple[str, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    licence: str = ""
    licence_link: str = ""
    guidance_interval: tuple[float, float] = WHOLE
    clip_skip: int = 0
    most_skipped: int = 0
    usual_layer: int = 1
    controlnets: tuple[str, ...] = ()
    control_types: tuple[tuple[ControlType, str], ...] = ()
    embeddings: tuple[str, ...] = ()
    image_prompts: bool = False
    references: int = 0
    int8: tuple[Int8, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an offer that no request can match."""
        if not self.sizes:
            raise ValueError(f"{self.model} must be offered in at least one size")
        if not 1 <= self.num_inference_steps <= self.max_steps <= MAX_STEPS:
            steps = f"{self.num_inference_steps} steps of at most {self.max_steps}"
            raise ValueError(
                f"{self.model} cannot be offered in {steps}, which is not within 1 to {MAX_STEPS}"
            )
        if not _is_interval(self.guidance_interval):
            raise ValueError(f"{self.model} cannot be offered with guidance in {self.guidance_interval}")
        if not 0 <= self.clip_skip <= MAX_CLIP_SKIP:
            raise ValueError(f"{self.model} cannot be offered with a clip_skip of {self.clip_skip}")
        if not 0 <= self.references <= MAX_REFERENCES:
            raise ValueError(f"{self.model} cannot be offered with {self.references} reference pictures")
        if strangers := [name for _, name in self.control_types if name not in self.controlnets]:
            raise ValueError(f"{self.model} has control types of {strangers}, but no such ControlNets")

    def reaches(self, lane: Lane) -> bool:
        """Whether a request within this offer can be in `lane`."""
        known = lane.model == self.model and (lane.width, lane.height) in self.sizes
        return known and lane.references <= self.references

    def controlnet_of(self, kind: ControlType) -> str:
        """Return the name of the network for control pictures of a type; the first where any type is taken.

        Raises InvalidRequest where no network takes it.
        """
        if not self.controlnets:
            raise InvalidRequest("no_controlnets", model=self.model)
        if not self.control_types:
            return self.controlnets[0]
        if (found := dict(self.control_types).get(kind)) is None:
            choices = ", ".join(each for each, _ in self.control_types)
            raise InvalidRequest("control_type", value=kind, model=self.model, choices=choices)
        return found

    def larger_sizes(self, size: tuple[int, int]) -> list[tuple[int, int]]:
        """Return the offered sizes (width, height) of the same shape that are larger, the smallest first.

        A larger size has more pixels, and no side that is shorter.
        """
        larger = [other for other in self.sizes if _is_larger(other, size) and same_shape(other, size)]
        return sorted(larger, key=math.prod)

    def check(self, request: Request) -> Request:
        """Return `request`, or raise `InvalidRequest` for the first thing that is wrong with it."""
        _check_prompts(request)
        self._check_steps(request.num_inference_steps)
        if not _is_number(request.guidance_scale, most=MAX_GUIDANCE_SCALE):
            raise InvalidRequest("guidance", value=request.guidance_scale, limit=f"{MAX_GUIDANCE_SCALE:g}")
        _check_interval("guidance_interval", request.guidance_interval)
        self._check_clip_skip(request.clip_skip)
        _check_seeds(request)
        if (size := (request.width, request.height)) not in self.sizes:
            choices = ", ".join(map(_size_text, self.sizes))
            raise InvalidRequest("size", model=self.model, value=_size_text(size), choices=choices)
        if self.samplers and request.sampler not in self.samplers:
            choices = ", ".join(SAMPLER_NAMES[sampler] for sampler in self.samplers)
            value = SAMPLER_NAMES.get(request.sampler, request.sampler)
            raise InvalidRequest("unsuited_sampler", value=value, model=self.model, choices=choices)
        _check_start(request)
        for lora in request.loras:
            self._check_lora(lora)
        if (count := len(request.references)) > self.references:
            problem = "references" if self.references else "no_references"
            raise InvalidRequest(problem, count=count, model=self.model, limit=self.references)
        if request.control_image is not None or request.controlnet:
            self._check_control(request)
        _check_strength(request.image_prompt_strength, "image_prompt_strength")
        if request.image_prompt is not None and not self.image_prompts:
            raise InvalidRequest("no_image_prompts", model=self.model)
        if request.second_pass is not None:
            self._check_second_pass(request, request.second_pass)
        return request

    def _check_steps(self, steps: int) -> None:
        if not _is_whole(steps, least=1, most=self.max_steps):
            raise InvalidRequest("steps", value=steps, limit=self.max_steps)

    def _check_clip_skip(self, clip_skip: int) -> None:
        most = max(self.most_skipped, self.clip_skip)
        if clip_skip and not most:
            raise InvalidRequest("no_clip_skip", model=self.model)
        if not _is_whole(clip_skip, most=most):  # people count as AUTOMATIC1111's web UI does
            value = clip_skip + 1 if isinstance(clip_skip, int) else clip_skip
            raise InvalidRequest("clip_skip", value=value, model=self.model, limit=most + 1)

    def _check_second_pass(self, request: Request, second: SecondPass) -> None:
        larger, size = self.larger_sizes((request.width, request.height)), (second.width, second.height)
        if not larger:
            raise InvalidRequest("no_second_pass", model=self.model)
        if size not in larger:
            choices = ", ".join(map(_size_text, larger))
            raise InvalidRequest("second_pass_size", value=_size_text(size), choices=choices)
        self._check_steps(second.num_inference_steps)
        _check_strength(second.strength)

    def _check_control(self, request: Request) -> None:
        if request.control_type not in list(ControlType):
            choices = ", ".join(ControlType)
            raise InvalidRequest(
                "control_type", value=request.control_type, model=self.model, choices=choices
            )
        usual = self.controlnet_of(request.control_type)
        if request.controlnet not in ("", *self.controlnets):
            choices = ", ".join(self.controlnets)
            raise InvalidRequest("controlnet", value=request.controlnet, choices=choices)
        if self.control_types and request.controlnet not in ("", usual):
            choices = ", ".join(each for each, name in self.control_types if name == request.controlnet)
            raise InvalidRequest(
                "control_type", value=request.control_type, model=self.model, choices=choices
            )
        strength = request.control_strength
        if not _is_number(strength, most=MAX_CONTROL_STRENGTH):
            raise InvalidRequest("control_strength", value=strength, limit=f"{MAX_CONTROL_STRENGTH:g}")
        _check_interval("control_interval", request.control_interval)

    def _check_lora(self, lora: Lora) -> None:
        if not self.loras:
            raise InvalidRequest("no_loras", model=self.model)
        if lora.name not in self.loras:
            raise InvalidRequest("lora", value=lora.name, choices=", ".join(self.loras))
        if not _is_number(lora.weight, least=-MAX_LORA_WEIGHT, most=MAX_LORA_WEIGHT):
            raise InvalidRequest("lora_weight", value=lora.weight, limit=f"{MAX_LORA_WEIGHT:g}")


def _is_number(value: object, *, least: float = 0, most: float = 1) -> bool:
    """Whether it is a number within these limits; a caller in Python may give anything."""
    return isinstance(value, int | float | np.integer | np.floating) and bool(least <= value <= most)


def _is_whole(value: object, *, least: int = 0, most: int) -> bool:
    """Whether it is a whole number within these limits."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and _is_number(value, least=least, most=most)


def _is_interval(interval: object) -> bool:
    """Whether it is a part of 0 to 1; a caller in Python may give anything."""
    if not isinstance(interval, tuple | list) or len(interval) != 2:
        return False
    start, stop = interval
    return all(isinstance(each, int | float) for each in interval) and 0 <= start < stop <= 1


def _check_interval(problem: str, interval: object) -> None:
    """Raise the InvalidRequest `problem` for anything but a part of 0 to 1."""
    if not _is_interval(interval):
        given = list(interval) if isinstance(interval, tuple | list) else [interval]
        start, *stop = (f"{each:g}" if isinstance(each, int | float) else str(each) for each in given or "?")
        raise InvalidRequest(problem, start=start, stop=", ".join(stop) or "?")


def _check_seeds(request: Request) -> None:
    if len(request.variations) > MAX_VARIATIONS:
        raise InvalidRequest("variations", count=len(request.variations), limit=MAX_VARIATIONS)
    for seed in (request.seed, *(variation.seed for variation in request.variations)):
        if not _is_whole(seed, most=MAX_SEED):
            raise InvalidRequest("seed", value=seed, limit=MAX_SEED)
    for variation in request.variations:
        if not _is_number(variation.strength):
            raise InvalidRequest("variation_strength", value=variation.strength)


def _check_prompts(request: Request) -> None:
    if not request.prompt.strip():
        raise InvalidRequest("empty_prompt")
    if not any(map(_says_something, request.prompt)):
        raise InvalidRequest("wordless_prompt")
    for text in (request.prompt, request.negative_prompt):
        if len(text) > MAX_PROMPT_CHARACTERS:
            raise InvalidRequest("long_prompt", characters=len(text), limit=MAX_PROMPT_CHARACTERS)


def _says_something(character: str) -> bool:
    """Whether it is a letter, a digit, a combining mark, or a symbol such as an emoji or a currency sign."""
    category = unicodedata.category(character)
    return category[0] in "LNM" or category in ("So", "Sc")


def _check_start(request: Request) -> None:
    _check_strength(request.strength)
    if request.mask_image is not None and request.init_image is None:
        raise InvalidRequest("mask_alone")


def _check_strength(strength: float, problem: str = "strength") -> None:
    if not _is_number(strength):
        raise InvalidRequest(problem, value=strength)


def _size_text(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _is_larger(size: tuple[int, int], than: tuple[int, int]) -> bool:
    return size != than and size[0] >= than[0] and size[1] >= than[1]


def same_shape(size: tuple[int, int], aspect: tuple[int, int]) -> bool:
    """Return whether (width, height) `size` has about the proportions of `aspect`."""
    return abs(math.log(size[0] * aspect[1] / (size[1] * aspect[0]))) < SHAPE_TOLERANCE


class Trouble(StrEnum):
    """Why a request was started again."""

    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of one image, in steps of both passes: at its seat, after each run, and at a restart.

    `trouble` says why the image was started again, `device_seconds` is its share of the devices' time so far.
    `preview` is a small picture, uint8 (height, width, 3), in reports for which a preview was due.
    """

    step: int
    steps: int
    trouble: Trouble | None = None
    preview: npt.NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)
    in_second_pass: bool = False
    device_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PromptFacts:
    """Facts of a prompt: how many `tokens` it has, how many there is room for, and the end that was cut.

    `unknown` are words that the checkpoint does not know; none of a checkpoint without a list of its words.
    """

    tokens: int
    limit: int
    cut: str = ""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SafetyScores:
    """Scores of the checkpoint's safety checker, one per concept, above 0 where the concept is found.

    `concepts` and `special_care` are cosine similarities less their thresholds, in the checker's order.
    """

    flagged: bool
    concepts: tuple[float, ...] = ()
    special_care: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Image:
    """A finished picture: `pixels` is uint8 `(height, width, 3)`.

    `seconds` is the time from taking a seat to the finished pixels, `device_seconds` is its share of the
    devices' time. `prompt` and `negative_prompt` are facts of the texts. `safety` is None without a safety
    checker, `classified` without a picture classifier. `int8` are the parts of the model whose weights were
    INT8.
    """

    request: Request
    pixels: npt.NDArray[np.uint8] = field(repr=False)
    seconds: float
    prompt: PromptFacts | None = None
    negative_prompt: PromptFacts | None = None
    safety: SafetyScores | None = None
    classified: PictureScores | None = None
    device_seconds: float = 0.0
    int8: tuple[Int8, ...] = ()


OnProgress = Callable[[Progress], None]
