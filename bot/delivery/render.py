"""The content of a job's message in each state, as plain data; no Discord here.

queued ──► painting ──► picture or grid, with seed and settings
   └──────────┴───────► a sentence that says what went wrong and what to do
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from bot.delivery.buttons import (
    REFUSED_SETTINGS,
    MenuContent,
    Row,
    active_rows,
    all_failed,
    final_rows,
    without_pictures,
)
from bot.delivery.lineage import parent_line
from bot.jobs import ImageRecord, Job, Notes, Position, Recipe, Showing, State
from bot.texts import Texts, shown, tidy
from sdjax_engine.request import SAMPLER_NAMES, InvalidRequest, Offer, Trouble

MAX_TEXT = 4000  # characters of all text parts of a message together
MAX_ALT = 1024
SHOWN_PROMPT = 600  # escaping can double it; two prompts and the sentences stay below MAX_TEXT
SHOWN_NEGATIVE_PROMPT = 300
SHOWN_CUT = 200
SHOWN_LORAS = 150
SHOWN_STYLE = 60
SUBTEXT = "-# "  # Markdown of a small line
BAR_CELLS, BAR_FULL, BAR_EMPTY = 12, "█", "░"

FAILURES: Mapping[str, str] = MappingProxyType(
    {
        "painting_failed": "This picture could not be painted. Try it again, or with another seed.",
        "invalid_request": "This picture cannot be painted with these settings. Change them and try again.",
        "unsuited_sampler": InvalidRequest.SENTENCES["unsuited_sampler"],
        "worker_died": "Painting this picture stopped the painter twice. Try other settings.",
        "not_offered": "This bot no longer paints with this model or size. Choose another and ask again.",
        "not_kept": "The bot has no room left for pictures. Tell its owner, then try again.",
        "start_missing": "The picture to start from can no longer be read: send it again.",
        "start_not_offered": "The picture to start from is gone, and this bot no longer paints with its "
        "model or size. Send the picture, or choose another.",
        "start_changed": "The picture to start from is gone, and painting it again gives another one now. "
        "Send the picture, or choose another.",
        "artifact_missing": "The picture's file is gone. Press Again to paint it anew.",
        "not_taken": "Discord did not take this picture. Press Again, or tell the bot's owner.",
    }
)
TROUBLES: Mapping[str, str] = MappingProxyType(
    {
        Trouble.STUCK: "The devices did not answer and were restarted; this begins anew.",
        Trouble.OUT_OF_MEMORY: "The devices ran out of memory; this begins anew with fewer others beside it.",
        Trouble.FAILED: "The devices failed; this is tried once more.",
    }
)
DEFAULT_FAILURE = "painting_failed"


class Tone(StrEnum):
    """The meaning of the colour beside a message."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class PictureContent:
    """The pictures to show as one file: names of artifacts in order, and the file name without suffix.

    The tiles of a grid are numbered from `first`, as the buttons are.
    A `spoiler` is covered until a person uncovers it.
    """

    artifacts: tuple[str, ...]
    first: int = 1
    stem: str
    alt: str
    spoiler: bool = False


@dataclass(frozen=True, kw_only=True)
class MessageContent:
    """Everything that a message shows; an edit between equal contents is needless.

    A `refusal` is shown to its person alone where Discord still allows that.
    """

    heading: str
    status: str = ""
    footer: str = ""
    pictures: tuple[PictureContent, ...] = ()
    rows: tuple[Row, ...] = ()
    menus: tuple[MenuContent, ...] = ()
    tone: Tone
    refusal: bool = False

    @property
    def buttons(self) -> Row:
        """Every button, in reading order."""
        return tuple(button for row in self.rows for button in row)

    @property
    def text(self) -> str:
        """Every line of text, in reading order."""
        return "\n".join(part for part in (self.heading, self.status, self.footer) if part)


def render(
    job: Job, position: Position | None, texts: Texts, *, offers: Sequence[Offer] = ()
) -> MessageContent:
    """Return what the message of `job` shows now.

    `position` is used until the job has ended, `offers` afterwards, for the buttons of a picture.
    """
    done = [image for image in job.images if image.state is State.DONE and image.artifact]
    done.sort(
        key=lambda image: image.showing is Showing.SPOILER
    )  # open pictures first, as the message shows them
    if not job.state.final:
        status = _active(job, position, texts)
        return MessageContent(
            heading=_heading(job.recipe), status=status, rows=active_rows(job, texts), tone=Tone(job.state)
        )
    return MessageContent(
        heading=_heading(job.recipe),
        status=_ending(job, done, texts),
        footer=_settings(job, done, texts) if done else "",
        pictures=tuple(_pictures(job, done, texts)),
        rows=final_rows(job, done, offers, texts),
        tone=Tone(job.state),
        refusal=all_failed(job, REFUSED_SETTINGS),
    )


def without_picture(content: MessageContent, texts: Texts) -> MessageContent:
    """Return `content` with a sentence in place of the picture, whose file is gone."""
    return MessageContent(
        heading=content.heading,
        status=texts.gettext(FAILURES["artifact_missing"]),
        footer=content.footer,
        rows=without_pictures(content.rows),
        tone=Tone.FAILED,
    )


def not_taken(content: MessageContent, texts: Texts) -> MessageContent:
    """Return a sentence with the buttons of `content`, which Discord refuses."""
    return MessageContent(
        heading=texts.gettext(FAILURES["not_taken"]), rows=without_pictures(content.rows), tone=Tone.FAILED
    )


def with_preview(content: MessageContent, job: Job, texts: Texts) -> MessageContent:
    """Return `content` with the previews of a job's images, which are one file."""
    alt = _shortened(texts.gettext("Preview of {prompt}", prompt=tidy(job.recipe.prompt)))
    return replace(content, pictures=(PictureContent(artifacts=(), stem="preview", alt=alt),))


def with_notice(content: MessageContent, notice: str) -> MessageContent:
    """Return `content` with `notice` before everything else."""
    return replace(content, heading=f"{notice}\n{content.heading}")


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds as text: `7`, `7–10` for consecutive ones, otherwise a list."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)


def _heading(recipe: Recipe) -> str:
    return f"**{shown(recipe.prompt, SHOWN_PROMPT)}**"


def _active(job: Job, position: Position | None, texts: Texts) -> str:
    if job.state is State.WAITING:
        sentences = [_queued(position, texts), *_times(position, texts)]
        if job.slowed:
            sentences.append(texts.gettext("You have many pictures waiting, so these come later."))
        return " ".join(sentences)
    running = [image for image in job.images if image.state is State.RUNNING]
    troubles = dict.fromkeys(image.trouble for image in running if image.trouble)
    said = [texts.gettext(TROUBLES[trouble]) for trouble in troubles if trouble in TROUBLES]
    if not (job.work.begun or said) and position and position.seconds and round(position.seconds) > 0:
        return " ".join([texts.gettext("Next to be painted."), *_times(position, texts)])
    if position is not None and position.end is not None:
        said.append(_painting(job, texts))
        said.append(texts.gettext("Done in about {time}.", time=texts.duration(position.end)))
    else:
        said.append(_painting(job, texts))
    return "\n".join([" ".join(said), *_bar(job, position, texts)])


def _bar(job: Job, position: Position | None, texts: Texts) -> Iterator[str]:
    """Yield a bar over all steps of all pictures, and how full the batch is."""
    work = job.work
    full = BAR_CELLS * work.step // work.steps
    parts = [BAR_FULL * full + BAR_EMPTY * (BAR_CELLS - full), f"{100 * work.step // work.steps} %"]
    if position is not None and position.seats > 1:
        fields = {"taken": position.taken, "seats": position.seats}
        parts.append(texts.gettext("{taken} of {seats} seats of the batch", **fields))
    yield texts.line(texts.joined(parts), mark=SUBTEXT)


def _queued(position: Position | None, texts: Texts) -> str:
    if position is None or position.place < 1:
        return texts.gettext("Queued.")
    return texts.gettext("Queued, {place}.", place=texts.ordinal(position.place))


def _times(position: Position | None, texts: Texts) -> Iterator[str]:
    """Return when a waiting job starts and when it is done, where that is known."""
    if position is None or position.seconds is None or position.end is None:
        return
    start, end = texts.duration(position.seconds), texts.duration(position.end)
    yield texts.gettext("Starts in about {start}, done in about {end}.", start=start, end=end)


def _painting(job: Job, texts: Texts) -> str:
    work = job.work
    steps = {"step": work.step, "steps": work.steps}
    if work.count == 1:
        return texts.gettext("Painting: step {step} of {steps}.", **steps)
    return texts.gettext(
        "Painting: step {step} of {steps}, {done} of {count} pictures finished.",
        **steps,
        done=work.done,
        count=work.count,
    )


def _ending(job: Job, done: Sequence[ImageRecord], texts: Texts) -> str:
    """Return the sentence above a finished job's pictures; empty unless pictures are missing."""
    sentences = []
    failed = [image for image in job.images if image.state is State.FAILED]
    cancelled = sum(image.state is State.CANCELLED for image in job.images)
    if failed:
        if done or cancelled:
            count = {"failed": len(failed), "count": len(job.images)}
            sentences.append(texts.gettext("{failed} of {count} pictures failed.", **count))
        kinds = dict.fromkeys(image.failure or DEFAULT_FAILURE for image in failed)
        sentences += [_failure(kind, job.recipe, texts) for kind in kinds]
    if cancelled == len(job.images):
        sentences.append(texts.gettext("Cancelled. Press Again to ask for it anew."))
    elif cancelled:
        count = {"cancelled": cancelled, "count": len(job.images)}
        sentences.append(texts.gettext("{cancelled} of {count} pictures were cancelled.", **count))
    sentences += _judged(job, texts)
    return " ".join([*sentences, *_left_out(_notes(done), texts)])


def _judged(job: Job, texts: Texts) -> Iterator[str]:
    """Return the sentence about the safety checker, where it changed what is shown."""
    shown_as = Counter(image.showing for image in job.images)
    if withheld := shown_as[Showing.WITHHOLD]:
        yield texts.ngettext(
            "{count} picture is not shown: the safety checker found it unfit for this channel.",
            "{count} pictures are not shown: the safety checker found them unfit for this channel.",
            withheld,
        )
        yield texts.gettext("Press Again for others, or change the words.")
    if covered := shown_as[Showing.SPOILER]:
        yield texts.ngettext(
            "{count} picture is covered: the safety checker flagged it.",
            "{count} pictures are covered: the safety checker flagged them.",
            covered,
        )


def _notes(done: Sequence[ImageRecord]) -> Notes:
    """Return the notes of a job's pictures, which all have the same prompts."""
    return next((image.notes for image in done if image.notes.prompt is not None), Notes())


def _left_out(notes: Notes, texts: Texts) -> Iterator[str]:
    """Return a sentence for each prompt whose end was cut."""
    if notes.prompt and notes.prompt.cut:
        yield texts.ngettext(
            "Only the first {count} token of the prompt had room. Left out: “{cut}”",
            "Only the first {count} tokens of the prompt had room. Left out: “{cut}”",
            notes.prompt.limit,
            cut=shown(notes.prompt.cut, SHOWN_CUT),
        )
    if notes.negative_prompt and notes.negative_prompt.cut:
        yield texts.ngettext(
            "Only the first {count} token of the negative prompt had room. Left out: “{cut}”",
            "Only the first {count} tokens of the negative prompt had room. Left out: “{cut}”",
            notes.negative_prompt.limit,
            cut=shown(notes.negative_prompt.cut, SHOWN_CUT),
        )


def _failure(failure: str, recipe: Recipe, texts: Texts) -> str:
    """Return the sentence of a stored failure, which is a name and perhaps the possible choices."""
    name, _, choices = failure.partition(": ")
    if name != "unsuited_sampler":
        return texts.gettext(FAILURES.get(name, FAILURES[DEFAULT_FAILURE]))
    suited = choices.split(", ")
    labels = (label for sampler, label in SAMPLER_NAMES.items() if sampler in suited or label in suited)
    return texts.gettext(
        FAILURES[name],
        value=SAMPLER_NAMES[recipe.sampler],
        model=shown(recipe.model, 80),
        choices=", ".join(labels),
    )


def _settings(job: Job, done: Sequence[ImageRecord], texts: Texts) -> str:
    recipe = job.recipe
    seeds = seeds_text([image.seed for image in done])
    parts = [
        texts.gettext("seed {seed}", seed=seeds)
        if len(done) == 1
        else texts.gettext("seeds {seeds}", seeds=seeds),
        f"{recipe.width}×{recipe.height}",
        texts.ngettext("{count} step", "{count} steps", recipe.num_inference_steps),
        texts.gettext("guidance {guidance}", guidance=f"{recipe.guidance_scale:g}"),
        SAMPLER_NAMES[recipe.sampler],
        shown(recipe.model, 80),
        *_styled(recipe, texts),
        *_started(recipe, texts),
        *parent_line(job, texts),
    ]
    line = texts.line(texts.joined(parts), mark=SUBTEXT)
    if recipe.negative_prompt.strip():
        negative = shown(recipe.negative_prompt, SHOWN_NEGATIVE_PROMPT)
        without = texts.gettext("without: {negative}", negative=negative)
        line += "\n" + texts.line(without, mark=SUBTEXT)
    if len(done) > 1:
        line += "\n" + texts.line(_legend(len(done), texts), mark=SUBTEXT)
    return line


def _legend(count: int, texts: Texts) -> str:
    """Return what the buttons of a grid's tiles do."""
    return texts.gettext(
        "{alone} show one picture alone, {like} paint others like it.",
        alone=f"U1–U{count}",
        like=f"V1–V{count}",
    )


def _styled(recipe: Recipe, texts: Texts) -> Iterator[str]:
    """Return the name of the style whose texts are in the prompts."""
    if recipe.style:
        yield texts.gettext("style {style}", style=shown(recipe.style, SHOWN_STYLE))


def _started(recipe: Recipe, texts: Texts) -> Iterator[str]:
    """Return what else made a picture: its start picture and LoRAs."""
    strength = f"{recipe.strength:g}"
    if recipe.mask_image is not None:
        yield texts.gettext("part of a picture anew, strength {strength}", strength=strength)
    elif recipe.init_image is not None:
        yield texts.gettext("from a picture, strength {strength}", strength=strength)
    if recipe.loras:
        named = (lora.name if lora.weight == 1 else f"{lora.name}:{lora.weight:g}" for lora in recipe.loras)
        yield f"LoRA {shown(', '.join(named), SHOWN_LORAS)}"


def _pictures(job: Job, done: Sequence[ImageRecord], texts: Texts) -> Iterator[PictureContent]:
    """Return the open pictures, then the covered ones: a flagged picture covers no other."""
    for covered in (False, True):
        images = [image for image in done if (image.showing is Showing.SPOILER) is covered]
        if images:
            yield _picture(job, images, texts, covered=covered, first=done.index(images[0]) + 1)


def _picture(
    job: Job, images: Sequence[ImageRecord], texts: Texts, *, covered: bool, first: int
) -> PictureContent:
    alt = tidy(job.recipe.prompt)
    if len(images) > 1:
        alt = texts.gettext("{count} pictures: {prompt}", count=len(images), prompt=alt)
    stem = job.id if len(images) == 1 else f"{job.id}-grid"
    return PictureContent(
        artifacts=tuple(image.artifact for image in images if image.artifact),
        first=first,
        stem=f"SPOILER_{stem}" if covered else stem,
        alt=_shortened(alt),
        spoiler=covered,
    )


def _shortened(alt: str) -> str:
    return alt if len(alt) <= MAX_ALT else alt[: MAX_ALT - 1] + "…"
