"""The form of /settings."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.commands.settings import change_settings

SETTINGS_FORM = Form(template=r"settings:(?P<scope>me|channel|server)", act=change_settings)
