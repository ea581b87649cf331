"""The sentences about reviews, by the keys of `UserMistake`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REVIEW_MISTAKES: Mapping[str, str] = MappingProxyType(
    {
        "picture_held": "This picture waits for moderators: it is not shown before one of them decides.",
        "review_over": "This has been decided already, or its person has deleted it.",
    }
)
