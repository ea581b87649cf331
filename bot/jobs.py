"""Jobs and images as plain data, their states and the transitions allowed between them; no I/O.

waiting ──► running ──► done
   ▲  │        │  └───► failed
   │  └──────┐ │
   └─────────┼─┘ (lease expired, given back)
             └──► cancelled          a final state never changes
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from sdjax_engine.request import Lane, Lora, Offer, PromptFacts, Request, SafetyScores, Sampler

MAX_VARIANTS = 9
BATCHES_AHEAD = 2  # that a worker claims of each lane: one being painted, one ready when it ends
SHAPE_TOLERANCE = 0.03  # of the logarithms of their proportions: 1216x832 counts as 3:2


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
    """All that a job's pictures depend on: image i has seed `seed + i`, modulo 2**32.

    `init_image` and `mask_image` name the artifacts of the picture to start from and of its mask; `strength`
    means something only with the first.
    """

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
    init_image: str | None = None
    mask_image: str | None = None
    strength: float = 1.0
    loras: tuple[Lora, ...] = ()

    def request(self, index: int) -> Request:
        """The request of the image at `index`, without the bytes of the pictures it starts from."""
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
            strength=self.strength,
            loras=self.loras,
        )

    @property
    def start_pictures(self) -> tuple[str, ...]:
        """The artifacts that must be there when it is painted."""
        return tuple(name for name in (self.init_image, self.mask_image) if name is not None)

    @property
    def steps(self) -> int:
        """How many steps are made: those that `strength` leaves of all, where a picture is started from."""
        if self.init_image is None:
            return self.num_inference_steps
        return max(1, min(self.num_inference_steps, int(self.num_inference_steps * self.strength)))

    @property
    def lane(self) -> Lane:
        return self.request(0).lane

    @property
    def cost(self) -> float:
        """Cost of one image: steps made × pixels, in millions."""
        return self.steps * self.width * self.height / 1e6


class Showing(StrEnum):
    """How a picture is shown: as it is, covered until somebody uncovers it, or not at all."""

    SHOW = "show"
    SPOILER = "spoiler"
    WITHHOLD = "withhold"


@dataclass(frozen=True, kw_only=True)
class SafetyPolicy:
    """How pictures are shown that the safety checker flags, in age-restricted channels and elsewhere."""

    elsewhere: Showing = Showing.WITHHOLD
    age_restricted: Showing = Showing.SPOILER

    def showing(self, safety: SafetyScores | None, *, age_restricted: bool) -> Showing:
        """How a picture of these scores is shown; one that was not looked at is shown as it is."""
        if safety is None or not safety.flagged:
            return Showing.SHOW
        return self.age_restricted if age_restricted else self.elsewhere


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a job came from and where its answer goes: ids only, never a live Discord object.

    `interaction_token` is good until `token_expires_at` (seconds since the epoch). `front` is the process
    that answers, None for the first one that looks. `message_id` is the answer's, where Discord has told
    it: it is stored as the job's, so that whoever comes after a kill finds the message that people see.
    `user_name` is what the person is called there, for moderators' choices; empty where it is not known.
    `age_restricted` is whether Discord shows the channel to adults alone.
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
    age_restricted: bool = False
    front: str | None = None
    message_id: int | None = field(default=None, compare=False)
    user_name: str = ""


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What painting a picture showed: what became of its two texts, and what the safety checker found."""

    prompt: PromptFacts | None = None
    negative_prompt: PromptFacts | None = None
    safety: SafetyScores | None = None


@dataclass(frozen=True, kw_only=True)
class ImageRecord:
    """One picture of a job as the store knows it.

    Once it is done `artifact` names its file, and `notes` tell what is to be said of it. `trouble` is why a
    running one began anew, until it is further than it was then. `furthest` is the most steps that it has
    ever made: `step` begins anew with each attempt. A withheld picture is done and has no file.
    """

    id: int
    job_id: str
    index: int
    seed: int
    state: State
    step: int
    artifact: str | None
    failure: str | None
    trouble: str | None = None
    notes: Notes = field(default_factory=Notes)
    furthest: int = 0
    showing: Showing = Showing.SHOW


@dataclass(frozen=True, kw_only=True)
class Work:
    """How far a job is: `step` of the `steps` of all its images together, `done` of its `count` images."""

    step: int
    steps: int
    done: int
    count: int

    @property
    def begun(self) -> bool:
        return self.step > 0 or self.done > 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one person asked for, with its images in order.

    `deleted_at` is set once the person has deleted the result: its files are gone, the recipe stays.
    `slowed` tells that its person had more waiting than is painted at full share. `message_channel_id` is
    where the message is, None for the channel that the job was asked for in.
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
    slowed: bool = False
    message_channel_id: int | None = None

    @property
    def work(self) -> Work:
        """How far it is. Steps never become fewer: an image that has ended, in whatever way, counts whole."""
        each = self.recipe.steps
        steps = (each if image.state.final else min(each, image.furthest) for image in self.images)
        return Work(
            step=sum(steps),
            steps=each * len(self.images),
            done=sum(image.state is State.DONE for image in self.images),
            count=len(self.images),
        )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One image leased to a worker. Every verb after `claim` carries `fencing_token`.

    `request` has all but the bytes of the pictures to start from: their artifacts are named beside it.
    `steps` are those that will be made.
    """

    image_id: int
    job_id: str
    request: Request
    steps: int
    init_image: str | None = None
    mask_image: str | None = None
    age_restricted: bool = False
    fencing_token: int
    expires_at: float


class FileState(StrEnum):
    """Where a file stands: kept ──► going (being deleted) ──► gone ──► wanted (back) ──► kept."""

    KEPT = "kept"
    GOING = "going"
    GONE = "gone"
    WANTED = "wanted"


@dataclass(frozen=True, kw_only=True)
class Painter:
    """What a file was painted by: the image at `index` of a job."""

    job_id: str
    index: int
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class Lost:
    """How files that are not there stand: wanted `since` then, and why they cannot be painted, if so."""

    since: float
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class LostFile:
    """A file that somebody waits for, leased to a worker that paints it again."""

    name: str
    painter: Painter


@dataclass(frozen=True, kw_only=True)
class Position:
    """How a job stands in the queue.

    `place` is 1 for the job whose image is taken next, and 0 once nothing of the job waits any more;
    `ahead` images of its lane come first; `seconds` until it starts, 0 once it has; `end` seconds until its
    last picture is painted. Both are None while they are not known.
    """

    place: int
    ahead: int
    seconds: float | None
    end: float | None = None


@dataclass(frozen=True, kw_only=True)
class Caps:
    """How much may wait, in places (`places_of`). None means no cap.

    Hard caps refuse: what waits of one person, of one server or of direct messages, and in all. Of the last
    two the part `kept` is for people of whom nothing waits. `images_at_full_share` delays: beyond so many
    waiting images of one person each further one costs more of their share.
    """

    waiting_per_user: int | None = None
    waiting_per_server: int | None = None
    waiting: int | None = None
    images_at_full_share: int | None = None
    kept: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A job's result on its way to its message; `attempts` have been made so far.

    Every verb after the claim carries `fencing_token`.
    """

    id: int
    job: Job
    attempts: int
    fencing_token: int

    @property
    def tried_before(self) -> bool:
        """Whether an earlier attempt may have posted the result, whatever was heard of it."""
        return self.fencing_token > 1


def places_of(recipe: Recipe, offer: Offer) -> int:
    """How many pictures of its model's usual size and steps a request costs as much as, at least one."""
    usual = offer.num_inference_steps * math.prod(offer.sizes[0]) / 1e6
    return max(1, math.ceil(round(recipe.cost * recipe.variants / usual, 6)))


def same_shape(size: tuple[int, int], aspect: tuple[int, int]) -> bool:
    """Whether (width, height) `size` has the proportions of `aspect`, as people see it."""
    return abs(_difference(size, aspect)) < SHAPE_TOLERANCE


def nearest_size(picture: tuple[int, int], offer: Offer) -> tuple[int, int]:
    """The offered size whose shape is nearest to that of a picture; of several, the first."""
    return min(offer.sizes, key=lambda size: round(abs(_difference(size, picture)), 2))


def larger_size(size: tuple[int, int], offer: Offer) -> tuple[int, int] | None:
    """The next larger size of the same shape that `offer` has, None where there is none."""
    larger = [other for other in offer.sizes if other > size and same_shape(other, size)]
    return min(larger, default=None)


def _difference(size: tuple[int, int], aspect: tuple[int, int]) -> float:
    return math.log(size[0] * aspect[1] / (size[1] * aspect[0]))
