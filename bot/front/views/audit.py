"""The buttons that turn the pages of the audit log and export it."""

from __future__ import annotations

from bot.front.answers.controls import Button
from bot.front.commands.audit import EXPORT, NEWER, OLDER, act_on
from bot.store.rows.audit import Act


class AuditButton(
    Button,
    template=rf"audit:(?P<way>{OLDER}|{NEWER}|{EXPORT}):(?P<key>[0-9]{{1,19}})"
    rf":(?P<person>[0-9]{{1,19}}):(?P<kind>|{'|'.join(Act)})",
):
    """For moderators of the server, checked at each press."""

    act = staticmethod(act_on)
