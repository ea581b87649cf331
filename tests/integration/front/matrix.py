"""Who may use which command, menu, button and form: the table that `test_front_matrix` holds the bot to.

A new command needs a row in COMMANDS, a new menu in MENUS, a new button or select menu in BUTTONS, a new form
in FORMS; the test names those without one. A row says who is refused and with which mistake of
`bot.texts.mistakes.MISTAKES`; all others must not meet any of the mistakes in `ABOUT_RIGHTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any

ABOUT_RIGHTS = frozenset(
    {
        "blocked_everywhere",
        "blocked_here",
        "blocked_server",
        "kept_no_server",
        "kept_right",
        "moderate_no_server",
        "moderate_right",
        "not_yours",
        "policy_right",
        "session_host",
        "session_moderator",
        "session_right",
        "settings_channel_right",
        "settings_no_server",
        "settings_server_right",
        "unknown_job",
    }
)
"""The mistakes that tell a person that they may not do this, or not here."""


class Who(StrEnum):
    """Who acts, and where. The target, where there is one, is a public result of `MEMBER` in this server."""

    MEMBER = auto()
    STRANGER = auto()  # another member
    APPOINTED = auto()  # with Manage Messages in this channel only
    MODERATOR = auto()  # with Manage Messages in the server
    OWNER = auto()  # of the server, an administrator
    BLOCKED = auto()  # the member, blocked by a moderator
    ELSEWHERE = auto()  # the member in a server without the bot, where they are an administrator
    DIRECT = auto()  # the member in a direct message
    CURIOUS = auto()  # another member, whose target is a private result of the member
    FOREIGN = auto()  # the owner, whose target is another person's result of another server


ASKERS = (Who.MEMBER, Who.BLOCKED, Who.ELSEWHERE, Who.DIRECT)
OTHERS = (Who.STRANGER, Who.APPOINTED, Who.MODERATOR, Who.OWNER)
WITHOUT_TARGET = (*ASKERS, *OTHERS)
OF_HIDDEN = (Who.CURIOUS, Who.FOREIGN)

Refusals = Mapping[Who, str]


@dataclass(frozen=True, kw_only=True)
class Row:
    """An interaction, and the members to whom it is refused.

    In an id or a value, `{job}` is the job and `{member}` its requester.
    """

    refused: Refusals = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    custom_id: str = ""
    values: tuple[str, ...] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    moderating: bool = False
    hosting: bool = False
    under_message: bool = False  # a form that a button opens
    ends: bool = False  # it cancels or deletes its target, so that each use gets a new one

    @property
    def has_target(self) -> bool:
        """Whether it is about a result."""
        texts = (self.custom_id, *(self.values or ()), *self.options.values())
        return any("{job}" in str(text) for text in texts)


ANYBODY: Refusals = {}
PAINTS: Refusals = {Who.BLOCKED: "blocked_here"}
MODERATES: Refusals = {
    **dict.fromkeys((Who.MEMBER, Who.STRANGER, Who.APPOINTED, Who.BLOCKED), "moderate_right"),
    **dict.fromkeys((Who.ELSEWHERE, Who.DIRECT), "moderate_no_server"),
}
MODERATES_CHANNEL: Refusals = {who: why for who, why in MODERATES.items() if who is not Who.APPOINTED}
NOWHERE_ELSE: Refusals = dict.fromkeys((Who.ELSEWHERE, Who.DIRECT), "moderate_no_server")
SETS_POLICIES: Refusals = {
    **NOWHERE_ELSE,
    **dict.fromkeys((Who.MEMBER, Who.STRANGER, Who.APPOINTED, Who.MODERATOR, Who.BLOCKED), "policy_right"),
}
OPENS_SESSIONS: Refusals = {
    **NOWHERE_ELSE,
    **dict.fromkeys((Who.MEMBER, Who.STRANGER, Who.BLOCKED), "session_right"),
}
KEEPS: Refusals = {
    **dict.fromkeys((Who.MEMBER, Who.STRANGER, Who.BLOCKED), "kept_right"),
    Who.ELSEWHERE: "moderate_no_server",
    Who.DIRECT: "kept_no_server",
}
SEES: Refusals = dict.fromkeys(OF_HIDDEN, "unknown_job")
REPEATS: Refusals = {**SEES, **PAINTS}
ENDS: Refusals = dict.fromkeys((Who.STRANGER, *OF_HIDDEN), "not_yours")
OWNS: Refusals = {**dict.fromkeys((*OTHERS, *OF_HIDDEN), "not_yours"), **PAINTS}

PERSON = {"member": "{member}"}
WORDS = {"prompt": "a kite", "negative_prompt": "", "settings": ""}

COMMANDS: Mapping[str, Row] = {
    "imagine": Row(refused=PAINTS, options={"prompt": "a kite"}),
    "queue": Row(),
    "history": Row(),
    "show": Row(refused=SEES, options={"job": "{job}"}),
    "stats": Row(),
    "cancel": Row(refused=ENDS, options={"job": "{job}"}, ends=True),
    "settings": Row(),
    "style add": Row(refused=KEEPS),
    "style show": Row(),
    "style remove": Row(refused=KEEPS, options={"name": "Ink"}),
    "wildcard add": Row(refused=KEEPS),
    "wildcard show": Row(),
    "wildcard remove": Row(refused=KEEPS, options={"name": "colour"}),
    "rules add": Row(refused=MODERATES, moderating=True),
    "rules show": Row(refused=MODERATES, moderating=True),
    "rules try": Row(refused=MODERATES, moderating=True, options={"prompt": "fog"}),
    "rules remove": Row(refused=MODERATES, moderating=True, options={"name": "No fog"}),
    "rules automod": Row(refused=MODERATES, moderating=True, options={"use": "on"}),
    "privacy": Row(),
    "moderate block": Row(refused=MODERATES, moderating=True, options=PERSON),
    "moderate unblock": Row(refused=MODERATES, moderating=True, options=PERSON),
    "moderate pause": Row(refused=MODERATES_CHANNEL, moderating=True),
    "moderate resume": Row(refused=MODERATES_CHANNEL, moderating=True),
    "moderate clear": Row(refused=MODERATES, moderating=True, options=PERSON),
    "moderate show": Row(refused=MODERATES, moderating=True),
    "audit": Row(refused=MODERATES, moderating=True),
    "help": Row(),
    "limits": Row(),
    "policy set": Row(refused=SETS_POLICIES, moderating=True, options={"what": "quotas"}),
    "policy show": Row(refused=MODERATES_CHANNEL, moderating=True),
    "policy why": Row(refused=MODERATES_CHANNEL, moderating=True, options=PERSON),
    "policy reset": Row(refused=SETS_POLICIES, moderating=True),
    "review channel": Row(refused=MODERATES, moderating=True),
    "review limits": Row(refused=MODERATES, moderating=True, options={"hours": 24}),
    "review show": Row(refused=MODERATES, moderating=True),
    "whose": Row(refused=MODERATES, moderating=True),
    "known block": Row(refused=MODERATES, moderating=True, options={"picture": 0}),
    "known show": Row(refused=MODERATES, moderating=True),
    "known remove": Row(refused=MODERATES, moderating=True, options={"name": "0123456789abcdef"}),
    "session open": Row(refused=OPENS_SESSIONS, hosting=True),
    "session next": Row(refused=NOWHERE_ELSE, hosting=True),
    "session pause": Row(refused=NOWHERE_ELSE, hosting=True),
    "session resume": Row(refused=NOWHERE_ELSE, hosting=True),
    "session extend": Row(refused=NOWHERE_ELSE, hosting=True, options={"minutes": 5}),
    "session close": Row(refused=NOWHERE_ELSE, hosting=True),
    "session show": Row(refused=NOWHERE_ELSE, hosting=True),
    "session host": Row(refused=NOWHERE_ELSE, hosting=True),
}

MENUS: Mapping[str, Row] = {
    "Use this recipe": Row(refused=PAINTS),
    "Paint from this picture": Row(refused=PAINTS),
    "Keep this composition": Row(refused=PAINTS),
    "Like this picture": Row(refused=PAINTS),
    "Change this picture": Row(refused=PAINTS),
    "Made by AI?": Row(refused=ANYBODY),
    "Report this picture": Row(refused=NOWHERE_ELSE),
    "Whose picture is this?": Row(refused=MODERATES, moderating=True),
}

BUTTONS: Mapping[str, Row] = {
    "again": Row(refused=REPEATS, custom_id="again:{job}"),
    "appeal": Row(custom_id="appeal:refused:9"),
    "audit": Row(refused=MODERATES, custom_id="audit:older:9:0:"),
    "block_picture": Row(refused=MODERATES, custom_id="block_picture:0123456789abcdef"),
    "cancel_all": Row(custom_id="cancel_all"),
    "cancel": Row(refused=ENDS, custom_id="cancel:{job}", ends=True),
    "cancel_others": Row(refused=ENDS, custom_id="cancel_others", values=("{job}",), ends=True),
    "delete": Row(refused=ENDS, custom_id="delete:{job}"),
    "enlarge": Row(refused=REPEATS, custom_id="enlarge:{job}:0"),
    "group": Row(custom_id="group:0123abcd:mine"),
    "help:moderators": Row(custom_id="help:moderators"),
    "history": Row(custom_id="history:older:9"),
    "more": Row(refused=SEES, custom_id="more:{job}", values=("info",)),
    "files": Row(refused=SEES, custom_id="files:{job}"),
    "pick": Row(refused=REPEATS, custom_id="pick:{job}:single", values=("0",)),
    "privacy": Row(custom_id="privacy:ask"),
    "publish": Row(refused=OWNS, custom_id="publish:{job}"),
    "recipe_read": Row(custom_id="recipe_read:0f"),
    "remix": Row(refused=REPEATS, custom_id="remix:{job}"),
    "retry": Row(custom_id="retry:0f"),
    "review": Row(refused=MODERATES, custom_id="review:approve:9"),
    "reviewcase": Row(refused=MODERATES, custom_id="reviewcase", values=("9",)),
    "history_show": Row(refused=SEES, custom_id="history_show", values=("{job}",)),
    "single": Row(refused=REPEATS, custom_id="single:{job}:0"),
    "unblock_picture": Row(refused=MODERATES, custom_id="unblock_picture:0123456789abcdef"),
    "vary": Row(refused=REPEATS, custom_id="vary:{job}:0"),
    "vote": Row(refused=PAINTS, custom_id="vote:0123abcd:1:1"),
}

FORMS: Mapping[str, Row] = {
    "appeal": Row(custom_id="appeal:refused:9", fields={"words": "x"}, under_message=True),
    "block_picture": Row(
        refused=MODERATES, custom_id="block_picture:0123456789abcdef", fields={"reason": "x"}
    ),
    "change": Row(custom_id="change:0f", fields=WORDS),
    "clear": Row(refused=MODERATES, custom_id="clear:1:1"),
    "composition": Row(custom_id="composition:0f", fields=WORDS),
    "delete": Row(refused=ENDS, custom_id="delete:{job}", ends=True),
    "like": Row(custom_id="like:0f", fields=WORDS),
    "permutations": Row(refused=PAINTS, custom_id="permutations:public", fields=WORDS),
    "policy": Row(
        refused=SETS_POLICIES, custom_id="policy:quotas:server:1", fields={"pictures_per_day": "5"}
    ),
    "recipe": Row(refused=PAINTS, custom_id="recipe:all", fields=WORDS),
    "remix": Row(refused=REPEATS, custom_id="remix:{job}", fields=WORDS),
    "remix_from": Row(refused=REPEATS, custom_id="remix_from:{job}:alone", fields={"prompt": "a kite"}),
    "report": Row(
        refused={**SEES, **dict.fromkeys((Who.ELSEWHERE, Who.DIRECT), "unknown_job")},
        custom_id="report:{job}",
        fields={"reason": "x"},
    ),
    "review": Row(refused=MODERATES, custom_id="review:reject:9", fields={"reason": "x"}, under_message=True),
    "rule": Row(
        refused=MODERATES, custom_id="rule:refuse:0", fields={"name": "x", "terms": "zzzz", "also": ""}
    ),
    "session": Row(
        refused=OPENS_SESSIONS, custom_id="session:here:1:0:5:1:0", fields={"theme": "boats", "minutes": "5"}
    ),
    "settings": Row(
        refused={
            **dict.fromkeys(
                (Who.MEMBER, Who.STRANGER, Who.APPOINTED, Who.MODERATOR, Who.BLOCKED), "settings_server_right"
            ),
            **dict.fromkeys((Who.ELSEWHERE, Who.DIRECT), "settings_no_server"),
        },
        custom_id="settings:server",
        fields={"settings": "steps 3", "negative_prompt": ""},
    ),
    "start": Row(custom_id="start:0f", fields=WORDS),
    "style": Row(refused=KEEPS, custom_id="style", fields={"name": "Ink", "prompt": "ink"}),
    "wildcard": Row(refused=KEEPS, custom_id="wildcard", fields={"name": "colour", "entries": "red"}),
}
