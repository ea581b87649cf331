"""What the message of a finished job says and which pictures it shows; the first lines are `render`'s."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bot.delivery.content import MAX_ALT, MOST_BUTTONS, SUBTEXT, PictureContent, shortened
from bot.delivery.lineage import parent_line
from bot.domain.holds import Appeal, Cause, Outcome, Ruling
from bot.domain.jobs import ImageRecord, Job, Notes, Recipe, Showing, State
from bot.domain.levels import Level
from bot.texts.catalogue import Texts
from bot.texts.markup import shown, tidy
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import SAMPLER_NAMES, Offer

SHOWN_NEGATIVE_PROMPT = 120  # two lines on a phone
SHOWN_CUT = 200
SHOWN_WORDS = 200  # of a prompt that the model does not know, together
SHOWN_LORAS = 150
SHOWN_STYLE = 60
SHOWN_REASON = 300  # of moderators, together: a message has a limit
SHOWN_DETAIL = 300

FAILURES: Mapping[str, str] = {
    "painting_failed": "This picture could not be painted. Try it again, or with another seed.",
    "invalid_request": "This picture cannot be painted with these settings. Change them and try again.",
    "unsuited_sampler": InvalidRequest.SENTENCES["unsuited_sampler"],
    "lora_not_offered": "This model no longer has the LoRA of this request. Leave it out, or choose another.",
    "worker_died": "Painting crashed twice on this picture. Try other settings.",
    "not_offered": "This bot no longer paints with this model or size. Choose another and ask again.",
    "not_kept": "The bot has no room left for pictures. Tell its owner, then try again.",
    "start_missing": "A picture given with this request can no longer be read: send it again.",
    "start_not_offered": "A picture given with this request is gone, and this bot no longer paints with its "
    "model or size. Send the picture, or choose another.",
    "start_changed": "A picture given with this request is gone, and painting it again gives another one "
    "now. Send the picture, or choose another.",
    "start_unfit": "A picture given with this request is unfit for this channel: choose another.",
    "start_known": "A picture given with this request is blocked here, or almost identical to a blocked one. "
    "Choose another.",
    "artifact_missing": "The picture's file is gone. Press Again to paint it again.",
    "not_taken": "Discord did not take this picture. Press Again, or tell the bot's owner.",
}
DEFAULT_FAILURE = "painting_failed"


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds as text: `7`, `7–10` for consecutive ones, otherwise a list."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)


def ending(job: Job, done: Sequence[ImageRecord], texts: Texts) -> str:
    """Return the text above a finished job's pictures: what failed, is hidden or was cut; often empty."""
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
        sentences.append(texts.gettext("Cancelled. Press Again to ask for it once more."))
    elif cancelled:
        count = {"cancelled": cancelled, "count": len(job.images)}
        sentences.append(texts.gettext("{cancelled} of {count} pictures were cancelled.", **count))
    sentences += _judged(job, texts)
    return " ".join([*sentences, *_left_out(_notes(done), texts)])


def _judged(job: Job, texts: Texts) -> Iterator[str]:
    """Yield why pictures are not shown or covered: by the checker, as blocked ones, or by moderators."""
    shown_as = Counter(image.showing for image in job.images)
    if known := sum(image.notes.known for image in job.images):
        yield texts.ngettext(
            "{count} picture is not shown: it is almost identical to a picture that is blocked here.",
            "{count} pictures are not shown: they are almost identical to pictures that are blocked here.",
            known,
        )
    rejected = _rejected(job)
    if withheld := shown_as[Showing.WITHHOLD] - known - len(rejected):
        yield texts.ngettext(
            "{count} picture is not shown: the safety checker found it unfit for this channel.",
            "{count} pictures are not shown: the safety checker found them unfit for this channel.",
            withheld,
        )
        yield texts.gettext("Press Again for others, or change the words.")
    yield from _reviewed(job, rejected, texts)
    covered = shown_as[Showing.SPOILER]
    by_checker = any(
        image.notes.level is not Level.NONE for image in job.images if image.showing is Showing.SPOILER
    )
    if covered and (job.ruling is not None or not by_checker):  # moderators cover the copies of a result too
        yield texts.ngettext(
            "{count} picture is behind a spoiler.", "{count} pictures are behind a spoiler.", covered
        )
    elif covered:
        yield texts.ngettext(
            "{count} picture is behind a spoiler: the safety checker flagged it.",
            "{count} pictures are behind a spoiler: the safety checker flagged them.",
            covered,
        )


def is_held(job: Job) -> bool:
    """Return whether a picture of the job waits for moderators."""
    return any(image.showing is Showing.HOLD for image in job.images)


def _rejected(job: Job) -> list[ImageRecord]:
    """Return the pictures that moderators have not let through: the only withheld ones with kept files."""
    return [image for image in job.images if image.showing is Showing.WITHHOLD and image.held is not None]


def _reviewed(job: Job, rejected: Sequence[ImageRecord], texts: Texts) -> Iterator[str]:
    """Yield what moderators have still to decide, and what they have decided."""
    held = sum(image.showing is Showing.HOLD for image in job.images)
    if held and job.hold is not None and job.hold.cause is Cause.REPORTS:
        yield texts.ngettext(
            "{count} picture was reported and is hidden until moderators have looked at it.",
            "{count} pictures were reported and are hidden until moderators have looked at them.",
            held,
        )
    elif held:
        yield texts.ngettext(
            "{count} picture is painted and waiting for moderators: it is shown once approved.",
            "{count} pictures are painted and waiting for moderators: they are shown once approved.",
            held,
        )
    yield from _decided(job, [image.ruling for image in rejected], texts)


def _decided(job: Job, rulings: Sequence[Ruling | None], texts: Texts) -> Iterator[str]:
    """Yield what was decided on the pictures that moderators have not let through, and on the appeal."""
    decided = [ruling for ruling in rulings if ruling is None or ruling.outcome is not Outcome.EXPIRED]
    if expired := len(rulings) - len(decided):
        yield texts.ngettext(
            "{count} picture is not shown: no moderator has looked at it in time.",
            "{count} pictures are not shown: no moderator has looked at them in time.",
            expired,
        )
    if decided:
        yield texts.ngettext(
            "{count} picture is not shown: a moderator has decided so.",
            "{count} pictures are not shown: a moderator has decided so.",
            len(decided),
        )
    if rulings and job.appeal is Appeal.DECLINED:
        yield texts.gettext("Moderators have declined the appeal, so this stands.")
    elif rulings and job.appeal is Appeal.EXPIRED:
        yield texts.gettext("No moderator has looked at the appeal in time, so this stands.")
    reasons = dict.fromkeys(tidy(ruling.reason) for ruling in decided if ruling is not None)
    for reason in _shown_together([reason for reason in reasons if reason], SHOWN_REASON):
        yield texts.gettext("The moderator's reason: {reason}", reason=reason)


def _shown_together(reasons: Sequence[str], limit: int) -> list[str]:
    """Return reasons cut to `limit` characters in all: short ones leave room to long ones."""
    limits: dict[str, int] = {}
    for others, reason in zip(range(len(reasons), 0, -1), sorted(reasons, key=len), strict=True):
        limits[reason] = limit // others
        limit -= min(len(reason), limits[reason])
    return [shown(reason, limits[reason]) for reason in reasons]


def _notes(done: Sequence[ImageRecord]) -> Notes:
    """Return the notes of a job's pictures, which all have the same prompts."""
    return next((image.notes for image in done if image.notes.prompt is not None), Notes())


def _left_out(notes: Notes, texts: Texts) -> Iterator[str]:
    """Return a sentence for each prompt whose end was cut."""
    if notes.prompt and notes.prompt.cut:
        yield texts.ngettext(
            "Only the first {count} token of the prompt was used. Left out: “{cut}”",
            "Only the first {count} tokens of the prompt were used. Left out: “{cut}”",
            notes.prompt.limit,
            cut=shown(notes.prompt.cut, SHOWN_CUT),
        )
    if notes.negative_prompt and notes.negative_prompt.cut:
        yield texts.ngettext(
            "Only the first {count} token of the negative prompt was used. Left out: “{cut}”",
            "Only the first {count} tokens of the negative prompt were used. Left out: “{cut}”",
            notes.negative_prompt.limit,
            cut=shown(notes.negative_prompt.cut, SHOWN_CUT),
        )


def unknown_words(
    job: Job, done: Sequence[ImageRecord], offers: Sequence[Offer], texts: Texts
) -> Iterator[str]:
    """Yield a line about the words of the prompt that the model does not know, with a link to its card."""
    facts = _notes(done).prompt
    if facts is None or not facts.unknown:
        return
    words = ", ".join(f"*{word}*" for word in _shown_together(facts.unknown, SHOWN_WORDS))
    said = texts.gettext(
        "The model {model} does not know {words}.", model=shown(job.recipe.model, 80), words=words
    )
    link = next((offer.licence_link for offer in offers if offer.model == job.recipe.model), "")
    knows = texts.gettext("What it knows")
    known = [f"[{knows}](<{link}>)"] if link else []
    yield texts.line(" ".join([said, *known]), mark=SUBTEXT)


def _failure(failure: str, recipe: Recipe, texts: Texts) -> str:
    """Return the sentence of a stored failure: see `bot.worker.ends`."""
    name, _, choices = failure.partition(": ")
    if name == "invalid_request" and (mistake := _mistake(choices)) is not None:
        return texts.mistake(mistake, tell=lambda detail: shown(str(detail), SHOWN_DETAIL))
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


def _mistake(said: str) -> InvalidRequest | None:
    """Return the mistake that a worker has stored; None for one of another version."""
    try:
        return InvalidRequest(**json.loads(said))
    except (ValueError, TypeError, KeyError):
        return None


def ai_label(recipe: Recipe, texts: Texts) -> str:
    """Return the words that say that AI generated the pictures of a recipe, or modified given ones."""
    return texts.gettext("AI-modified") if recipe.modifies else texts.gettext("AI-generated")


def settings_text(job: Job, done: Sequence[ImageRecord], texts: Texts, *, label: bool) -> str:
    """Return the lines below the pictures; with `label`, the first words say that they are AI-generated."""
    recipe = job.recipe
    seeds = seeds_text(list(dict.fromkeys(image.seed for image in done)))
    parts = [
        *([ai_label(recipe, texts)] if label else []),
        texts.gettext("seed {seed}", seed=seeds)
        if len(done) == 1 or recipe.variations
        else texts.gettext("seeds {seeds}", seeds=seeds),
        "×".join(map(str, recipe.picture_size)),
        texts.ngettext("{count} step", "{count} steps", recipe.num_inference_steps),
        texts.gettext("guidance {guidance}", guidance=f"{recipe.guidance_scale:g}"),
        *([texts.gettext("clip skip {number}", number=recipe.clip_skip + 1)] if recipe.clip_skip else []),
        SAMPLER_NAMES[recipe.sampler],
        shown(recipe.model, 80),
        *([texts.gettext("INT8 weights")] if any(image.notes.int8 for image in done) else []),
        *_styled(recipe, texts),
        *_near(recipe, done, texts),
        *_started(recipe, texts),
        *parent_line(job, texts),
    ]
    line = texts.line(texts.joined(parts), mark=SUBTEXT)
    if recipe.negative_prompt.strip():
        negative = shown(recipe.negative_prompt, SHOWN_NEGATIVE_PROMPT)
        without = texts.gettext("without: {negative}", negative=negative)
        line += "\n" + texts.line(without, mark=SUBTEXT)
    if 1 < len(done) <= MOST_BUTTONS:
        line += "\n" + texts.line(_legend(len(done), texts), mark=SUBTEXT)
    return line


def _legend(count: int, texts: Texts) -> str:
    """Return what the buttons of a grid's tiles do."""
    return texts.gettext(
        "{alone} show one picture alone, {like} paint others like it.",
        alone=f"U1–U{count}",
        like=f"V1–V{count}",
    )


def _near(recipe: Recipe, done: Sequence[ImageRecord], texts: Texts) -> Iterator[str]:
    """Yield how the initial noise was varied; the last variation has another seed for each picture."""
    for variation in recipe.variations[:-1]:
        yield texts.gettext("varied by seed {seed}", seed=variation.seed)
    if recipe.variations:
        last = [recipe.from_image(image.index).variations[-1].seed for image in done]
        if len(last) > 1:
            yield texts.gettext("varied by seeds {seeds}", seeds=seeds_text(last))
        else:
            yield texts.gettext("varied by seed {seed}", seed=seeds_text(last))


def _styled(recipe: Recipe, texts: Texts) -> Iterator[str]:
    """Return the name of the style whose texts are in the prompts."""
    if recipe.style:
        yield texts.gettext("style {style}", style=shown(recipe.style, SHOWN_STYLE))


def _started(recipe: Recipe, texts: Texts) -> Iterator[str]:
    """Yield the other settings of a picture: its second pass, given pictures and LoRAs."""
    if (second := recipe.second_pass) is not None:
        yield texts.ngettext(
            "enlarged from {size}, strength {strength}, {count} step",
            "enlarged from {size}, strength {strength}, {count} steps",
            second.num_inference_steps,
            size=f"{recipe.width}×{recipe.height}",
            strength=f"{second.strength:g}",
        )
    strength = f"{recipe.strength:g}"
    if recipe.mask_image is not None:
        yield texts.gettext("part of a picture repainted, strength {strength}", strength=strength)
    elif recipe.init_image is not None:
        yield texts.gettext("from a picture, strength {strength}", strength=strength)
    if recipe.control_image is not None:
        yield texts.gettext(
            "composition kept ({type}), strength {strength}",
            type=recipe.control_type,
            strength=f"{recipe.control_strength:g}",
        )
    if recipe.image_prompt is not None:
        strength = f"{recipe.image_prompt_strength:g}"
        yield texts.gettext("like a picture, strength {strength}", strength=strength)
    if recipe.references:
        yield texts.ngettext(
            "with {count} reference picture", "with {count} reference pictures", count=recipe.references
        )
    if recipe.loras:
        named = (lora.name if lora.weight == 1 else f"{lora.name}:{lora.weight:g}" for lora in recipe.loras)
        yield texts.gettext("with LoRA {names}", names=shown(", ".join(named), SHOWN_LORAS))


def pictures_of(
    job: Job, done: Sequence[ImageRecord], texts: Texts, *, label: bool
) -> Iterator[PictureContent]:
    """Return the open pictures, then the covered ones: a flagged picture covers no other.

    With `label`, their alternative texts say first that AI made them.
    """
    words = ai_label(job.recipe, texts) if label else ""
    for covered in (False, True):
        images = [image for image in done if (image.showing is Showing.SPOILER) is covered]
        if images:
            first = done.index(images[0]) + 1
            yield _picture(job, images, texts, covered=covered, first=first, total=len(done), label=words)


def _picture(
    job: Job,
    images: Sequence[ImageRecord],
    texts: Texts,
    *,
    covered: bool,
    first: int,
    total: int,
    label: str,
) -> PictureContent:
    stem = job.id if len(images) == 1 else f"{job.id}-grid"
    return PictureContent(
        artifacts=tuple(image.artifact for image in images if image.artifact),
        first=first,
        stem=f"SPOILER_{stem}" if covered else stem,
        alt=_alt(tidy(job.recipe.prompt), images, texts, first=first, total=total, label=label),
        spoiler=covered,
    )


def _alt(
    prompt: str, images: Sequence[ImageRecord], texts: Texts, *, first: int, total: int, label: str
) -> str:
    """Return the alternative text of one file: label, prompt, tiles, seeds. Only the prompt is shortened."""
    different = list(dict.fromkeys(image.seed for image in images))  # variations share a seed
    seeds = seeds_text(different)
    last = first + len(images) - 1

    def said(prompt: str) -> str:
        if total == 1:
            return texts.gettext("{prompt}, seed {seed}", prompt=prompt, seed=seeds)
        if len(images) == 1:
            return texts.gettext(
                "{prompt}, picture {number} of {count}, seed {seed}",
                prompt=prompt,
                number=first,
                count=total,
                seed=seeds,
            )
        if len(different) == 1:
            return texts.gettext(
                "{prompt}, pictures {first} to {last} of {count}, seed {seed}",
                prompt=prompt,
                first=first,
                last=last,
                count=total,
                seed=seeds,
            )
        return texts.gettext(
            "{prompt}, pictures {first} to {last} of {count}, seeds {seeds}",
            prompt=prompt,
            first=first,
            last=last,
            count=total,
            seeds=seeds,
        )

    def labelled(prompt: str) -> str:
        return texts.joined([label, said(prompt)]) if label else said(prompt)

    beside = len(labelled(prompt)) - len(prompt)  # includes the direction marks
    return labelled(shortened(prompt, MAX_ALT - beside))
