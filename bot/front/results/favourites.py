"""Favourites: a result is marked and unmarked in its menu, or by a star as a reaction to its message."""

from __future__ import annotations

import logging

import discord

from bot.domain.errors import StoreUnavailable, UnknownJob, UserMistake
from bot.front.answers.answers import acknowledge
from bot.front.answers.permissions import may_repeat
from bot.front.services.request import Request, Services
from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

STARS = frozenset({"\N{WHITE MEDIUM STAR}", "\N{GLOWING STAR}"})
"""The reactions that mark a favourite."""


async def change_favourite(request: Request, job_id: str) -> None:
    """Mark a job as the person's favourite, or unmark it, and answer the person privately.

    Raises UnknownJob for a job that the person may not see, UserMistake where they have too many.
    """
    services = request.services
    services.pace.admit(request.sender)
    await acknowledge(request, private=True)
    job = await services.store.jobs.get(job_id)
    if not may_repeat(request, job, privately=True):
        raise UnknownJob(job=job_id)
    if await services.store.favourites.remove(request.person.id, job_id):
        await request.edit(content=request.texts.gettext("Removed from your favourites."))
        return
    await services.store.favourites.add(request.person.id, job_id)
    await request.edit(content=kept_text(request.texts, str(request.interaction.locale)))


def kept_text(texts: Texts, locale: str) -> str:
    """Return the sentence about a new favourite, which names the command as Discord shows it in `locale`."""
    names = Texts.for_locale(locale)
    history, favourites = names.pgettext("name", "history"), names.pgettext("name", "favourites")
    command = f"`/{history} {favourites}:True`"
    return texts.gettext("Added to your favourites: {command} shows them.", command=command)


async def react(
    services: Services, event: discord.RawReactionActionEvent, bot_id: int, *, added: bool
) -> None:
    """Mark or unmark the result of a message after a person added or removed a star.

    Only persons who see a message can react to it, and private answers take no reactions. A reaction cannot
    be answered: a favourite over the limit is ignored.
    """
    # The event of a removed reaction does not name the author of the message.
    foreign = event.message_author_id not in (None, bot_id)
    if foreign or event.user_id == bot_id or str(event.emoji) not in STARS:
        return
    try:
        job_id = await services.store.jobs.shown_by(event.message_id)
        if job_id is None:
            return
        if added:
            job = await services.store.jobs.get(job_id)
            if job.hides_words and event.user_id != job.origin.user_id:
                return  # a list of favourites shows the words
            await services.store.favourites.add(event.user_id, job_id)
        else:
            await services.store.favourites.remove(event.user_id, job_id)
    except (UnknownJob, UserMistake) as refused:
        log.info("a star reaction was not stored as a favourite: %r", refused)
    except StoreUnavailable:  # it is logged already: a line that names it would be dropped
        log.error("a star reaction could not be stored, and is lost")
