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
from bot.jobs import Job

log = logging.getLogger(__name__)


async def review_mode(interaction: Interaction) -> Hold | None:
    """Return the hold for every result here, by the nearest policy; None without one."""
    if interaction.guild_id is None or not interaction.is_guild_integration():
        return None
    held = (await held_of(interaction)).policy.review
    return Hold(cause=Cause.MODE) if held else None


async def publication_hold(interaction: Interaction, job: Job) -> Hold | None:
    """Return why a result that is published here is held: it may have been painted under other rules.

    Raises UserMistake as `check_words`.
    """
    return await check_words(interaction, job.recipe) or await review_mode(interaction)


async def tell_answers(interaction: Interaction) -> None:
    """Tell the person privately of declined appeals that no direct message could deliver."""
    services = services_of(interaction)
    try:
        left = await services.store.appeals.answers_left(interaction.user.id)
    except StoreUnavailable as error:
        log.warning("whether an appeal was answered cannot be read: %s", error)
        return
    for review in left:
        await add(interaction, appeal_answer(review, services.texts(interaction)))
