"""The button that paints the same with the next seeds."""

from __future__ import annotations

from bot.front.parts import Interaction
from bot.front.requests import request_again
from bot.front.views.pressing import JobButton


async def paint_again(interaction: Interaction, job_id: str) -> None:
    """A new job of the same recipe with the next seeds, shown in a new message as private as the first."""
    await request_again(interaction, job_id)


class AgainButton(JobButton, template=r"again:(?P<job>[0-9a-z]+)"):
    """Anyone who sees a picture may ask for more like it; the new job and its message are theirs."""

    act = staticmethod(paint_again)
