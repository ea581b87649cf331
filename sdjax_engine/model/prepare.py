"""Requests made ready for the devices: the sampler's table, token ids, LoRA rows, the start picture.

No JAX here: the result is plain data and arrays of the host.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.model.pictures import Fitted, control_pixels, fitted, prompt_pixels, references_of
from sdjax_engine.request import WHOLE, Int8, Offer, PromptFacts, Request, Sampler
from sdjax_engine.samplers import MAX_ROWS, SAMPLERS, SchedulerConfig, pipeline_config, plan
from sdjax_engine.samplers.tables import Column, Table

if TYPE_CHECKING:
    from sdjax_engine.families.family import Networks
    from sdjax_engine.model.loras import LoraBank, SeatRows
    from sdjax_engine.weights import Checkpoint

NOT_GUIDED: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
NO_LORAS: SeatRows = (np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text, the key of its encoding: what the text encoders read of it, and the LoRAs that adapt them.

    `lora_rows` are (rank,) int32 and `lora_scales` (rank,) float32, as bytes.
    """

    read: Hashable = field(repr=False)
    lora_rows: bytes = field(default=b"", repr=False)
    lora_scales: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedControl:
    """A control picture, uint8 (height, width, 3), the number of its type, and its ControlNet's name.

    `first` and `end` are the evaluations in which it has any strength, up to, not including, `end`.
    """

    pixels: npt.NDArray[np.uint8] = field(repr=False)
    kind: int
    controlnet: str
    first: int
    end: int


@dataclass(frozen=True, kw_only=True)
class PreparedImagePrompt:
    """A picture that is a prompt, uint8 (side, side, 3) as bytes, and how strongly it works."""

    pixels: bytes = field(repr=False)
    strength: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """The inputs of the compiled programs for one request.

    `texts` are the negative prompt and the prompt, `facts` their counts of tokens; `rows` is the sampler's
    table of `evaluations` rows, padded to (MAX_ROWS, ROW); `estimates` are the weights by which a preview
    estimates the finished latents after each evaluation, (evaluations, 2); `loras` are the rows of the LoRA
    bank that the seat gathers. `guided` says of each evaluation whether it needs the negative prompt; those
    beyond its end do not. `second` is the second pass. Its `picture` is known after the first; before, it is
    what a mask keeps, else None. `control` and `image_prompt` are None without such a picture, and where it
    has no strength. `int8` are the parts of the model whose weights are INT8.
    """

    request: Request
    texts: tuple[Text, Text] = field(repr=False)
    facts: tuple[PromptFacts, PromptFacts]
    picture: Fitted | None
    rows: npt.NDArray[np.float32] = field(repr=False)
    estimates: npt.NDArray[np.float32] = field(repr=False)
    evaluations: int
    init_noise_sigma: float
    init_latent_scale: float
    loras: SeatRows = field(repr=False)
    guided: npt.NDArray[np.bool_] = field(default_factory=lambda: NOT_GUIDED, repr=False)
    control: PreparedControl | None = None
    image_prompt: PreparedImagePrompt | None = None
    references: tuple[Fitted, ...] = ()
    int8: tuple[Int8, ...] = ()
    second: Prepared | None = field(default=None, repr=False)


class Preparation:
    """Prepares the requests of one offer for one checkpoint; may be used from any thread.

    Raises UnreadableCheckpoint where the offer's sampler or steps do not suit the checkpoint.
    """

    def __init__(self, offer: Offer, checkpoint: Checkpoint, networks: Networks, loras: LoraBank) -> None:
        schedule = pipeline_config(
            checkpoint.scheduler_config, checkpoint.family.corrections(checkpoint.pipeline)
        )
        self._planner = Planner(offer, schedule)
        self._offer = offer
        self._networks = networks
        self._loras = loras
        self._adapts_texts = loras.rank_of(*networks.texts.components) > 0

    def prepare(self, request: Request, start: Fitted | None = None) -> Prepared:
        """Plan and tokenize a request that `Offer.check` has passed; raises InvalidRequest.

        `start` is `fitted(request)` where it is known.
        """
        if start is None and request.init_image is not None:
            start = fitted(request)
        if start is not None:
            self._check_mask(start)
        first = self._prepared(request, start, from_picture=start is not None)
        if request.second_pass is None:
            return first
        second = self._prepared(request.second, kept_in_second_pass(request), from_picture=True)
        return replace(first, second=second)

    def _check_mask(self, start: Fitted) -> None:
        """Raise InvalidRequest if the mask covers no latent: each has the mask of its first pixel."""
        step = self._networks.latents.cell
        if not start.mask[::step, ::step].any():
            raise InvalidRequest("mask_cut")

    def _prepared(self, request: Request, start: Fitted | None, *, from_picture: bool) -> Prepared:
        """Return one pass; `from_picture` says that it starts from a picture, perhaps not known yet."""
        table = self._table(request, from_picture=from_picture)
        loras = self._loras.seat_rows(request.loras)
        texts, facts = self._texts(request, loras)
        return Prepared(
            request=request,
            texts=texts,
            facts=facts,
            picture=start,
            rows=table.padded(MAX_ROWS),
            estimates=table.estimates,
            evaluations=table.evaluations,
            init_noise_sigma=table.init_noise_sigma,
            init_latent_scale=table.init_latent_scale,
            loras=loras,
            guided=table.rows[:, Column.GUIDANCE] > 1 if self._has_two_texts(request) else NOT_GUIDED,
            control=self._control(request, table),
            image_prompt=self._image_prompt(request),
            references=references_of(request),
            int8=self._offer.int8,
        )

    def _image_prompt(self, request: Request) -> PreparedImagePrompt | None:
        """Return the picture that is a prompt; raises InvalidRequest."""
        data, strength, prompts = (
            request.image_prompt,
            request.image_prompt_strength,
            self._networks.image_prompts,
        )
        if data is None or not strength or prompts is None:
            return None
        return PreparedImagePrompt(pixels=prompt_pixels(data, prompts.side), strength=strength)

    def _control(self, request: Request, table: Table) -> PreparedControl | None:
        """Return the control picture of one pass; raises InvalidRequest."""
        strong = np.flatnonzero(table.rows[:, Column.CONTROL])
        if request.control_image is None or not strong.size or self._networks.control is None:
            return None
        types, kind = self._networks.control.types, request.control_type
        if kind not in types:
            choices = ", ".join(types)
            raise InvalidRequest("control_type", value=kind, model=request.model, choices=choices)
        return PreparedControl(
            pixels=control_pixels(request),
            kind=types[kind],
            controlnet=request.controlnet or self._offer.controlnet_of(kind),
            first=int(strong[0]),
            end=int(strong[-1]) + 1,
        )

    def _table(self, request: Request, *, from_picture: bool) -> Table:
        """Return the sampler's table of one pass, with its guidance and the strength of control."""
        table = self._planner.table(request, from_picture=from_picture)
        guidance = self._networks.guidance
        # As in the reference, a network that is given the scale has it in every evaluation.
        interval = WHOLE if guidance.given else request.guidance_interval
        table = table.guided(guidance.scale(request), interval)
        if request.control_image is None:
            return table
        return table.controlled(request.control_strength, request.control_interval)

    def _has_two_texts(self, request: Request) -> bool:
        """Whether a pass needs its negative prompt."""
        return request.guided and self._networks.guidance.by_negative

    def _texts(
        self, request: Request, loras: SeatRows
    ) -> tuple[tuple[Text, Text], tuple[PromptFacts, PromptFacts]]:
        """Return the negative prompt and the prompt as the text encoders read them, and the facts of both."""
        read, skip = self._networks.texts.read, request.clip_skip
        negative, facts_of_negative = read(request.negative_prompt, negative=True, clip_skip=skip)
        positive, facts = read(request.prompt, negative=False, clip_skip=skip)
        lora_rows, lora_scales = loras if self._adapts_texts else NO_LORAS
        adapted = partial(Text, lora_rows=lora_rows.tobytes(), lora_scales=lora_scales.tobytes())
        first = negative if self._has_two_texts(request) else positive
        return (adapted(read=first), adapted(read=positive)), (facts_of_negative, facts)


def kept_in_second_pass(request: Request) -> Fitted | None:
    """Return the start picture and the mask in the size of the second pass; None without a mask."""
    if request.mask_image is None:
        return None
    size = request.second
    return fitted(replace(request, height=size.height, width=size.width))


class Planner:
    """Plans the requests of one offer on the schedule of one checkpoint.

    `samplers` are those that suit the schedule, with their settings. Raises UnreadableCheckpoint, naming the
    key of `scheduler_config` that is the reason, where the offer's own sampler or number of steps does not
    suit it.
    """

    def __init__(self, offer: Offer, scheduler_config: Mapping[str, Any]) -> None:
        self._offer = offer
        self.samplers = suited_samplers(offer.num_inference_steps, scheduler_config)
        try:
            plan(offer.sampler, offer.num_inference_steps, scheduler_config)
        except UnreadableCheckpoint as error:
            others = f" ({', '.join(self.samplers)} would suit)" if self.samplers else ""
            raise UnreadableCheckpoint(
                f"{offer.model} cannot be painted with its sampler {offer.sampler}{others}: {error}"
            ) from error
        except InvalidRequest as error:
            raise UnreadableCheckpoint(
                f"{offer.model} cannot be painted in its {offer.num_inference_steps} steps: "
                f"scheduler_config.json has num_train_timesteps = {error.details['limit']}"
            ) from error

    def table(self, request: Request, *, from_picture: bool = False) -> Table:
        """Return the table of a request within the offer; raises InvalidRequest."""
        config = self.samplers.get(request.sampler)
        if config is None:
            choices = ", ".join(self.samplers)
            raise InvalidRequest(
                "unsuited_sampler", value=request.sampler, model=request.model, choices=choices
            )
        steps, strength = request.num_inference_steps, None
        # A mask with full strength starts from noise, as in the reference: the kept part is blended in.
        from_picture = from_picture or request.init_image is not None
        if from_picture and (request.mask_image is None or request.strength != 1):
            strength = request.strength
        try:
            return config.plan(steps, strength=strength, pixels=request.height * request.width)
        except UnreadableCheckpoint:  # so many steps leave the schedule, though the sampler suits it
            limit = self._most_steps(config)
            raise InvalidRequest("steps", value=steps, limit=limit) from None

    def _most_steps(self, config: SchedulerConfig) -> int:
        """Return the most steps of the offer in which the sampler suits the schedule."""
        return max(steps for steps in range(1, self._offer.max_steps + 1) if suits(config, steps))


def suited_samplers(
    num_inference_steps: int, scheduler_config: Mapping[str, Any]
) -> dict[Sampler, SchedulerConfig]:
    """Return the samplers that suit a checkpoint's schedule in so many steps, with their settings."""
    found = {}
    for sampler in Sampler:
        with suppress(UnreadableCheckpoint):
            found[sampler] = SAMPLERS[sampler].read(scheduler_config)
    return {sampler: config for sampler, config in found.items() if suits(config, num_inference_steps)}


def suits(config: SchedulerConfig, num_inference_steps: int) -> bool:
    """Whether a sampler has a table of so many steps."""
    try:
        config.plan(num_inference_steps)
    except (UnreadableCheckpoint, InvalidRequest):
        return False
    return True
