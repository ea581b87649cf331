"""The menus of requests to cancel, and the button that cancels all requests of the person."""

from __future__ import annotations

from collections.abc import Sequence

from bot.front.answers.controls import Button, Menu
from bot.front.answers.first_answers import acknowledge_press
from bot.front.commands.cancel import CANCEL_ALL, MINE, OTHERS, cancel_all, cancel_chosen
from bot.front.services.services import Interaction


async def cancel_selected(interaction: Interaction, job_ids: Sequence[str]) -> None:
    """Cancel the chosen jobs; the permission is checked for each."""
    await acknowledge_press(interaction)
    await cancel_chosen(interaction, job_ids)


async def cancel_everything(interaction: Interaction) -> None:
    """Cancel all active jobs of the person who presses."""
    await acknowledge_press(interaction)
    await cancel_all(interaction)


class CancelMenu(Menu, template=f"(?:{MINE}|{OTHERS})"):
    """For one's own requests, and for moderators."""

    act = staticmethod(cancel_selected)


class CancelAllButton(Button, template=CANCEL_ALL):
    """For the person's own requests only."""

    act = staticmethod(cancel_everything)
