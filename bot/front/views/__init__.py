"""Buttons. They hold ids, of a job and perhaps an image or of an interaction, and so outlive restarts."""

from bot.front.views.again import AgainButton
from bot.front.views.cancel import CancelButton
from bot.front.views.delete import DeleteButton
from bot.front.views.enlarge import EnlargeButton
from bot.front.views.history import HistoryButton
from bot.front.views.vary import VaryButton

BUTTONS = (AgainButton, CancelButton, DeleteButton, EnlargeButton, HistoryButton, VaryButton)

__all__ = [
    "BUTTONS",
    "AgainButton",
    "CancelButton",
    "DeleteButton",
    "EnlargeButton",
    "HistoryButton",
    "VaryButton",
]
