"""The button Try again of a refusal, which opens the refused form as it was filled in."""

from __future__ import annotations

from bot.front.answers.answers import RETRY
from bot.front.answers.controls import Button
from bot.front.answers.first_answers import open_form
from bot.front.answers.modals import Filled
from bot.front.services.services import Interaction, services_of


async def open_again(interaction: Interaction, kept: str) -> None:
    """Open the form; raises UserMistake `words_forgotten` where a restart has lost it."""
    form = services_of(interaction).forms.find(kept, user_id=interaction.user.id)
    await open_form(interaction, Filled(form))


CONTROLS = (Button(template=rf"{RETRY}:(?P<kept>[0-9a-f]{{1,32}})", act=open_again),)
