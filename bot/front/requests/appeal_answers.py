"""Answers to appeals that could not be sent: the person reads them beside the next request."""

from __future__ import annotations

import logging

from bot.delivery.review_message import appeal_answer
from bot.domain.errors import StoreUnavailable
from bot.front.answers.answers import add
from bot.front.services.services import Interaction, services_of

log = logging.getLogger(__name__)


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
