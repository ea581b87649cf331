"""Jobs and images as plain data, their states and the transitions allowed between them; no I/O.

waiting ──► running ──► done
   ▲  │        │  └───► failed
   │  └──────┐ │
   └─────────┼─┘ (lease expired, given back)
             └──► cancelled          a final state never changes
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from sdjax_engine.request import Lane, Request, Sampler

MAX_VARIANTS = 9


class State(StrEnum):
    """Where an image, or a job as a whole, stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (State.DONE, State.FAILED, State.CANCELLED)


ALLOWED: dict[State, frozenset[State]] = {
    State.WAITING: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
    State.RUNNING: frozenset({State.WAITING, State.DONE, State.FAILED, State.CANCELLED}),
    State.DONE: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


def state_of_job(states: list[State]) -> State:
    """The state of a job from its images': final only when all are, done when any image is."""
    if any(state is State.RUNNING for state in states):
        return State.RUNNING
    if any(state is State.WAITING for state in states):
        return State.RUNNING if any(state.final for state in states) else State.WAITING
    for state in (State.DONE, State.FAILED):
        if state in states:
            return state
    return State.CANCELLED


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that a job's pictures depend on: image i has seed `seed + i`, modulo 2**32."""

    prompt: str
    negative_prompt: str = ""
    seed: int
    variants: int = 1
    num_inference_steps: int
    guidance_scale: float
    sampler: Sampler
    width: int
    height: int
    model: str

    def request(self, index: int) -> Request:
        """The request of the image at `index`."""
        return Request(
            prompt=self.prompt,
            negative_prompt=self.negative_prompt,
            seed=(self.seed + index) % 2**32,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            sampler=self.sampler,
            width=self.width,
            height=self.height,
            model=self.model,
        )

    @property
    def lane(self) -> Lane:
        return self.request(0).lane

    @property
    def cost(self) -> float:
        """Cost of one image: steps × pixels, in millions."""
        return self.num_inference_steps * self.width * self.height / 1e6


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a job came from and where its answer goes: ids only, never a live Discord object.

    `interaction_token` is good until `token_expires_at` (seconds since the epoch).
    """

    interaction_id: int
    interaction_token: str = field(repr=False)  # whoever reads it in a log could answer as the bot
    token_expires_at: float
    application_id: int
    user_id: int
    guild_id: int | None
    channel_id: int
    locale: str
    private: bool


@dataclass(frozen=True, kw_only=True)
class ImageRecord:
    """One picture of a job as the store knows it; `artifact` names its file once it is done."""

    id: int
    job_id: str
    index: int
    seed: int
    state: State
    step: int
    artifact: str | None
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one person asked for, with its images in order.

    `deleted_at` is set once the person has deleted the result: its files are gone, the recipe stays.
    """

    id: str
    recipe: Recipe
    origin: Origin
    state: State
    created_at: float
    started_at: float | None
    finished_at: float | None
    message_id: int | None
    images: tuple[ImageRecord, ...]
    deleted_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One image leased to a worker. Every verb after `claim` carries `fencing_token`."""

    image_id: int
    job_id: str
    request: Request
    fencing_token: int
    expires_at: float


@dataclass(frozen=True, kw_only=True)
class Position:
    """How a job stands in the queue.

    `place` is 1 for the job whose image is taken next, and 0 once nothing of the job waits any more;
    `ahead` images of other jobs come first; `seconds` until it starts, None while that is not known.
    """

    place: int
    ahead: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Hard caps on waiting jobs: of one person, and in all. None means no cap."""

    waiting_per_user: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A job's result on its way to its message; `attempts` have been made so far."""

    id: int
    job: Job
    attempts: int
