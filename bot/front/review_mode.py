"""Whether results go to moderators first, also published ones, and answers to appeals that were not sent."""

from __future__ import annotations

import logging

from bot.delivery.review_message import appeal_answer
from bot.errors import StoreUnavailable
from bot.front.allowed import held_of
from bot.front.answers import add
from bot.front.ruling import check_words
from bot.front.services import Interaction, services_of
from bot.holds import Cause, Hold
from bot.jobs import Job, Origin
from bot.moderation.pictures import stricter
from bot.store.rows import showings_from

log = logging.getLogger(__name__)


async def review_mode(interaction: Interaction) -> Hold | None:
    """Return the hold of every result here, as the nearest policy has it; None where there is none."""
    if interaction.guild_id is None or not interaction.is_guild_integration():
        return None
    held = (await held_of(interaction)).policy.review
    return Hold(cause=Cause.MODE) if held else None


async def publication_hold(interaction: Interaction, job: Job, origin: Origin) -> Hold | None:
    """Return why a result that is published here is held: it may have been painted under other rules.

    Raises UserMistake as `check_words`.
    """
    hold = await check_words(interaction, job.recipe) or await review_mode(interaction)
    return hold or (Hold(cause=Cause.PICTURE) if is_too_open(job, origin) else None)


def is_too_open(job: Job, origin: Origin) -> bool:
    """Return whether the policy of `origin` shows a picture of the job less openly than it is shown.

    What moderators of the same server have decided on the job stands.
    """
    said = showings_from(origin.policy)
    decided = job.ruling is not None and job.origin.guild_id == origin.guild_id
    if said is None or decided:
        return False
    levels = [(image.showing, image.notes.level.number) for image in job.images if image.artifact]
    return any(stricter(showing, said[level - 1]) is not showing for showing, level in levels if level)


async def tell_answers(interaction: Interaction) -> None:
    """Tell the person alone of declined appeals that no direct message could tell."""
    services = services_of(interaction)
    try:
        left = await services.store.appeals.answers_left(interaction.user.id)
    except StoreUnavailable as error:
        log.warning("whether an appeal was answered cannot be read: %s", error)
        return
    for review in left:
        await add(interaction, appeal_answer(review, services.texts(interaction)))
