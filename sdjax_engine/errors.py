"""The errors of the engine.

EngineError
├── InvalidRequest       the person asked for something that cannot be painted
├── UnreadableCheckpoint the checkpoint's files are missing, broken or of another kind
├── DevicesFailed        the devices cannot be used, or cannot run what is offered
├── PaintingFailed       this one image failed; others go on
└── EngineClosed         the engine takes no more requests
"""

from __future__ import annotations

from typing import Any, ClassVar


class EngineError(Exception):
    """Base of every error the engine raises on purpose."""


class InvalidRequest(EngineError):
    """A request that cannot be painted.

    `problem` names the kind of mistake and `details` its facts, so that a front end can say the
    sentence in the person's language; `str()` says it in English.
    """

    SENTENCES: ClassVar[dict[str, str]] = {
        "empty_prompt": "The prompt is empty: write what the picture should show.",
        "wordless_prompt": "The prompt has only punctuation: write in words what the picture should show.",
        "long_prompt": "The prompt has {characters} characters: shorten it to {limit} at most.",
        "steps": "{value} steps are not possible: choose between 1 and {limit}.",
        "guidance": "A guidance of {value} is not possible: choose between 0 and {limit}.",
        "guidance_interval": "A guidance interval from {start} to {stop} is not possible: "
        "choose a start from 0, and after it a stop up to 1.",
        "clip_skip": "A clip skip of {value} is not possible with {model}: "
        "choose between 1, which leaves out no layer, and {limit}.",
        "no_clip_skip": "{model} paints without clip skip: leave it out.",
        "seed": "{value} is not a seed: choose a whole number between 0 and {limit}.",
        "sampler": "There is no sampler called “{value}”: choose from {choices}.",
        "unsuited_sampler": "The sampler “{value}” does not suit {model}: choose from {choices}.",
        "size": "{model} does not paint {value}: choose from {choices}.",
        "model": "There is no model called “{value}”: choose from {choices}.",
        "variants": "{value} variants are not possible: choose between 1 and {limit}.",
        "lane": "{value} is not set up here: choose from {choices}.",
        "strength": "A strength of {value} is not possible: choose between 0 and 1.",
        "picture": "{what} is not a picture that can be read: send a PNG, JPEG or WebP file.",
        "mask_alone": "A mask says which part of a picture to repaint: send that picture too.",
        "mask_black": "The mask has nothing white: make the part white that is to be repainted.",
        "mask_cut": "The part to repaint is cut off or too thin in this size: "
        "choose another size, or make that part larger.",
        "lora": "There is no LoRA called “{value}”: choose from {choices}.",
        "no_loras": "{model} has no LoRAs to choose from: leave them out.",
        "lora_weight": "A LoRA weight of {value} is not possible: choose between -{limit} and {limit}.",
        "variations": "{count} variations of one seed are too many: {limit} are possible.",
        "variation_strength": "A variation strength of {value} is not possible: choose between 0 and 1.",
        "second_pass_size": "A second pass in {value} is not possible: choose from {choices}.",
        "no_second_pass": "{model} paints no larger picture of this shape: leave the second pass out.",
        "no_references": "{model} takes no reference pictures: leave them out.",
        "references": "{count} reference pictures are not possible with {model}: choose at most {limit}.",
        "no_controlnets": "{model} has no ControlNets: leave the control picture out.",
        "controlnet": "There is no ControlNet called “{value}”: choose from {choices}.",
        "control_type": "{model} cannot use a control picture of the type {value}: choose from {choices}.",
        "control_strength": "A control strength of {value} is not possible: choose between 0 and {limit}.",
        "control_interval": "A control interval from {start} to {stop} is not possible: "
        "choose a start from 0, and after it a stop up to 1.",
        "no_image_prompts": "{model} takes no picture as a prompt: leave the image prompt out.",
        "image_prompt_strength": "A strength of the image prompt of {value} is not possible: "
        "choose between 0 and 1.",
        "large_loras": "The LoRAs {value} are too large together: choose fewer of them.",
    }

    def __init__(self, problem: str, **details: Any) -> None:
        super().__init__(self.SENTENCES[problem].format(**details))
        self.problem = problem
        self.details = details


class UnreadableCheckpoint(EngineError):
    """The checkpoint cannot be loaded; the message lists everything that is wrong with it."""


class DevicesFailed(EngineError):
    """The devices cannot be used, or cannot run what is offered; the message says why."""


class PaintingFailed(EngineError):
    """One image could not be painted; the message says why."""


class EngineClosed(EngineError):
    """The engine is closing and takes no more requests."""


LONGEST_QUOTE = 80  # characters


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, closed by a full stop."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".") + "."


def quoted(value: object) -> str:
    """Return a value of an untrusted file as text for an error's sentence, cut where it is long."""
    return cut(repr(value))


def cut(text: str) -> str:
    """Return a text, cut after `LONGEST_QUOTE` characters."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def in_bytes(count: int) -> str:
    """Return a number of bytes as people read it: "11.2 GiB", or "3.4 MiB" below a tenth of that."""
    gib = count / 2**30
    return f"{gib:.1f} GiB" if gib >= 0.1 else f"{count / 2**20:.1f} MiB"
