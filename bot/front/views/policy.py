"""The form of /policy set."""

from __future__ import annotations

from bot.front.answers.forms import Form
from bot.front.commands.policy import POLICY, change_policy
from bot.front.moderators.policy_values import GROUPS

POLICY_FORM = Form(
    template=rf"{POLICY}:(?P<what>{'|'.join(GROUPS)}):(?P<scope>server|channel|role):(?P<owner_id>[0-9]{{1,20}})",
    act=change_policy,
)
