"""The form of /wildcard add."""

from __future__ import annotations

from bot.front.commands.wildcard import ADD, add_wildcard
from bot.front.views.forms import Form

WILDCARD_FORM = Form(template=ADD, act=add_wildcard)
