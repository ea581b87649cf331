"""The button that paints the same recipe with the next seeds."""

from __future__ import annotations

from bot.domain.jobs import Descent
from bot.front.answers.controls import Button
from bot.front.requests.intake import (
    accept,
    announce,
    check_offered,
    enqueue_again,
    parent_of,
    pressed_privately,
    repeatable,
)
from bot.front.services.services import Interaction


async def paint_again(interaction: Interaction, job_id: str) -> None:
    """Queue a job of the same recipe with the next seeds, shown in a new message as private as the first."""
    parent = parent_of(interaction, job_id, Descent.REPEAT)
    origin = await accept(interaction, private=pressed_privately(interaction), parent=parent)
    earlier = await repeatable(interaction, job_id)
    check_offered(interaction, earlier.recipe)
    job = await enqueue_again(interaction, earlier, origin)
    await announce(interaction, job)


class AgainButton(Button, template=r"again:(?P<job_id>[0-9a-z]+)"):
    """Any person who sees a picture may ask for more; the new job and its message are theirs."""

    act = staticmethod(paint_again)
