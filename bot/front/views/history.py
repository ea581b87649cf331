"""The buttons that turn the pages of a person's history."""

from __future__ import annotations

from bot.front.answers.controls import Button
from bot.front.answers.first_answers import acknowledge_press
from bot.front.commands.history import Look, page_beside, show_page
from bot.front.services.services import Interaction, sender_of, services_of


async def turn_page(interaction: Interaction, way: str, star: str, key: int, search: str) -> None:
    """Show the page beside the interaction `key`, `way` being older or newer.

    `star` is a star for favourites, or empty; `search` has a colon before its words, or is empty.
    """
    services = services_of(interaction)
    services.pace.admit(sender_of(interaction))
    await acknowledge_press(interaction)
    found = await page_beside(
        services.store.jobs, interaction.user.id, Look(search.removeprefix(":"), starred=bool(star)), way, key
    )
    await show_page(interaction, found)


class HistoryButton(
    Button, template=r"history:(?P<way>older|newer)(?P<star>\*?):(?P<key>[0-9]{1,19})(?P<search>|:.+)"
):
    """Shows the history of the person who presses, to that person alone."""

    act = staticmethod(turn_page)
