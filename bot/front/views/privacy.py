"""The buttons that export and delete what is stored of a person."""

from __future__ import annotations

from bot.front.commands import privacy
from bot.front.services import Interaction
from bot.front.views.items import Button

CHOICES = {privacy.EXPORT: privacy.export, privacy.ASK: privacy.ask, privacy.FORGET: privacy.forget_all}


async def choose(interaction: Interaction, choice: str) -> None:
    """Export, ask whether to delete, or delete."""
    await CHOICES[choice](interaction)


class PrivacyButton(Button, template=rf"privacy:(?P<choice>{'|'.join(CHOICES)})"):
    """Acts on the rows and files of the person who presses, and of no other person."""

    act = staticmethod(choose)
