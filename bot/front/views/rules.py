"""The form of /rules add."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.commands.rules import RULE, add_rule

RULE_FORM = Form(template=rf"{RULE}:(?P<action>refuse|hold|allow):(?P<channel_id>[0-9]+)", act=add_rule)
