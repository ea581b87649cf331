"""The check against Discord's documents sees what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from discord_spec import NOT_VALIDATED, Documents, folder

from bot.sandbox.exchange import Exchange, Frame


@pytest.fixture(scope="module")
def spec() -> Documents:
    place = folder()
    if place is None:
        pytest.skip(NOT_VALIDATED)
    return Documents(place)


PICTURE = {"type": 11, "name": "picture", "description": "c"}
RED_BUTTON = {"type": 2, "style": "red"}


def exchange(**changes: Any) -> Exchange:
    given: Mapping[str, Any] = {
        "method": "POST",
        "route": "/channels/{channel_id}/messages",
        "query": {},
        "request": {"content": "x"},
        "status": 400,
        "response": {"message": "no", "code": 50035},
        **changes,
    }
    return Exchange(**given)


def test_what_fits_has_no_problem(spec: Documents) -> None:
    assert spec.of_exchange(exchange()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"route": "/channel/{channel_id}"}, "Discord has no such operation"),
        ({"status": 302}, "there is no answer 302"),
        ({"response": {"message": "no"}}, "'code' is a required property"),
        ({"status": 200, "response": {"id": 1}}, "'type' is a required property"),
        ({"status": 200, "request": {"content": 7}}, "content: 7 is not of type 'string'"),
        (
            {
                "status": 200,
                "request": {"components": [{"type": 1, "components": [{"type": 2, "style": "red"}]}]},
            },
            "components/0/components/0/style",
        ),
        (
            {
                "method": "PUT",
                "route": "/applications/{application_id}/commands",
                "status": 200,
                "request": [
                    {"name": "a", "description": "b", "options": [{**PICTURE, "file_types": ["png"]}]}
                ],
            },
            "options/0/file_types/0",
        ),
    ],
)
def test_what_does_not_fit_is_named(spec: Documents, changes: dict[str, Any], said: str) -> None:
    assert any(said in problem for problem in spec.of_exchange(exchange(**changes)))


@pytest.mark.parametrize(
    ("op", "event", "data"),
    [(0, "READY", {"v": 10}), (0, "INTERACTION_CREATE", {"id": "1", "type": 2}), (10, None, {})],
)
def test_gateway_payloads_are_checked_too(spec: Documents, op: int, event: str | None, data: Any) -> None:
    frame = Frame(from_bot=False, op=op, event=event, payload={"op": op, "d": data, "s": None, "t": event})
    assert spec.of_frame(frame) != []
