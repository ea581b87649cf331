"""The buttons and forms of reviews and appeals, and the form of a report."""

from __future__ import annotations

from bot.front.answers.controls import Button, Menu
from bot.front.answers.forms import Form
from bot.front.commands.report import FORM, report_picture
from bot.front.commands.review import CASES, show_case
from bot.front.moderators.decisions import appeal, ask_appeal, press, submit

APPEAL = r"appeal:(?P<what>job|refused):(?P<number>[0-9a-z]{1,18})"


class ReviewButton(
    Button, template=r"review:(?P<act>approve|spoiler|reject|accept|decline|block):(?P<key>[0-9]{1,18})"
):
    """For moderators of the server; of several, the first decision stands."""

    act = staticmethod(press)


class ReviewMenu(Menu, template=CASES):
    """For moderators: one of the waiting reviews, to be decided where no channel shows it."""

    act = staticmethod(show_case)


class AppealButton(Button, template=APPEAL):
    """For the person whose prompt was refused, or whose pictures are not shown."""

    act = staticmethod(ask_appeal)


APPEAL_FORM = Form(template=APPEAL, act=appeal, again=False)
REVIEW_FORM = Form(
    template=r"review:(?P<act>reject|decline|block):(?P<review>[0-9]{1,18})", act=submit, again=False
)
REPORT_FORM = Form(template=rf"{FORM}:(?P<job_id>[0-9a-z]+)", act=report_picture, again=False)
