"""Message forms that Discord refuses are refused by the sandbox, at the same place, and logged."""

from __future__ import annotations

from typing import Any

import pytest
from message_bodies import button, gallery, row, select, text, v2
from sandbox_tools import MESSAGES, Raw

from bot.sandbox.server import Sandbox

FIRST = ("components", "0")
IN_ROW = (*FIRST, "components", "0")


@pytest.mark.parametrize(
    ("body", "where", "code"),
    [
        ({"content": "x" * 2001}, ("content",), "BASE_TYPE_MAX_LENGTH"),
        ({"content": 7}, ("content",), "STRING_TYPE_CONVERT"),
        ({"content": "x", "nonce": "n" * 26}, ("nonce",), "BASE_TYPE_MAX_LENGTH"),
        ({"content": "x", "flags": "many"}, ("flags",), "NUMBER_TYPE_COERCE"),
        ({"content": "x", "embeds": [{"title": "e"}] * 11}, ("embeds",), "BASE_TYPE_MAX_LENGTH"),
        ({"embeds": [{"description": "x" * 4000}] * 2}, ("embeds",), "MAX_EMBED_SIZE_EXCEEDED"),
        ({"content": "x", "components": [text("t")]}, (*FIRST, "type"), "UNION_TYPE_CHOICES"),
        (
            {"content": "x", "components": [row(button("a"), button("a"))]},
            (*FIRST, "components", "1", "custom_id"),
            "COMPONENT_CUSTOM_ID_DUPLICATED",
        ),
        (
            {"content": "x", "components": [row(button("i" * 101))]},
            (*IN_ROW, "custom_id"),
            "BASE_TYPE_BAD_LENGTH",
        ),
        ({"content": "x", "components": [row(button(""))]}, (*IN_ROW, "custom_id"), "BASE_TYPE_BAD_LENGTH"),
        (
            {"content": "x", "components": [row(button("a", label="l" * 81))]},
            (*IN_ROW, "label"),
            "BASE_TYPE_MAX_LENGTH",
        ),
        (
            {"content": "x", "components": [row(button("a", label=""))]},
            IN_ROW,
            "BUTTON_COMPONENT_LABEL_OR_EMOJI_REQUIRED",
        ),
        (
            {"content": "x", "components": [row(button("a", style=5))]},
            (*IN_ROW, "url"),
            "URL_TYPE_INVALID_URL",
        ),
        (
            {"content": "x", "components": [row(*[button(str(n)) for n in range(6)])]},
            (*FIRST, "components"),
            "BASE_TYPE_BAD_LENGTH",
        ),
        (
            {"content": "x", "components": [row(select(), button("a"))]},
            (*FIRST, "components"),
            "COMPONENT_LAYOUT_WIDTH_EXCEEDED",
        ),
        (
            {
                "content": "x",
                "components": [row(select(options=[{"label": "a", "value": str(n)} for n in range(26)]))],
            },
            (*IN_ROW, "options"),
            "BASE_TYPE_BAD_LENGTH",
        ),
        (
            {"content": "x", "components": [row(select(max_values=26))]},
            (*IN_ROW, "max_values"),
            "BASE_TYPE_BAD_LENGTH",
        ),
        (
            v2(text("x"), content="beside"),
            ("content",),
            "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
        ),
        (
            v2(text("x"), embeds=[{"title": "e"}]),
            ("embeds",),
            "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
        ),
        (v2(*[text("x")] * 41), ("components",), "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED"),
        (v2(text("x" * 2001), text("x" * 2000)), ("components",), "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED"),
        (v2(text("")), (*FIRST, "content"), "BASE_TYPE_BAD_LENGTH"),
        (v2(gallery(11)), (*FIRST, "items"), "BASE_TYPE_BAD_LENGTH"),
        (v2(gallery(0)), (*FIRST, "items"), "BASE_TYPE_BAD_LENGTH"),
        (
            v2(gallery(1, description="d" * 1025)),
            (*FIRST, "items", "0", "description"),
            "BASE_TYPE_BAD_LENGTH",
        ),
        (
            v2(gallery(1, media={"url": "attachment://not.png"})),
            (*FIRST, "items", "0", "media", "url"),
            "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND",
        ),
        (
            v2(gallery(1, media={"url": "file:///etc/passwd"})),
            (*FIRST, "items", "0", "media", "url"),
            "URL_TYPE_INVALID_SCHEME",
        ),
        (
            v2({"type": 17, "components": [{"type": 17, "components": [text("x")]}]}),
            (*IN_ROW, "type"),
            "UNION_TYPE_CHOICES",
        ),
        (v2({"type": 9, "components": [text("x")]}), (*FIRST, "accessory"), "BASE_TYPE_REQUIRED"),
        (
            {"content": "x", "allowed_mentions": {"parse": ["all"]}},
            ("allowed_mentions", "parse"),
            "BASE_TYPE_CHOICES",
        ),
        (
            {"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}},
            ("allowed_mentions",),
            "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
        ),
        ({"content": "x", "attachments": [{"id": "5"}]}, ("attachments", "0", "id"), "ATTACHMENT_NOT_FOUND"),
    ],
)
async def test_a_malformed_message_is_refused_and_logged(
    lenient: Sandbox, body: dict[str, Any], where: tuple[str, ...], code: str
) -> None:
    async with Raw(lenient) as bot:
        answer = await bot.call("POST", MESSAGES, body)
        assert (answer.status, answer.code) == (400, 50035)
        assert answer.error(*where) == code
        assert (await bot.call("GET", MESSAGES)).body == []
    assert len(lenient.violations) == 1
