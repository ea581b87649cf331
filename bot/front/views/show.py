"""The menu that shows a person's results again."""

from __future__ import annotations

from collections.abc import Sequence

from bot.front.answers.controls import Menu
from bot.front.commands.history import SHOW
from bot.front.results.shown_again import show_again
from bot.front.services.services import Interaction


async def show_chosen(interaction: Interaction, job_ids: Sequence[str]) -> None:
    """Show the chosen job."""
    await show_again(interaction, job_ids[0])


class ShowMenu(Menu, template=SHOW):
    """Shows a job's pictures to the person who asked for them."""

    act = staticmethod(show_chosen)
