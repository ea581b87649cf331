"""The button that cancels a job."""

from __future__ import annotations

from bot.domain.errors import UnreadableJob, UserMistake
from bot.front.answers.controls import Button
from bot.front.answers.first_answers import acknowledge_press
from bot.front.answers.permissions import asker, moderator_of
from bot.front.services.services import Interaction, services_of


async def cancel(interaction: Interaction, job_id: str) -> None:
    """Cancel the job; the delivery edits its message."""
    await acknowledge_press(interaction)
    store = services_of(interaction).store
    try:
        job = await store.jobs.get(job_id)
    except UnreadableJob:  # the person needs no more than its id
        await store.jobs.cancel(job_id, user_id=interaction.user.id)
        return
    right = asker(interaction, job)
    if job.state.final and right in (None, job.origin.user_id):
        raise UserMistake("already_ended")
    await store.jobs.cancel(job_id, user_id=right, by=moderator_of(interaction, job))


class CancelButton(Button, template=r"cancel:(?P<job_id>[0-9a-z]+)"):
    """For the person who asked, and for moderators."""

    act = staticmethod(cancel)
