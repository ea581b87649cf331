"""Which buttons and menus a message has: what each says, and the `custom_id` by which the front knows it."""

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
"""Failures that the same request meets again."""

REFUSED_SETTINGS = frozenset({"invalid_request", "unsuited_sampler", "not_offered"})
"""Those of them that concern nobody but the person who chose the settings."""

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
    """One choice of a menu; `value` is what the front is told, `description` a line below the label."""

    label: str
    value: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class MenuContent:
    """A menu of which at most `most` choices are taken at once."""

    custom_id: str
    placeholder: str
    choices: tuple[Choice, ...]
    most: int = 1


def active_rows(job: Job, texts: Texts) -> tuple[Row, ...]:
    """The buttons of a job that has not ended."""
    return ((ButtonContent(label=texts.gettext("Cancel"), custom_id=f"cancel:{job.id}", dangerous=True),),)


def final_rows(
    job: Job, done: Sequence[ImageRecord], offers: Sequence[Offer], texts: Texts
) -> tuple[Row, ...]:
    """The buttons of a job that has ended, of whose pictures `done` are shown.

    A picture alone has all its buttons in one row; of several, each has its own, numbered as they stand in
    the grid.
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
    """`rows` less what only a picture whose file is there has: buttons that name one beside their job."""
    kept = (tuple(button for button in row if button.custom_id.count(":") == 1) for row in rows)
    return tuple(row for row in kept if row)


def all_failed(job: Job, kinds: frozenset[str]) -> bool:
    """Whether no picture was painted, and each that failed did so in one of these ways."""
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
    """As few rows as there can be, as alike in length as they can be: nine in five and four."""
    count = -(-len(buttons) // ROW)
    length = -(-len(buttons) // count)
    for start in range(0, len(buttons), length):
        yield tuple(buttons[start : start + length])
