"""Pictures that people send: fetched, cleaned, compared with blocked ones, and kept with the job."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.hashes import hash_of_file
from bot.domain.jobs import Recipe
from bot.files import KeptFile
from bot.front.recipes.options import Asked, find_offer, start_from
from bot.front.services.request import Request, Services, patiently
from bot.front.uploads.messages import SentFile
from bot.front.uploads.untrusted_picture import Picture
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class KeptPicture:
    """A picture whose file is kept for a job already, perhaps with its mask: names of files.

    `size` is (width, height) in pixels.
    """

    name: str
    size: tuple[int, int]
    mask: str | None = None


@asynccontextmanager
async def started_from(
    request: Request,
    recipe: Recipe,
    asked: Asked,
    *,
    image: SentFile | KeptPicture,
    mask: SentFile | None = None,
) -> AsyncIterator[Recipe]:
    """Yield the recipe with its start picture; files that were sent are fetched, cleaned and kept.

    A refusal deletes the files that were sent.
    """
    services = request.services
    picture, hole = await _clean(request, image=image, mask=mask)
    kept: list[KeptFile] = []

    async def keep(png: bytes) -> str:
        kept.append(await services.files.keep_for_now(png, ".png"))
        return kept[-1].name

    try:
        if isinstance(picture, Picture):
            size = picture.width, picture.height
            picture = KeptPicture(name=await keep(picture.png), size=size)
        yield start_from(
            recipe,
            asked,
            find_offer(recipe.model, request.offers),
            size=picture.size,
            picture=picture.name,
            mask=picture.mask if hole is None else await keep(hole),
        )
    except (InvalidRequest, StoreUnavailable, UserMistake):
        await _take_back(services, kept)
        raise


async def _take_back(services: Services, kept: Sequence[KeptFile]) -> None:
    """Delete the files of a refused request; while the queue is unavailable, the sweep finds them later."""
    try:
        await services.files.take_back(kept)
    except StoreUnavailable as error:
        log.warning("%d files of a refused request wait for the sweep: %s", len(kept), error)


async def _clean(
    request: Request, *, image: SentFile | KeptPicture, mask: SentFile | None
) -> tuple[Picture | KeptPicture, bytes | None]:
    """Return the start picture and its mask: the mask that was sent, or else the transparent part.

    Raises UserMistake, also `start_known` for a picture that is blocked here.
    """
    if isinstance(image, KeptPicture) and mask is None:
        return image, None
    attachments, hole = request.services.attachments, None
    async with attachments.turn(request.sender) as turn:
        if isinstance(image, SentFile):
            picture = await attachments.start(image.address, what=image.what, turn=turn)
            hole = picture.mask
        if mask is not None:
            hole = await attachments.mask(mask.address, what=mask.what, turn=turn)
    if isinstance(image, KeptPicture):
        return image, hole
    await refuse_blocked(request, picture.png, what=image.what)
    return picture, hole


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
