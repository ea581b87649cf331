"""The sentences about known pictures, by the keys of `UserMistake`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

KNOWN_MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "start_known": (
            "{what} is blocked here, or almost identical to a blocked picture: start from another."
        ),
        "publish_known": (
            "Every picture of this result is blocked here, or almost identical to a blocked picture: "
            "publish another result."
        ),
        "whose_nothing": "Send a picture, or the link of a message that has one.",
        "whose_link": "“{link}” is not the link of a message of this server that you and the bot can read.",
        "whose_hidden": "Discord shows the bot no files of that message: use “{menu}” in its menu.",
        "whose_no_picture": "This message has no picture.",
        "known_full": "A server can block {limit} pictures: remove one first.",
        "known_twice": "This picture is blocked already.",
        "known_unknown": "No blocked picture is called “{name}”: choose one of the suggestions.",
    }
)
