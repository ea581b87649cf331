"""Which samplers suit a checkpoint's schedule, and the table of a request on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdjax_engine.request import InvalidRequest, Offer, Request, Sampler, UnreadableCheckpoint
from sdjax_engine.samplers import plan
from sdjax_engine.samplers.tables import Table


class Planner:
    """Plans the requests of one offer on the schedule of one checkpoint.

    `samplers` are those that suit the schedule. Raises UnreadableCheckpoint, naming the key of
    `scheduler_config` that is in the way, where the offer's own sampler or number of steps does not.
    """

    def __init__(self, offer: Offer, scheduler_config: Mapping[str, Any]) -> None:
        self._offer = offer
        self._scheduler_config = scheduler_config
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

    def table(self, request: Request) -> Table:
        """Return the request's table; raises InvalidRequest for a sampler or steps that do not suit."""
        if request.sampler not in self.samplers:
            choices = ", ".join(self.samplers)
            raise InvalidRequest(
                "unsuited_sampler", value=request.sampler, model=request.model, choices=choices
            )
        strength = _strength(request)
        try:
            return plan(
                request.sampler, request.num_inference_steps, self._scheduler_config, strength=strength
            )
        except UnreadableCheckpoint:  # so many steps leave the schedule, though the sampler suits it
            raise InvalidRequest(
                "steps", value=request.num_inference_steps, limit=self._most_steps(request.sampler)
            ) from None

    def _most_steps(self, sampler: Sampler) -> int:
        return max(
            steps
            for steps in range(1, self._offer.max_steps + 1)
            if _suits(sampler, steps, self._scheduler_config)
        )


def suited_samplers(num_inference_steps: int, scheduler_config: Mapping[str, Any]) -> tuple[Sampler, ...]:
    """Return the samplers that suit a checkpoint's schedule in so many steps."""
    return tuple(sampler for sampler in Sampler if _suits(sampler, num_inference_steps, scheduler_config))


def _suits(sampler: Sampler, num_inference_steps: int, scheduler_config: Mapping[str, Any]) -> bool:
    try:
        plan(sampler, num_inference_steps, scheduler_config)
    except (UnreadableCheckpoint, InvalidRequest):
        return False
    return True


def _strength(request: Request) -> float | None:
    """Return how far to leave the request's picture, None to start from nothing but noise.

    A mask with full strength starts from noise, as in the reference: what is kept is blended in.
    """
    if request.init_image is None or (request.mask_image is not None and request.strength == 1):
        return None
    return request.strength
