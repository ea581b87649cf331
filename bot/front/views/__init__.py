"""Buttons under pictures. They hold a job's id and nothing else, so they outlive every restart."""

from bot.front.views.again import AgainButton
from bot.front.views.cancel import CancelButton
from bot.front.views.delete import DeleteButton

BUTTONS = (AgainButton, CancelButton, DeleteButton)

__all__ = ["BUTTONS", "AgainButton", "CancelButton", "DeleteButton"]
