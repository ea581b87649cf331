"""The form of /style add."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.commands.style import ADD, add_style

STYLE_FORM = Form(template=ADD, act=add_style)
