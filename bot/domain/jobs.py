"""Jobs and images as plain data, their states and the transitions allowed between them; no I/O.

waiting ──► running ──► done
   ▲  │        │  └───► failed
   │  └──────┐ │
   └─────────┼─┘ (lease expired, given back)
             └──► cancelled          a final state never changes

A waiting image fails too, once no worker has offered its lane for a while.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from bot.domain.channels import ChannelKind
from bot.domain.holds import Appeal, Cause, Hold, Ruling
from bot.domain.levels import Level
from bot.domain.outbox import Due
from sdjax_engine.request import (
    WHOLE,
    ControlType,
    Int8,
    Lane,
    Lora,
    PictureScores,
    PromptFacts,
    Request,
    SafetyScores,
    Sampler,
    SecondPass,
    Variation,
)

MAX_VARIANTS = 9
MASK = "mask_image"
REFERENCES = ("reference", "reference_2")
"""The reference pictures, in the order in which the model sees them."""
GIVEN = ("init_image", MASK, "control_image", "image_prompt", *REFERENCES)
"""The pictures that a person gives: fields of a recipe, with names of files.

`with_pictures` puts their bytes into a request.
"""
SHOWING = tuple(field for field in GIVEN if field != MASK)
"""The given pictures that show something, and are therefore judged; a mask only says where."""
CONTROL_COST = 0.4
"""The operations of a ControlNet in those of its denoiser: 0.32 in SD 1, 0.44 in SDXL.

A reference counts as much as the picture itself: to FLUX.2 klein it is as many tokens more.
"""
BATCHES_AHEAD = 2  # that a worker claims of each lane: one is painted, the next is ready


class State(StrEnum):
    """The state of an image or of a whole job."""

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
    """Return the state of a job from the states of its images.

    It is final once every image is. Then it is done if any image is done.
    """
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
    """All that a job's pictures depend on. Image i has the seed `seed + i`, modulo 2**32.

    With `variations`, all images have the same seed, and image i the last variation's seed + i.
    `init_image`, `mask_image`, `control_image` and `image_prompt` name files: of the start picture, of its
    mask, of the picture whose composition is kept, by the network `controlnet`, and of the picture that is a
    prompt. `reference` and `reference_2` name the files of pictures that the prompt may speak of.
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
    style: str = ""  # the name of the style whose texts are in the prompts
    variations: tuple[Variation, ...] = ()
    second_pass: SecondPass | None = None
    guidance_interval: tuple[float, float] = WHOLE
    clip_skip: int = 0
    control_image: str | None = None
    controlnet: str = ""
    control_type: ControlType = ControlType.EDGES
    control_strength: float = 1.0
    image_prompt: str | None = None
    image_prompt_strength: float = 1.0
    reference: str | None = None
    reference_2: str | None = None

    def from_image(self, index: int) -> Recipe:
        """Return the recipe whose first image is the image at `index`."""
        if not self.variations:
            return replace(self, seed=(self.seed + index) % 2**32)
        *others, last = self.variations
        last = replace(last, seed=(last.seed + index) % 2**32)
        return replace(self, variations=(*others, last))

    def request(self, index: int) -> Request:
        """Return the request of the image at `index`, without the bytes of its given pictures."""
        first = self.from_image(index)
        return Request(
            prompt=self.prompt,
            negative_prompt=self.negative_prompt,
            seed=first.seed,
            variations=first.variations,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            sampler=self.sampler,
            width=self.width,
            height=self.height,
            model=self.model,
            strength=self.strength,
            loras=self.loras,
            second_pass=self.second_pass,
            guidance_interval=self.guidance_interval,
            clip_skip=self.clip_skip,
            controlnet=self.controlnet,
            control_type=self.control_type,
            control_strength=self.control_strength,
            image_prompt=None if self.image_prompt is None else b"",  # its bytes are read later
            image_prompt_strength=self.image_prompt_strength,
            references=(b"",) * self.references,  # each number has its lanes
        )

    @property
    def picture_size(self) -> tuple[int, int]:
        """The (width, height) of the finished pictures, in pixels."""
        last = self.second_pass or self
        return last.width, last.height

    @property
    def given(self) -> dict[str, str]:
        """The given pictures: names of files that must exist when the image is painted, by `GIVEN`."""
        found = ((field, getattr(self, field)) for field in GIVEN)
        return {field: name for field, name in found if name is not None}

    @property
    def references(self) -> int:
        """How many reference pictures there are."""
        return sum(field in REFERENCES for field in self.given)

    @property
    def modifies(self) -> bool:
        """Whether the pictures are others that were changed: a start picture, or references."""
        return self.init_image is not None or self.references > 0

    @property
    def steps(self) -> int:
        """How many steps are run; a step of the second pass counts as more, by the ratio of the pixels."""
        steps = self.num_inference_steps
        first = steps if self.init_image is None else _steps_run(steps, self.strength)
        if (second := self.second_pass) is None:
            return first
        pixels = second.width * second.height / (self.width * self.height)
        return first + math.ceil(_steps_run(second.num_inference_steps, second.strength) * pixels)

    @property
    def lane(self) -> Lane:
        return self.request(0).lane

    @property
    def cost(self) -> float:
        """The cost of one image: steps × pixels, in millions, and more with a ControlNet or references."""
        controlled = 0.0 if self.control_image is None else CONTROL_COST
        return self.steps * self.width * self.height / 1e6 * (1 + controlled + self.references)


def model_and_size(lane: str) -> tuple[str, str]:
    """Return the model and the size, `512x768`, in the name of a lane; other names have no size."""
    named = re.fullmatch(r"(.+):([0-9]+x[0-9]+):.*", lane)
    return (named[1], named[2]) if named else (lane, "")


def with_pictures(request: Request, pictures: Mapping[str, bytes]) -> Request:
    """Return a request with the bytes of its given pictures, by `GIVEN`."""
    alone: dict[str, Any] = {field: file for field, file in pictures.items() if field not in REFERENCES}
    references = tuple(pictures[field] for field in REFERENCES if field in pictures)
    return replace(request, **alone, references=references)


def pictures_in(request: Request, given: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of the given pictures of a request, which are of these fields, by `GIVEN`."""
    fields, references = set(given), iter(request.references)
    return {
        field: next(references) if field in REFERENCES else getattr(request, field)
        for field in GIVEN
        if field in fields
    }


def _steps_run(steps: int, strength: float) -> int:
    return max(1, min(steps, int(steps * strength)))


class Showing(StrEnum):
    """How a picture is shown: openly, as a spoiler, not before moderators decide, or not at all."""

    SHOW = "show"
    SPOILER = "spoiler"
    HOLD = "hold"
    WITHHOLD = "withhold"


Showings = tuple[Showing, Showing, Showing]
"""How pictures of the levels 1, 2 and 3 are shown (`bot.domain.levels`)."""


class Descent(StrEnum):
    """How a job came from another."""

    SINGLE = "single"
    REPEAT = "repeat"
    VARIATION = "variation"
    ENLARGEMENT = "enlargement"
    REMIX = "remix"
    PUBLICATION = "publication"


COPIES = frozenset({Descent.SINGLE, Descent.PUBLICATION})
"""Jobs that only show pictures of another."""


@dataclass(frozen=True, kw_only=True)
class Parent:
    """The job that another came from; `index` is its picture, None for the job as a whole.

    `message_id` in `channel_id` is the message whose button was pressed; None for one that only its person
    could see.
    """

    job_id: str
    descent: Descent
    index: int | None = None
    channel_id: int | None = None
    message_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The person and the channel of a job, and where its answer goes. Ids only, never a live Discord object.

    `interaction_token` is valid until `token_expires_at` (seconds since the epoch). `front` is the process
    that answers, None for the first front that looks. `message_id` is the answer's id, once Discord has
    returned it, stored so that a front finds the message after a kill. `user_name` is the person's display
    name, for moderators; empty if unknown. `channel_kind` says whom Discord shows
    the channel. `parent` is the job whose button asked for this one. An `external` channel is one without the
    bot, which the person has in their own account. `policy` has the values of the policy at the time of the
    request that later steps need, by key; its `left` is a quota of which little is left. `thread_parent_id`
    is the channel of a thread, None elsewhere. `traceparent` names the span of the request as W3C Trace
    Context does; None: the job has no trace.
    """

    interaction_id: int
    interaction_token: str = field(repr=False)  # anyone could answer as the bot with it: no log shows it
    token_expires_at: float
    application_id: int
    user_id: int
    guild_id: int | None
    channel_id: int
    locale: str
    private: bool
    channel_kind: ChannelKind = ChannelKind.PLAIN
    front: str | None = None
    message_id: int | None = field(default=None, compare=False)
    user_name: str = ""
    parent: Parent | None = None
    external: bool = False
    policy: Mapping[str, Any] = field(default_factory=dict, hash=False)
    thread_parent_id: int | None = None
    traceparent: str | None = field(default=None, compare=False)

    @property
    def is_public(self) -> bool:
        """Whether the members of a server saw the answer too: neither a private one nor a direct message."""
        return not self.private and self.guild_id is not None


@dataclass(frozen=True, kw_only=True)
class Notes:
    """Facts found while painting: how the prompts were read, and what was found of the picture.

    `safety` and `classified` are the scores of the safety checker and of the picture classifier, `level` what
    follows from them. `known` is true for a picture that is withheld because it is like a blocked one. `int8`
    are the parts of the model whose weights were INT8.
    """

    prompt: PromptFacts | None = None
    negative_prompt: PromptFacts | None = None
    safety: SafetyScores | None = None
    classified: PictureScores | None = None
    level: Level = Level.NONE
    known: bool = False
    int8: tuple[Int8, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImageRecord:
    """One image of a job as the store knows it.

    A done image has its file in `artifact`, and `notes` for its message. `trouble` is why the engine retried
    a running image, until the image is further than before the retry. `step` restarts with each attempt;
    `furthest` is its maximum over all attempts. A held or withheld image is done and has no `artifact`, so
    that no reader shows it; its file, where it is kept, is named by `held` alone. `ruling` is what
    moderators last decided on this picture.
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
    held: str | None = None
    ruling: Ruling | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """The progress of a job: `step` of `steps` over all its images, and `done` of `count` images."""

    step: int
    steps: int
    done: int
    count: int

    @property
    def begun(self) -> bool:
        return self.step > 0 or self.done > 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request of a person, with its images in order.

    `deleted_at` is set once the person has deleted the result: its files are deleted, its recipe is kept.
    `slowed` is true if the person had more images waiting than get the full share. `message_channel_id` is
    the channel of the message, None for the channel of the command. `hold` is why its pictures are held for
    review, `ruling` the last decision, and `appeal` the state of the appeal about its pictures.
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
    hold: Hold | None = None
    ruling: Ruling | None = None
    appeal: Appeal | None = None

    @property
    def work(self) -> Work:
        """The progress, which never decreases: an image in a final state counts all its steps."""
        each = self.recipe.steps
        steps = (each if image.state.final else min(each, image.furthest) for image in self.images)
        return Work(
            step=sum(steps),
            steps=each * len(self.images),
            done=sum(image.state is State.DONE for image in self.images),
            count=len(self.images),
        )

    @property
    def hides_words(self) -> bool:
        """Whether only the person and moderators may read the prompts, because a rule holds them."""
        held = self.hold is not None and self.hold.cause is Cause.RULE
        return held and (self.ruling is None or not self.ruling.outcome.shows)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One image leased to a worker. Every verb after `claim` carries `fencing_token`.

    `request` lacks the bytes of the given pictures: `given` has the names of their files, as the recipe.
    `steps` is how many steps are run. The image waited from `enqueued_at` to `claimed_at`, in seconds
    since the epoch. `traceparent` is that of the job, `guild_id` that of a server which the bot is in.
    """

    image_id: int
    job_id: str
    request: Request
    steps: int
    given: Mapping[str, str] = field(default_factory=dict, hash=False)
    guild_id: int | None = None
    channel_kind: ChannelKind = ChannelKind.PLAIN
    showings: Showings | None = None
    fencing_token: int
    expires_at: float
    enqueued_at: float = 0.0
    claimed_at: float = 0.0
    traceparent: str | None = None


@dataclass(frozen=True, kw_only=True)
class Delivery(Due):
    """A job's result that is being delivered."""

    job: Job


def lacking(images: Iterable[ImageRecord]) -> str:
    """Return the key of the sentence that says why none of these images can be shown."""
    held = any(image.showing is Showing.HOLD and image.held for image in images)
    return "picture_held" if held else "no_picture"


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a job in the queue.

    `place` is 1 for the job whose image is claimed next, and 0 once no image of the job waits; `ahead` counts
    the images of its lane before it. It starts in `seconds`, 0 after the start, and ends in `end`; None while
    unknown. `taken` of its lane's `seats` are taken. `paused` is the moderator's text about the pause, None
    without one.
    """

    place: int
    ahead: int
    seconds: float | None
    end: float | None = None
    seats: int = 0
    taken: int = 0
    paused: str | None = None

    @property
    def is_unserved(self) -> bool:
        """Whether the job waits and no living worker has seats of its lane."""
        return self.place > 0 and self.seats == 0 and self.seconds is None and self.paused is None
