"""The content of a message as data: text, pictures, buttons and menus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.domain.jobs import ImageRecord, Job, Showing, State
from bot.domain.sizes import larger_size
from bot.texts.catalogue import Texts
from sdjax_engine.request import Offer

ROW = 5  # the most buttons of a row
MOST_BUTTONS = 4  # pictures of a grid with buttons of their own, as many as fit side by side on a phone

SINGLE, VARY, ENLARGE, FILES, PUBLISH = "single", "vary", "enlarge", "files", "publish"
REMIX = "remix"
MORE, NEAR, FROM, INFO, STAR = "more", "near", "from", "info", "star"  # a menu and the values of its choices
PICK = "pick"  # menus that name one picture, whose ids end with what to do with it
NEED_FILE = frozenset({SINGLE, VARY, ENLARGE, FILES, PUBLISH})
"""The first words of the ids of buttons that need a picture's file."""

REFUSED_SETTINGS = frozenset({"invalid_request", "unsuited_sampler", "not_offered", "lora_not_offered"})
"""Failures of the chosen settings; only the person who chose them sees the message."""

START_LOST = frozenset({"start_missing", "start_not_offered", "start_changed", "start_unfit", "start_known"})
"""Failures that no change of the words or settings can avoid."""

REFUSALS = REFUSED_SETTINGS | START_LOST
"""Failures that a repeated request would have again."""

NOT_AGAIN = REFUSALS | {"worker_died"}  # a repeat of a request that killed two workers may kill two more

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


def final_rows(
    job: Job, done: Sequence[ImageRecord], offers: Sequence[Offer], texts: Texts
) -> tuple[Row, ...]:
    """Return the buttons of a job that has ended and shows the pictures `done`.

    For each picture of a small grid there is a button that shows it alone (U) and one that varies it (V),
    numbered as the tiles; `tile_menus` has the choices of a larger grid. Delete is in the last row, away from
    the buttons that are pressed often.
    """
    again = ButtonContent(label=texts.gettext("Again"), custom_id=f"again:{job.id}", primary=True)
    remix = ButtonContent(label=texts.gettext("Remix"), custom_id=f"{REMIX}:{job.id}")
    hidden = job.hides_words and not job.origin.private
    row: Row = () if all_failed(job, NOT_AGAIN) else (again,)
    row += () if hidden or all_failed(job, START_LOST) else (remix,)
    if len(done) == 1:
        row += (_vary(job, done[0], texts),)
        row += (_enlarge(job, done[0], texts),) if _can_be_larger(job, offers) else ()
    if done:
        row += (ButtonContent(label=texts.gettext("Files"), custom_id=f"{FILES}:{job.id}"),)
    delete = ButtonContent(label=texts.gettext("Delete"), custom_id=f"delete:{job.id}", dangerous=True)
    tiles = _tile_rows(job, done) if 1 < len(done) <= MOST_BUTTONS else ()
    publish = ButtonContent(label=texts.gettext("Publish"), custom_id=f"{PUBLISH}:{job.id}")
    last = (publish, delete) if done and _can_be_published(job) else (delete,)
    if _can_be_appealed(job):
        last = (ButtonContent(label=texts.gettext("Appeal"), custom_id=f"appeal:job:{job.id}"), *last)
    return tuple(filter(None, (*tiles, row, last)))


def tile_menus(job: Job, done: Sequence[ImageRecord], texts: Texts) -> tuple[MenuContent, ...]:
    """Return the menus of a large grid's pictures, whose buttons would take more room than they do."""
    if len(done) <= MOST_BUTTONS:
        return ()
    choices = tuple(
        Choice(
            label=texts.gettext("Picture {number}", number=number),
            value=str(image.index),
            description=texts.gettext("seed {seed}", seed=image.seed),
        )
        for number, image in enumerate(done, start=1)
    )
    placeholders = {
        SINGLE: texts.gettext("Show one picture alone"),
        VARY: texts.gettext("Paint others like one"),
    }
    return tuple(
        MenuContent(custom_id=f"{PICK}:{job.id}:{kind}", placeholder=placeholder, choices=choices)
        for kind, placeholder in placeholders.items()
    )


def more_menu(job: Job, done: Sequence[ImageRecord], texts: Texts) -> MenuContent:
    """Return the menu of the less frequent actions."""
    near = [
        Choice(
            label=texts.gettext("Vary {number} a little", number=number)
            if len(done) > 1
            else texts.gettext("Vary a little"),
            value=f"{NEAR}:{image.index}",
            description=texts.gettext("The same seed, its noise a little changed"),
        )
        for number, image in enumerate(done, start=1)
    ]
    start = Choice(
        label=texts.gettext("Remix from a picture"),
        value=FROM,
        description=texts.gettext("With a start picture and a mask of yours"),
    )
    info = Choice(
        label=texts.gettext("Info"),
        value=INFO,
        description=texts.gettext("The settings as text, and the times"),
    )
    star = Choice(
        label=texts.gettext("★ Favourite"),
        value=STAR,
        description=texts.gettext("Add it to your favourites, or remove it"),
    )
    hidden = job.hides_words and not job.origin.private
    choices = (*near, star, info) if hidden else (*near, start, star, info)
    return MenuContent(custom_id=f"{MORE}:{job.id}", placeholder=texts.gettext("More"), choices=choices)


def without_pictures(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return `rows` without the buttons that need a picture's file, for a message whose files are gone."""
    kept = (tuple(button for button in row if not _needs_file(button)) for row in rows)
    return tuple(row for row in kept if row)


def _needs_file(button: ButtonContent) -> bool:
    return button.custom_id.partition(":")[0] in NEED_FILE


def all_failed(job: Job, kinds: frozenset[str]) -> bool:
    """Return whether the job failed, and each of its failures is of one of these kinds."""
    if job.state is not State.FAILED:
        return False
    failures = (image.failure or "" for image in job.images if image.state is State.FAILED)
    return all(failure.partition(":")[0] in kinds for failure in failures)


def _tile_rows(job: Job, done: Sequence[ImageRecord]) -> Iterator[Row]:
    """Yield the rows of a small grid's tiles: the U buttons, then the V buttons."""
    for letter, kind in (("U", SINGLE), ("V", VARY)):
        yield tuple(
            ButtonContent(label=f"{letter}{number}", custom_id=f"{kind}:{job.id}:{image.index}")
            for number, image in enumerate(done, start=1)
        )


def _vary(job: Job, image: ImageRecord, texts: Texts) -> ButtonContent:
    return ButtonContent(label=texts.gettext("Vary"), custom_id=f"{VARY}:{job.id}:{image.index}")


def _enlarge(job: Job, image: ImageRecord, texts: Texts) -> ButtonContent:
    return ButtonContent(label=texts.gettext("Enlarge"), custom_id=f"{ENLARGE}:{job.id}:{image.index}")


def _can_be_published(job: Job) -> bool:
    return job.origin.private and job.origin.guild_id is not None


def _can_be_appealed(job: Job) -> bool:
    """Return whether moderators could show a withheld picture after an appeal; each job has one appeal."""
    withheld = any(image.showing is Showing.WITHHOLD and image.held for image in job.images)
    return withheld and job.appeal is None and job.origin.guild_id is not None


def _can_be_larger(job: Job, offers: Sequence[Offer]) -> bool:
    size = job.recipe.picture_size
    return any(offer.model == job.recipe.model and larger_size(size, offer) for offer in offers)


MAX_ALT = 1024
SUBTEXT = "-# "  # Markdown of a small line


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
    A `spoiler` is covered until a person uncovers it. A picture `given` with a request is left out where its
    file is gone.
    """

    artifacts: tuple[str, ...]
    first: int = 1
    stem: str
    alt: str
    spoiler: bool = False
    given: bool = False


@dataclass(frozen=True, kw_only=True)
class MessageContent:
    """The content of a message; an edit to an equal content is not needed.

    If words are cut, the line `folded` names the buttons that show all words. The menu `more` is before the
    last row. A `refusal` is shown only to its person if Discord still allows that.
    """

    heading: str
    status: str = ""
    footer: str = ""
    folded: str = ""
    pictures: tuple[PictureContent, ...] = ()
    rows: tuple[Row, ...] = ()
    menus: tuple[MenuContent, ...] = ()
    more: MenuContent | None = None
    tone: Tone
    refusal: bool = False

    @property
    def buttons(self) -> Row:
        """Every button, in reading order."""
        return tuple(button for row in self.rows for button in row)

    @property
    def text(self) -> str:
        """Every line of text, in reading order."""
        return "\n".join(part for part in (self.heading, self.status, self.footer, self.folded) if part)


def shortened(alt: str, most: int = MAX_ALT) -> str:
    """Return alternative text cut to `most` characters, by default as many as Discord takes."""
    return alt if len(alt) <= most else alt[: most - 1] + "…"
