"""The form that confirms the prompts of a request with alternatives."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.requests.permutations import FORM, PRIVATE, PUBLIC, paint_all

PERMUTATIONS_FORM = Form(template=rf"{FORM}:(?P<visibility>{PRIVATE}|{PUBLIC})", act=paint_all)
