"""The form, the ballot and the button of group sessions."""

from __future__ import annotations

from bot.front.answers.controls import Button
from bot.front.answers.forms import Form
from bot.front.commands.session import show_mine, vote
from bot.front.sessions.opening import FORM, open_session

SESSION_FORM = Form(
    template=rf"{FORM}:(?P<where>thread|here):(?P<role>[0-9]{{1,19}}):(?P<channel>[0-9]{{1,19}}):(?P<voting>[0-9]{{1,4}})"
    r":(?P<hours>[0-9]{1,2}):(?P<review>[01])",
    act=open_session,
)


class GroupButton(Button, template=r"group:(?P<session_id>[0-9a-f]{8}):[a-z0-9.]+"):
    """Tells any person what they may still paint."""

    act = staticmethod(show_mine)


class VoteButton(
    Button, template=r"vote:(?P<session_id>[0-9a-f]{8}):(?P<round_number>[0-9]{1,9}):(?P<number>[0-9]{1,9})"
):
    """For members who take part, on pictures of others; right and time are checked at the press."""

    act = staticmethod(vote)
