"""The form of /settings."""

from __future__ import annotations

from bot.front.commands.settings import change_settings
from bot.front.views.forms import Form

SETTINGS_FORM = Form(template=r"settings:(?P<scope>me|channel|server)", act=change_settings)
