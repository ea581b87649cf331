"""The button that shows one picture of a grid alone, in full size."""

from __future__ import annotations

from bot.domain.jobs import Descent
from bot.front.answers.controls import Button
from bot.front.requests.intake import accept, copy, parent_of, pressed_privately, repeatable
from bot.front.requests.standing import wants_private
from bot.front.services.services import Interaction


async def show_single(interaction: Interaction, job_id: str, index: int) -> None:
    """Store a job that shows the picture alone, as private as the grid; the outbox delivers it."""
    parent = parent_of(interaction, job_id, Descent.SINGLE, index)
    private = pressed_privately(interaction) or await wants_private(interaction)
    origin = await accept(interaction, private=private, parent=parent, paints=False)
    job = await repeatable(interaction, job_id)
    await copy(interaction, job, origin, index=index)


class SingleButton(Button, template=r"single:(?P<job_id>[0-9a-z]+):(?P<index>[0-9])"):
    """Any person who sees a grid may show one of its pictures; the new message is theirs."""

    act = staticmethod(show_single)
