"""The form of /wildcard add."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.commands.wildcard import ADD, add_wildcard

WILDCARD_FORM = Form(template=ADD, act=add_wildcard)
