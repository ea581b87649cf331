"""The form of /moderate clear."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.moderators.clearance import FORM, clear

CLEAR_FORM = Form(
    template=rf"{FORM}:(?P<member>[0-9]{{1,19}}):(?P<hours>[0-9]{{1,3}})", act=clear, again=False
)
