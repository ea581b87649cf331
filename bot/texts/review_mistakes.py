"""The sentences about reviews, by the keys of `UserMistake`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REVIEW_MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "words_held": (
            "A rule of this server hides the words of this request: only the person who made it can use them."
        ),
        "picture_held": (
            "This picture is waiting for moderators: it is not shown until one of them approves it."
        ),
        "review_over": (
            "This was decided already, or the person who asked for it has deleted it: the message shows "
            "what happened."
        ),
        "review_own": (
            "This is your own request: another moderator or the owner of the server has to decide it."
        ),
        "review_nothing_set": "Choose the hours, the reports or both.",
        "review_gone": "This review is no longer kept.",
        "report_own": "This picture is your own: delete it with the button below it.",
        "report_twice": "You have reported this picture already: moderators see your report.",
        "reports_full": "You may report {limit} pictures a day: please tell a moderator of this one.",
        "report_no_picture": "This message shows no picture of this bot: choose one that does.",
        "appeal_over": "You have appealed already, or it is too late to appeal.",
        "appeals_full": "You may appeal {limit} times a day: please try again tomorrow.",
    }
)
