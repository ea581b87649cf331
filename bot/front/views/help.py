"""The button under /help that shows moderators the page for them."""

from __future__ import annotations

from bot.front.answers.controls import Button
from bot.front.commands.help import FOR_MODERATORS
from bot.front.commands.help_for_moderators import show_moderators_help


class HelpButton(Button, template=FOR_MODERATORS):
    """For everybody who has it; only moderators see what is done in the server."""

    act = staticmethod(show_moderators_help)
