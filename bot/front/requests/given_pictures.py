"""Pictures that people give with a request: fetched, cleaned, compared with blocked ones, kept with the job.

Each kind is a field of `Given`, a field of a `Recipe` in `GIVEN`, and a line in `_fetch`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import MASK, REFERENCES, SHOWING, Recipe
from bot.files import KeptFile
from bot.front.recipes.options import Asked, find_offer, with_given
from bot.front.services.request import Request, Services, patiently
from bot.front.uploads.attachments import Attachments
from bot.front.uploads.messages import SentFile
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import MADE_OF_PICTURES

log = logging.getLogger(__name__)

START, CONTROL = "init_image", "control_image"


@dataclass(frozen=True, kw_only=True)
class KeptPicture:
    """A picture whose file is kept for a job already.

    `size` is (width, height) in pixels of what was painted with it.
    """

    name: str
    size: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Given:
    """The pictures of one request, each a file that was sent, or that is kept; the fields are in `GIVEN`.

    Without a `mask_image`, the transparent parts of an `init_image` that was sent are the mask.
    """

    init_image: SentFile | KeptPicture | None = None
    mask_image: SentFile | KeptPicture | None = None
    control_image: SentFile | KeptPicture | None = None
    image_prompt: SentFile | KeptPicture | None = None
    reference: SentFile | KeptPicture | None = None
    reference_2: SentFile | KeptPicture | None = None

    @property
    def sent(self) -> dict[str, SentFile]:
        """The files that were sent, by field."""
        return {field: file for field, file in vars(self).items() if isinstance(file, SentFile)}

    @property
    def kept(self) -> dict[str, KeptPicture]:
        """The pictures whose files are kept already, by field."""
        return {field: file for field, file in vars(self).items() if isinstance(file, KeptPicture)}

    @property
    def files(self) -> int:
        """For how many requests with files it counts in the rates."""
        return 1 if self.sent else 0

    @property
    def references(self) -> int:
        """How many of the pictures are references."""
        return sum(getattr(self, field) is not None for field in REFERENCES)


def given_of(recipe: Recipe) -> Given:
    """Return the pictures that were given for an earlier recipe."""
    size = recipe.width, recipe.height
    return Given(**{field: KeptPicture(name=name, size=size) for field, name in recipe.given.items()})


def check_lengths(request: Request, given: Given) -> None:
    """Raise for a file that is too large by the size in Discord's payload, before it is fetched."""
    for file in given.sent.values():
        if file.size is not None:
            request.services.attachments.check(file.size, what=file.what)


@asynccontextmanager
async def made_with(request: Request, recipe: Recipe, asked: Asked, given: Given) -> AsyncIterator[Recipe]:
    """Yield the recipe with the given pictures; files that were sent are fetched, cleaned and kept.

    A refusal deletes the files that were sent. Raises UserMistake, also `start_known` for a picture that is
    blocked here, and InvalidRequest.
    """
    services, kept = request.services, dict[str, KeptFile]()
    background = "white" if recipe.control_type in MADE_OF_PICTURES else "black"
    pictures = await _cleaned(request, given, background=background) if given.sent else {}
    sizes = {field: file.size for field, file in given.kept.items()}
    sizes |= {field: picture.size for field, picture in pictures.items() if picture.size is not None}
    try:
        for field, picture in pictures.items():
            kept[field] = await services.files.keep_for_now(picture.png, ".png")
        names = {field: file.name for field, file in given.kept.items()}
        names |= {field: file.name for field, file in kept.items()}
        offer = find_offer(recipe.model, request.offers)
        yield with_given(recipe, asked, offer, names=names, sizes=sizes)
    except (InvalidRequest, StoreUnavailable, UserMistake):
        await _take_back(services, list(kept.values()))
        raise


async def _take_back(services: Services, kept: Sequence[KeptFile]) -> None:
    """Delete the files of a refused request; while the queue is unavailable, the sweep finds them later."""
    try:
        await services.files.take_back(kept)
    except StoreUnavailable as error:
        log.warning("%d files of a refused request wait for the sweep: %s", len(kept), error)


@dataclass(frozen=True, kw_only=True)
class _Cleaned:
    """A cleaned file, and its (width, height) in pixels, unless it is a mask."""

    png: bytes
    size: tuple[int, int] | None = None


async def _cleaned(request: Request, given: Given, *, background: str) -> dict[str, _Cleaned]:
    """Return the files that were sent, cleaned, by field; raises UserMistake and InvalidRequest.

    `background` is the colour of a control picture's transparent pixels.
    """
    found: dict[str, _Cleaned] = {}
    async with request.services.attachments.turn(request.sender) as turn:
        for field, file in given.sent.items():
            how = {"what": file.what, "turn": turn}
            found |= await _fetch(request.services.attachments, field, file.address, background, **how)
    for field in SHOWING:
        if field in given.sent:
            await refuse_blocked(request, found[field].png, what=given.sent[field].what)
    return found


async def _fetch(
    attachments: Attachments, field: str, address: str, background: str, **how: Any
) -> Mapping[str, _Cleaned]:
    """Return the file at an address as the picture of a field; a start picture may have its mask with it."""
    if field == MASK:
        return {field: _Cleaned(png=await attachments.mask(address, **how))}
    behind = background if field == CONTROL else "white"
    picture = await attachments.given(address, background=behind, **how)
    found = {field: _Cleaned(png=picture.png, size=(picture.width, picture.height))}
    if field == START and picture.mask is not None:
        found[MASK] = _Cleaned(png=picture.mask)
    return found


async def clean_sent(request: Request, file: SentFile) -> bytes:
    """Fetch a file and return it cleaned; raises UserMistake and InvalidRequest."""
    attachments = request.services.attachments
    async with attachments.turn(request.sender) as turn:
        picture = await attachments.picture(file.address, what=file.what, turn=turn)
    return picture.png


async def hash_sent(request: Request, file: SentFile) -> int:
    """Fetch and clean a file, and return its hash; raises as `clean_sent`."""
    png = await clean_sent(request, file)
    return await request.services.hashing.run(hash_of_file, png)


async def refuse_blocked(request: Request, png: bytes, *, what: str) -> None:
    """Raise UserMistake `start_known` for a cleaned picture that is blocked here, or like a blocked one."""
    number = await request.services.hashing.run(hash_of_file, png)
    blocking = request.services.store.known.blocking
    if await patiently(blocking, request.guild_id, number) is not None:
        raise UserMistake("start_known", what=what)
