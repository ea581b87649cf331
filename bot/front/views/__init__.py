"""Buttons under pictures. They hold a job's id and perhaps a picture's index, so they outlive restarts."""

from bot.front.views.again import AgainButton
from bot.front.views.cancel import CancelButton
from bot.front.views.delete import DeleteButton
from bot.front.views.enlarge import EnlargeButton
from bot.front.views.vary import VaryButton

BUTTONS = (AgainButton, CancelButton, DeleteButton, EnlargeButton, VaryButton)

__all__ = ["BUTTONS", "AgainButton", "CancelButton", "DeleteButton", "EnlargeButton", "VaryButton"]
