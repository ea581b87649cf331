"""The buttons and menus of a message: labels, and the `custom_id` that the front reads at a press."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.jobs import ImageRecord, Job, State, larger_size
from bot.texts import Texts
from sdjax_engine.request import Offer

ROW = 5  # buttons that Discord puts side by side
REFUSALS = frozenset(
    {
        "invalid_request",
        "unsuited_sampler",
        "not_offered",
        "start_missing",
        "start_not_offered",
        "start_changed",
    }
)
"""Failures that a repeat of the request would meet again."""

REFUSED_SETTINGS = frozenset({"invalid_request", "unsuited_sampler", "not_offered"})
"""Failures of the chosen settings, which only the person who chose them is told."""

NOT_AGAIN = REFUSALS | {"worker_died"}  # the next seed of a request that killed two workers may kill two more

Row = tuple["ButtonContent", ...]


@dataclass(frozen=True, kw_only=True)
class ButtonContent:
    """One button."""

    label: str
    custom_id: str
    primary: bool = False
    dangerous: bool = False


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One choice of a menu; the front gets `value`, and `description` is a line below the label."""

    label: str
    value: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class MenuContent:
    """A menu in which at most `most` choices can be taken at once."""

    custom_id: str
    placeholder: str
    choices: tuple[Choice, ...]
    most: int = 1


def active_rows(job: Job, texts: Texts) -> tuple[Row, ...]:
    """Return the buttons of an active job."""
    return ((ButtonContent(label=texts.gettext("Cancel"), custom_id=f"cancel:{job.id}", dangerous=True),),)


def final_rows(
    job: Job, done: Sequence[ImageRecord], offers: Sequence[Offer], texts: Texts
) -> tuple[Row, ...]:
    """Return the buttons of a job that has ended and shows the pictures `done`.

    A single picture has all its buttons in one row. Several pictures have buttons each, numbered as in the
    grid.
    """
    button = ButtonContent(label=texts.gettext("Again"), custom_id=f"again:{job.id}", primary=True)
    again = () if all_failed(job, NOT_AGAIN) else (button,)
    delete = ButtonContent(label=texts.gettext("Delete"), custom_id=f"delete:{job.id}", dangerous=True)
    kinds = [_vary, _enlarge] if _can_be_larger(job, offers) else [_vary]
    if len(done) <= 1:
        own = [make(job, image, None, texts) for make in kinds for image in done]
        return ((*again, *own, delete),)
    numbered = list(enumerate(done, start=1))
    rows = [_rows([make(job, image, number, texts) for number, image in numbered]) for make in kinds]
    return (*(row for kind in rows for row in kind), (*again, delete))


def without_pictures(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return `rows` without the buttons that name a picture, for a message whose files are gone."""
    kept = (tuple(button for button in row if button.custom_id.count(":") == 1) for row in rows)
    return tuple(row for row in kept if row)


def all_failed(job: Job, kinds: frozenset[str]) -> bool:
    """Return whether the job failed, and each of its failures is of one of these kinds."""
    if job.state is not State.FAILED:
        return False
    failures = (image.failure or "" for image in job.images if image.state is State.FAILED)
    return all(failure.partition(":")[0] in kinds for failure in failures)


def _vary(job: Job, image: ImageRecord, number: int | None, texts: Texts) -> ButtonContent:
    vary = texts.gettext("Vary") if number is None else texts.gettext("Vary {number}", number=number)
    return ButtonContent(label=vary, custom_id=f"vary:{job.id}:{image.index}")


def _enlarge(job: Job, image: ImageRecord, number: int | None, texts: Texts) -> ButtonContent:
    larger = texts.gettext("Enlarge") if number is None else texts.gettext("Enlarge {number}", number=number)
    return ButtonContent(label=larger, custom_id=f"enlarge:{job.id}:{image.index}")


def _can_be_larger(job: Job, offers: Sequence[Offer]) -> bool:
    size = job.recipe.width, job.recipe.height
    return any(offer.model == job.recipe.model and larger_size(size, offer) for offer in offers)


def _rows(buttons: Sequence[ButtonContent]) -> Iterator[Row]:
    """Yield as few rows as possible, of similar length: nine buttons as five and four."""
    count = -(-len(buttons) // ROW)
    length = -(-len(buttons) // count)
    for start in range(0, len(buttons), length):
        yield tuple(buttons[start : start + length])
