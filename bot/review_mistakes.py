"""The sentences about reviews, by the keys of `UserMistake`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REVIEW_MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "words_held": "A rule of this server hides the words of this request: only its person can use them.",
        "picture_held": "This picture waits for moderators: it is not shown before one of them decides.",
        "review_over": (
            "This is decided already, or its person has deleted it: the message shows what has become of it."
        ),
        "review_own": (
            "You have asked for this yourself: another moderator decides it, or the owner of the server."
        ),
        "review_nothing_set": "Choose the hours, the reports or both.",
        "review_gone": "This review is no longer kept.",
        "report_own": "This picture is your own: delete it with the button below it.",
        "report_twice": "You have reported this picture already: moderators see your report.",
        "reports_full": "You may report {limit} pictures a day: please tell a moderator of this one.",
        "report_no_picture": "This message shows no picture of this bot: choose one that does.",
        "appeal_over": "Moderators have got this appeal already, or it is too late for one.",
        "appeals_full": "You may appeal {limit} times a day: please try again tomorrow.",
    }
)
