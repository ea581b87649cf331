"""Short functions that make bodies of messages, valid and invalid."""

from __future__ import annotations

from typing import Any

V2 = 1 << 15
EPHEMERAL = 1 << 6


def text(content: str) -> dict[str, Any]:
    return {"type": 10, "content": content}


def button(custom_id: str, **changes: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "Go", "custom_id": custom_id, **changes}


def row(*components: dict[str, Any]) -> dict[str, Any]:
    return {"type": 1, "components": list(components)}


def gallery(count: int, **item: Any) -> dict[str, Any]:
    return {"type": 12, "items": [{"media": {"url": "https://example.org/a.png"}, **item}] * count}


def v2(*components: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"flags": V2, "components": list(components), **more}


def select(**changes: Any) -> dict[str, Any]:
    return {"type": 3, "custom_id": "s", "options": [{"label": "a", "value": "a"}], **changes}
