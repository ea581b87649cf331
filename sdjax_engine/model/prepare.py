"""Requests made ready for the devices: the sampler's table, token ids, LoRA rows, the start picture.

No JAX here: the result is plain data and arrays of the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.model.pictures import Fitted, fitted
from sdjax_engine.prompts import TokenizedText, padded_text, read_prompt, tokens_of_each, unknown_words
from sdjax_engine.request import WHOLE, Offer, PromptFacts, Request, Sampler
from sdjax_engine.samplers import MAX_ROWS, SAMPLERS, SchedulerConfig, pipeline_config, plan
from sdjax_engine.samplers.tables import Column, Table

if TYPE_CHECKING:
    from sdjax_engine.denoising.traced import Networks
    from sdjax_engine.model.loras import LoraBank, SeatRows
    from sdjax_engine.weights import Checkpoint

NOT_GUIDED: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
NO_LORAS: SeatRows = (np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """The inputs of the compiled programs for one request.

    `texts` are the negative prompt and the prompt, `facts` their counts of tokens; `rows` is the sampler's
    table of `evaluations` rows, padded to (MAX_ROWS, ROW); `estimates` are the weights by which a preview
    estimates the finished latents after each evaluation, (evaluations, 2); `time_ids` are the sizes that the
    UNet is conditioned on, `loras` the rows of the LoRA bank that the seat gathers. `guided` says of each
    evaluation whether it needs the negative prompt; those beyond its end do not. `second` is the second
    pass. Its `picture` is known after the first; before, it is what a mask keeps, else None.
    """

    request: Request
    texts: tuple[TokenizedText, TokenizedText] = field(repr=False)
    facts: tuple[PromptFacts, PromptFacts]
    picture: Fitted | None
    rows: npt.NDArray[np.float32] = field(repr=False)
    estimates: npt.NDArray[np.float32] = field(repr=False)
    evaluations: int
    init_noise_sigma: float
    init_latent_scale: float
    time_ids: tuple[float, ...]
    loras: SeatRows = field(repr=False)
    guided: npt.NDArray[np.bool_] = field(default_factory=lambda: NOT_GUIDED, repr=False)
    second: Prepared | None = field(default=None, repr=False)


class Preparation:
    """Prepares the requests of one offer for one checkpoint; may be used from any thread.

    `ids_shape` is the shape of a text's ids, (encoders, chunks, length). Raises UnreadableCheckpoint where
    the offer's sampler or steps do not suit the checkpoint.
    """

    def __init__(self, offer: Offer, checkpoint: Checkpoint, networks: Networks, loras: LoraBank) -> None:
        schedule = pipeline_config(checkpoint.scheduler_config, pipeline=checkpoint.pipeline)
        self._planner = Planner(offer, schedule)
        self._tokenizers = [encoder.tokenizer for encoder in checkpoint.text_encoders]
        self._known_words = checkpoint.known_words
        self._zeros_for_empty_prompt = checkpoint.force_zeros_for_empty_prompt
        self._networks = networks
        self._loras = loras
        self._adapts_texts = loras.rank_of_texts > 0
        self._vae_scale_factor = checkpoint.vae_scale_factor
        self.ids_shape = (len(self._tokenizers), offer.prompt_chunks, self._tokenizers[0].length)

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
        step = self._vae_scale_factor
        if not start.mask[::step, ::step].any():
            raise InvalidRequest("mask_cut")

    def _prepared(self, request: Request, start: Fitted | None, *, from_picture: bool) -> Prepared:
        """Return one pass; `from_picture` says that it starts from a picture, perhaps not known yet."""
        table = self._table(request, from_picture=from_picture)
        loras = self._loras.seat_rows(request.loras)
        texts, facts = self._texts(request, loras)
        height, width = request.height, request.width
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
            # The sizes of a picture that was neither resized nor cropped.
            time_ids=(height, width, 0, 0, height, width) if self._networks.takes_sizes else (),
            loras=loras,
            guided=table.rows[:, Column.GUIDANCE] > 1 if self._has_two_texts(request) else NOT_GUIDED,
        )

    def _table(self, request: Request, *, from_picture: bool) -> Table:
        """Return the sampler's table of one pass, with its guidance."""
        table = self._planner.table(request, from_picture=from_picture)
        # As in the reference, a network that is conditioned on the scale has it in every evaluation.
        interval = WHOLE if self._networks.takes_guidance else request.guidance_interval
        return table.guided(request.guidance_scale, interval)

    def _has_two_texts(self, request: Request) -> bool:
        """Whether a pass needs its negative prompt.

        A lane without guidance has one text, and so has a network that is conditioned on the guidance.
        """
        return request.guided and not self._networks.takes_guidance

    def _texts(
        self, request: Request, loras: SeatRows
    ) -> tuple[tuple[TokenizedText, TokenizedText], tuple[PromptFacts, PromptFacts]]:
        """Return the negative prompt and the prompt as token ids, and the facts of both."""
        prompts = [read_prompt(text) for text in (request.negative_prompt, request.prompt)]
        negative, positive = (
            tokens_of_each(self._tokenizers, prompt, max_chunks=self.ids_shape[1]) for prompt in prompts
        )
        facts_of_negative, facts_of_positive = (
            PromptFacts(
                tokens=first.count,
                limit=first.limit,
                cut=first.cut,
                unknown=unknown_words(" ".join(piece.text for piece in prompt.pieces), self._known_words),
            )
            for prompt, (first, *_) in zip(prompts, (negative, positive), strict=True)
        )
        lora_rows, lora_scales = loras if self._adapts_texts else NO_LORAS
        padded = partial(padded_text, shape=self.ids_shape, lora_rows=lora_rows, lora_scales=lora_scales)
        text = padded(positive, silent=False)
        silent = self._zeros_for_empty_prompt and not request.negative_prompt.strip()
        negative_text = padded(negative, silent=silent) if self._has_two_texts(request) else text
        return (negative_text, text), (facts_of_negative, facts_of_positive)


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
            return config.plan(steps, strength=strength)
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
