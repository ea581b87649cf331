"""Components as in Discord's answers: numbered, with defaults, with resolved attachments; pure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from bot.sandbox import component_rules as kinds
from bot.sandbox.rejections import FormErrors, Json, Path

ATTACHMENT = "attachment://"
Unfurl = Callable[[str], Json | None]

DEFAULTS: dict[int, Json] = {
    kinds.CONTAINER: {"accent_color": None, "spoiler": False},
    kinds.SEPARATOR: {"spacing": 1, "divider": True},
    kinds.THUMBNAIL: {"description": None, "spoiler": False},
    kinds.FILE: {"spoiler": False},
    **{kind: {"min_values": 1, "max_values": 1} for kind in kinds.SELECTS},
}


def resolve(components: list[Json], unfurl: Unfurl, errors: FormErrors) -> list[Json]:
    """Return `components` as in Discord's answer.

    `unfurl` maps the address of a medium to Discord's media object, or to None for a file that was not
    uploaded; None is added to `errors` as a mistake.
    """
    taken = {each["id"] for _, each in kinds.walk(components) if each.get("id")}
    numbers = (number for number in count(1) if number not in taken)
    return [
        _resolve_one(component, ("components", index), unfurl, errors, lambda: next(numbers))
        for index, component in enumerate(components)
    ]


def _resolve_one(
    component: Json, path: Path, unfurl: Unfurl, errors: FormErrors, number: Callable[[], int]
) -> Json:
    given = _without_nulls(component)
    seen: Json = {**DEFAULTS.get(component["type"], {}), **given}
    seen["id"] = component.get("id") or number()
    if "components" in seen:
        seen["components"] = [
            _resolve_one(child, (*path, "components", index), unfurl, errors, number)
            for index, child in enumerate(seen["components"])
        ]
    if "accessory" in seen:
        seen["accessory"] = _resolve_one(seen["accessory"], (*path, "accessory"), unfurl, errors, number)
    if component["type"] == kinds.GALLERY:
        seen["items"] = [
            {
                "description": item.get("description"),
                "spoiler": bool(item.get("spoiler")),
                "media": _medium(item["media"], (*path, "items", index, "media"), unfurl, errors),
            }
            for index, item in enumerate(component["items"])
        ]
    elif component["type"] == kinds.STRING_SELECT:
        seen["options"] = [_without_nulls(option) for option in component["options"]]
    elif component["type"] == kinds.THUMBNAIL:
        seen["media"] = _medium(component["media"], (*path, "media"), unfurl, errors)
    elif component["type"] == kinds.FILE:
        seen["file"] = _medium(component["file"], (*path, "file"), unfurl, errors)
        named = unfurl(component["file"]["url"]) or {}
        seen["name"], seen["size"] = named.get("name"), named.get("size")
    return seen


def _without_nulls(thing: Json) -> Json:
    """Return a button, a menu or a menu's option without null fields, also in its emoji."""
    seen = {key: value for key, value in thing.items() if value is not None}
    return {**seen, "emoji": _without_nulls(seen["emoji"])} if isinstance(seen.get("emoji"), dict) else seen


def _medium(given: Json, path: Path, unfurl: Unfurl, errors: FormErrors) -> Json:
    medium = unfurl(given["url"])
    if medium is None:
        errors.add(
            (*path, "url"),
            "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND",
            f"The referenced attachment {given['url']} was not found.",
        )
        return {"id": "0", "url": "", "proxy_url": ""}
    return {field: value for field, value in medium.items() if field not in ("name", "size")}


def refreshed(components: list[Json], address: Callable[[str], str | None]) -> list[Json]:
    """Return `components` with current addresses of the uploaded files among their media.

    `address` maps an uploaded file's id to its address, or to None if there is no such file.
    """
    return [_refreshed(component, address) for component in components]


def _refreshed(value: Any, address: Callable[[str], str | None]) -> Any:
    if isinstance(value, list):
        return [_refreshed(each, address) for each in value]
    if not isinstance(value, dict):
        return value
    seen = {key: _refreshed(each, address) for key, each in value.items()}
    url = address(str(seen["attachment_id"])) if "attachment_id" in seen else None
    return seen if url is None else {**seen, "url": url, "proxy_url": url}


def find(components: list[Json], custom_id: str) -> Json | None:
    """Return the component of this custom id, or None."""
    return next((each for _, each in kinds.walk(components) if each.get("custom_id") == custom_id), None)


def texts(components: list[Json]) -> list[str]:
    """Return the contents of the text components."""
    return [
        str(each.get("content", "")) for _, each in kinds.walk(components) if each.get("type") == kinds.TEXT
    ]


def media(components: list[Json]) -> list[Any]:
    """Return the media objects of galleries and thumbnails, in order."""
    found: list[Any] = []
    for _, each in kinds.walk(components):
        found += [item["media"] for item in each.get("items", [])]
        found += [each["media"]] if "media" in each else []
    return found
