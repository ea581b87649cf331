"""The content of a job's message in each state, as plain data; no Discord here.

queued ──► painting ──► picture or grid, with seed and settings
   └──────────┴───────► a sentence that says what went wrong and what to do
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bot.delivery.content import (
    REFUSED_SETTINGS,
    REMIX,
    SUBTEXT,
    ButtonContent,
    MessageContent,
    PictureContent,
    Row,
    Tone,
    all_failed,
    final_rows,
    more_menu,
    shortened,
    tile_menus,
    without_pictures,
)
from bot.delivery.quota_lines import left_lines
from bot.delivery.result import (
    FAILURES,
    SHOWN_NEGATIVE_PROMPT,
    ai_label,
    ending,
    is_held,
    pictures_of,
    settings_text,
    unknown_words,
)
from bot.domain.jobs import ImageRecord, Job, Position, Showing, State
from bot.texts.catalogue import Texts
from bot.texts.markup import is_cut, shown, tidy
from sdjax_engine.request import Offer, Trouble

MAX_TEXT = 4000  # characters of all text parts of a message together
SHOWN_PROMPT = 240  # four lines on a phone
SHOWN_WORD = 300
BAR_CELLS, BAR_FULL, BAR_EMPTY = 12, "█", "░"

TROUBLES: Mapping[str, str] = {
    Trouble.OUT_OF_MEMORY: ("The devices ran out of memory; this starts again with fewer others beside it."),
    Trouble.FAILED: "The devices failed; this is tried once more.",
}


def render(
    job: Job, position: Position | None, texts: Texts, *, offers: Sequence[Offer] = (), label: bool = True
) -> MessageContent:
    """Return what the message of `job` shows now.

    `position` is used until the job has ended, `offers` afterwards, for the buttons of a picture. With
    `label`, the pictures are said to be AI-generated.
    """
    done = [image for image in job.images if image.state is State.DONE and image.artifact]
    done.sort(
        key=lambda image: image.showing is Showing.SPOILER
    )  # open pictures first, as the message shows them
    if not job.state.final:
        status = _active(job, position, texts)
        if "left" in job.origin.policy:
            status = "\n".join([status, *left_lines(job, texts)])
        cancel = ButtonContent(label=texts.gettext("Cancel"), custom_id=f"cancel:{job.id}", dangerous=True)
        return MessageContent(
            heading=_heading(job, texts), status=status, rows=((cancel,),), tone=Tone(job.state)
        )
    rows = final_rows(job, done, offers, texts)
    cut = is_cut(job.recipe.prompt, SHOWN_PROMPT) and not _is_hidden(job)
    cut = cut or (bool(done) and is_cut(job.recipe.negative_prompt, SHOWN_NEGATIVE_PROMPT))
    below = [settings_text(job, done, texts, label=label), *unknown_words(job, done, offers, texts)]
    return MessageContent(
        heading=_heading(job, texts),
        status=ending(job, done, texts),
        footer="\n".join(below) if done else "",
        folded=_folded(rows, texts, more=bool(done)) if cut else "",
        pictures=tuple(pictures_of(job, done, texts, label=label)),
        rows=rows,
        menus=tile_menus(job, done, texts),
        more=more_menu(job, done, texts) if done else None,
        tone=_final_tone(job, done),
        refusal=all_failed(job, REFUSED_SETTINGS),
    )


def _final_tone(job: Job, done: Sequence[ImageRecord]) -> Tone:
    """Return the tone of an ended job; `done` are the pictures that its message shows."""
    if done:
        return Tone(job.state)
    if is_held(job):
        return Tone.WAITING
    return Tone.FAILED if job.state is State.DONE else Tone(job.state)


def without_picture(content: MessageContent, texts: Texts) -> MessageContent:
    """Return `content` with a sentence in place of the picture, whose file is gone."""
    rows = without_pictures(content.rows)
    return MessageContent(
        heading=content.heading,
        status=texts.gettext(FAILURES["artifact_missing"]),
        footer=content.footer,
        folded=_folded(rows, texts, more=False) if content.folded else "",
        rows=rows,
        tone=Tone.FAILED,
    )


def not_taken(content: MessageContent, texts: Texts) -> MessageContent:
    """Return what replaces `content` that Discord refuses: a sentence, and the buttons that need no file."""
    return MessageContent(
        heading=texts.gettext(FAILURES["not_taken"]), rows=without_pictures(content.rows), tone=Tone.FAILED
    )


def with_preview(content: MessageContent, job: Job, texts: Texts) -> MessageContent:
    """Return `content` with the previews of a job's images, which are one file."""
    said = texts.gettext("Preview of {prompt}", prompt=tidy(job.recipe.prompt))
    if (count := len(job.images)) > 1:
        prompt = tidy(job.recipe.prompt)
        said = texts.gettext("Preview of {count} pictures: {prompt}", count=count, prompt=prompt)
    alt = shortened(texts.joined([ai_label(job.recipe, texts), said]))
    return replace(content, pictures=(PictureContent(artifacts=(), stem="preview", alt=alt),))


def with_notice(content: MessageContent, notice: str) -> MessageContent:
    """Return `content` with `notice` before everything else."""
    return replace(content, heading=f"{notice}\n{content.heading}")


def _heading(job: Job, texts: Texts) -> str:
    if _is_hidden(job):
        return _hidden_heading(job, texts)
    return f"**{shown(job.recipe.prompt, SHOWN_PROMPT)}**"


def _hidden_heading(job: Job, texts: Texts) -> str:
    """Return the text shown instead of the words; a job that ended without a picture gets no review."""
    waits = not job.state.final or any(image.showing is Showing.HOLD for image in job.images)
    if job.ruling is None and waits:
        return texts.gettext("A rule of this server hides these words until moderators approve them.")
    if job.ruling is None:
        return texts.gettext("A rule of this server hides these words.")
    return texts.gettext("A rule of this server hides these words: moderators have not approved them.")


def _is_hidden(job: Job) -> bool:
    return job.hides_words and not job.origin.private


def _folded(rows: Sequence[Row], texts: Texts, *, more: bool) -> str:
    """Return which buttons of a message show all words of its prompts."""
    if more:
        menu, info = texts.gettext("More"), texts.gettext("Info")
        return texts.line(
            texts.gettext("The whole prompt: {more}, then {info}.", more=menu, info=info), mark=SUBTEXT
        )
    if any(button.custom_id.startswith(f"{REMIX}:") for row in rows for button in row):
        remix = texts.gettext("Remix")
        return texts.line(texts.gettext("The whole prompt: {remix}.", remix=remix), mark=SUBTEXT)
    return ""


def _active(job: Job, position: Position | None, texts: Texts) -> str:
    running = [image for image in job.images if image.state is State.RUNNING]
    if position is not None and position.paused is not None and not running:
        return _paused(position.paused, texts)
    if job.state is State.WAITING:
        sentences = [_queued(position, texts), *_times(position, texts)]
        if job.slowed:
            sentences.append(texts.gettext("You have many pictures waiting, so these come later."))
        return " ".join(sentences)
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


def _paused(word: str, texts: Texts) -> str:
    if not word:
        return texts.gettext("Painting is paused here.")
    return texts.gettext("Painting is paused here: {word}", word=shown(word, SHOWN_WORD))


def _bar(job: Job, position: Position | None, texts: Texts) -> Iterator[str]:
    """Yield a bar over all steps of all pictures, and how many other pictures share the batch."""
    work = job.work
    full = BAR_CELLS * work.step // work.steps
    parts = [BAR_FULL * full + BAR_EMPTY * (BAR_CELLS - full), f"{100 * work.step // work.steps} %"]
    mine = sum(image.state is State.RUNNING for image in job.images)
    if position is not None and position.taken > mine:
        parts.append(
            texts.ngettext(
                "painted together with {count} other picture",
                "painted together with {count} other pictures",
                position.taken - mine,
            )
        )
    yield texts.line(texts.joined(parts), mark=SUBTEXT)


def _queued(position: Position | None, texts: Texts) -> str:
    if position is None or position.place < 1:
        return texts.gettext("Queued.")
    return texts.gettext("Queued, {place}.", place=texts.ordinal(position.place))


def _times(position: Position | None, texts: Texts) -> Iterator[str]:
    """Yield when a waiting job starts and when it is done, where that is known, or that nothing paints it."""
    if position is not None and position.is_unserved:
        yield texts.gettext("Nothing paints this at the moment. The request is kept.")
    if position is None or position.seconds is None or position.end is None:
        return
    start, end = texts.duration(position.seconds), texts.duration(position.end)
    if start == end:
        yield texts.gettext("Done in about {time}.", time=end)
        return
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
