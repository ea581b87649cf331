"""Buttons and menus. All that they know is in their ids, most often a job's id, so they survive restarts.

`RecipeButton`, `RetryButton` and `START_FORM` are the exceptions: their ids are keys of what this process
keeps in memory (`bot.front.services.kept_values`). After a restart the person is told what to do instead.
"""

from bot.front.views.again import AgainButton
from bot.front.views.audit import AuditButton
from bot.front.views.cancel import CancelButton
from bot.front.views.cancel_menu import CancelAllButton, CancelMenu
from bot.front.views.delete import DELETE_FORM, DeleteButton
from bot.front.views.enlarge import EnlargeButton
from bot.front.views.help import HelpButton
from bot.front.views.history import HistoryButton
from bot.front.views.known import BLOCK_PICTURE_FORM, BlockPictureButton, UnblockPictureButton
from bot.front.views.moderate import CLEAR_FORM
from bot.front.views.more import MoreMenu
from bot.front.views.originals import OriginalsButton
from bot.front.views.permutations import PERMUTATIONS_FORM
from bot.front.views.pick import PickMenu
from bot.front.views.policy import POLICY_FORM
from bot.front.views.privacy import PrivacyButton
from bot.front.views.publish import PublishButton
from bot.front.views.recipe import RECIPE_FORM, RecipeButton
from bot.front.views.remix import REMIX_FORM, REMIX_FROM_FORM, RemixButton
from bot.front.views.retry import RetryButton
from bot.front.views.review import (
    APPEAL_FORM,
    REPORT_FORM,
    REVIEW_FORM,
    AppealButton,
    ReviewButton,
    ReviewMenu,
)
from bot.front.views.rules import RULE_FORM
from bot.front.views.session import SESSION_FORM, GroupButton, VoteButton
from bot.front.views.settings import SETTINGS_FORM
from bot.front.views.show import ShowMenu
from bot.front.views.single import SingleButton
from bot.front.views.start import START_FORM
from bot.front.views.style import STYLE_FORM
from bot.front.views.vary import VaryButton
from bot.front.views.wildcard import WILDCARD_FORM

BUTTONS = (
    AgainButton,
    AppealButton,
    AuditButton,
    BlockPictureButton,
    CancelAllButton,
    CancelButton,
    CancelMenu,
    DeleteButton,
    EnlargeButton,
    GroupButton,
    HelpButton,
    HistoryButton,
    MoreMenu,
    OriginalsButton,
    PickMenu,
    PrivacyButton,
    PublishButton,
    RecipeButton,
    RemixButton,
    RetryButton,
    ReviewButton,
    ReviewMenu,
    ShowMenu,
    SingleButton,
    UnblockPictureButton,
    VaryButton,
    VoteButton,
)

FORMS = (
    APPEAL_FORM,
    BLOCK_PICTURE_FORM,
    CLEAR_FORM,
    DELETE_FORM,
    PERMUTATIONS_FORM,
    POLICY_FORM,
    RECIPE_FORM,
    REMIX_FORM,
    REMIX_FROM_FORM,
    REPORT_FORM,
    REVIEW_FORM,
    RULE_FORM,
    SESSION_FORM,
    SETTINGS_FORM,
    START_FORM,
    STYLE_FORM,
    WILDCARD_FORM,
)

__all__ = [
    "BUTTONS",
    "FORMS",
    "AgainButton",
    "AppealButton",
    "AuditButton",
    "BlockPictureButton",
    "CancelAllButton",
    "CancelButton",
    "CancelMenu",
    "DeleteButton",
    "EnlargeButton",
    "GroupButton",
    "HelpButton",
    "HistoryButton",
    "MoreMenu",
    "OriginalsButton",
    "PrivacyButton",
    "PublishButton",
    "RecipeButton",
    "RemixButton",
    "RetryButton",
    "ReviewButton",
    "ReviewMenu",
    "ShowMenu",
    "SingleButton",
    "UnblockPictureButton",
    "VaryButton",
    "VoteButton",
]
