"""Buttons and menus. They hold only ids, of jobs, images or interactions, so they work after restarts."""

from bot.front.views.again import AgainButton
from bot.front.views.cancel import CancelButton
from bot.front.views.cancel_menu import CancelAllButton, CancelMenu
from bot.front.views.delete import DeleteButton
from bot.front.views.enlarge import EnlargeButton
from bot.front.views.history import HistoryButton
from bot.front.views.privacy import PrivacyButton
from bot.front.views.show import ShowMenu
from bot.front.views.vary import VaryButton

BUTTONS = (
    AgainButton,
    CancelAllButton,
    CancelButton,
    CancelMenu,
    DeleteButton,
    EnlargeButton,
    HistoryButton,
    PrivacyButton,
    ShowMenu,
    VaryButton,
)

__all__ = [
    "BUTTONS",
    "AgainButton",
    "CancelAllButton",
    "CancelButton",
    "CancelMenu",
    "DeleteButton",
    "EnlargeButton",
    "HistoryButton",
    "PrivacyButton",
    "ShowMenu",
    "VaryButton",
]
