"""The form that confirms the prompts of a request with alternatives."""

from __future__ import annotations

from bot.front.permutations import FORM, PRIVATE, PUBLIC, paint_all
from bot.front.views.forms import Form

PERMUTATIONS_FORM = Form(template=rf"{FORM}:(?P<visibility>{PRIVATE}|{PUBLIC})", act=paint_all)
