"""The form of /style add."""

from __future__ import annotations

from bot.front.commands.style import ADD, add_style
from bot.front.views.forms import Form

STYLE_FORM = Form(template=ADD, act=add_style)
