"""The form of “Paint from this picture”."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.commands.paint_from import FORM, start

START_FORM = Form(template=rf"{FORM}:(?P<kept>[0-9a-f]+)", act=start)
