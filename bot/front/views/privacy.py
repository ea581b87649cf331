"""The buttons that export and delete what is stored of a person."""

from __future__ import annotations

from bot.front.answers.controls import Button
from bot.front.commands import privacy
from bot.front.services.services import Interaction

TEMPLATE = r"privacy:(?P<choice>export|ask|forget)(?P<begin>(?::\d{1,19}:\d{1,3})?)"
CHOICES = {privacy.ASK: privacy.ask, privacy.FORGET: privacy.forget_all}


async def choose(interaction: Interaction, choice: str, begin: str) -> None:
    """Export, from the beginning or where an earlier part ends, ask whether to delete, or delete."""
    if choice == privacy.EXPORT:
        await privacy.export(interaction, begin)
    else:
        await CHOICES[choice](interaction)


class PrivacyButton(Button, template=TEMPLATE):
    """Acts on the rows and files of the person who presses, and of no other person."""

    act = staticmethod(choose)
