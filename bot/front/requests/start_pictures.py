"""The picture that a request starts from: fetched, cleaned and kept with the job."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bot.domain.errors import StoreUnavailable, UserMistake
from bot.domain.jobs import Recipe
from bot.files import KeptFile
from bot.front.recipes.options import Asked, find_offer, start_from
from bot.front.requests.picture_checks import refuse_blocked
from bot.front.requests.standing import offers_here
from bot.front.services.services import Interaction, Services, sender_of, services_of
from bot.front.uploads.sent_file import SentFile
from bot.front.uploads.untrusted_picture import Picture
from sdjax_engine.errors import InvalidRequest

log = logging.getLogger(__name__)


@asynccontextmanager
async def started_from(
    interaction: Interaction, recipe: Recipe, asked: Asked, *, image: SentFile, mask: SentFile | None = None
) -> AsyncIterator[Recipe]:
    """Yield the recipe with its start picture, fetched, cleaned and kept; a refusal deletes the file."""
    services = services_of(interaction)
    picture, hole = await _clean(interaction, image=image, mask=mask)
    await refuse_blocked(interaction, picture.png, what=image.what)
    kept: list[KeptFile] = []
    try:
        for png in (picture.png, hole):
            if png is not None:
                kept.append(await services.files.keep_for_now(png, ".png"))
        yield start_from(
            recipe,
            asked,
            find_offer(recipe.model, offers_here(interaction)),
            size=(picture.width, picture.height),
            picture=kept[0].name,
            mask=None if hole is None else kept[1].name,
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
    interaction: Interaction, *, image: SentFile, mask: SentFile | None
) -> tuple[Picture, bytes | None]:
    """Return the start picture and its mask: the mask that was sent, or else the transparent part."""
    attachments, sender = services_of(interaction).attachments, sender_of(interaction)
    async with attachments.turn(sender) as turn:
        picture = await attachments.start(image.address, what=image.what, turn=turn)
        if mask is None:
            return picture, picture.mask
        return picture, await attachments.mask(mask.address, what=mask.what, turn=turn)
