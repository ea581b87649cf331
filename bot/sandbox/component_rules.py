"""Discord's rules for message components; pure. Mistakes go to a `FormErrors`, ignored fields to a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bot.sandbox.rejections import FormErrors, Json, Path

ROW, BUTTON, STRING_SELECT, TEXT_INPUT = 1, 2, 3, 4
SELECTS = frozenset({3, 5, 6, 7, 8})
SECTION, TEXT, THUMBNAIL, GALLERY, FILE, SEPARATOR, CONTAINER = 9, 10, 11, 12, 13, 14, 17
LABEL, FILE_UPLOAD, RADIO_GROUP, CHECKBOX_GROUP, CHECKBOX = 18, 19, 21, 22, 23

TOP_LEVEL = frozenset({ROW})
TOP_LEVEL_V2 = frozenset({ROW, SECTION, TEXT, GALLERY, FILE, SEPARATOR, CONTAINER})
IN_CONTAINER = TOP_LEVEL_V2 - {CONTAINER}
IN_ROW = SELECTS | {BUTTON}
MAX_COMPONENTS_V2 = 40
MAX_TEXT_V2 = 4000
LINK, PREMIUM = 5, 6

KNOWN_FIELDS: dict[int, frozenset[str]] = {
    ROW: frozenset({"components"}),
    BUTTON: frozenset({"style", "label", "emoji", "custom_id", "sku_id", "url", "disabled"}),
    STRING_SELECT: frozenset(
        {"custom_id", "options", "placeholder", "min_values", "max_values", "required", "disabled"}
    ),
    SECTION: frozenset({"components", "accessory"}),
    TEXT: frozenset({"content"}),
    THUMBNAIL: frozenset({"media", "description", "spoiler"}),
    GALLERY: frozenset({"items"}),
    FILE: frozenset({"file", "spoiler", "name", "size"}),
    SEPARATOR: frozenset({"divider", "spacing"}),
    CONTAINER: frozenset({"components", "accent_color", "spoiler"}),
}


def walk(components: list[Json], path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yield every component with its path, depth first, accessories included."""
    for index, component in enumerate(components):
        here = (*path, index)
        yield here, component
        yield from walk(component.get("components") or [], (*here, "components"))
        for key in ("accessory", "component"):
            if isinstance(component.get(key), dict):
                yield (*here, key), component[key]


def check_components(components: list[Json], *, v2: bool, errors: FormErrors) -> list[str]:
    """Add every mistake of a message's components to `errors`; return sentences about ignored fields."""
    root: Path = ("components",)
    if not v2:
        errors.length(root, components, 0, 5)
    for index, component in enumerate(components):
        _check_kind(component, TOP_LEVEL_V2 if v2 else TOP_LEVEL, (*root, index), errors)
    everything = [(path, each) for path, each in walk(components, root) if isinstance(each.get("type"), int)]
    if v2:
        _check_totals(everything, errors)
    _check_custom_ids(everything, errors)
    for path, component in everything:
        _check_one(component, path, errors)
    return [oddity for path, component in everything for oddity in _oddities(component, path)]


def _oddities(component: Json, path: Path) -> list[str]:
    known = KNOWN_FIELDS.get(component["type"])
    strange = sorted(set(component) - known - {"type", "id"}) if known else []
    return [f"unknown field {'.'.join(map(str, path))}.{name}" for name in strange]


def _check_kind(component: Json, allowed: frozenset[int], path: Path, errors: FormErrors) -> None:
    if component.get("type") not in allowed:
        choices = ", ".join(map(str, sorted(allowed)))
        errors.add(
            (*path, "type"), "UNION_TYPE_CHOICES", f'Value of field "type" must be one of ({choices}).'
        )


def _check_totals(everything: list[tuple[Path, Json]], errors: FormErrors) -> None:
    if len(everything) > MAX_COMPONENTS_V2:
        message = f"The number of components must be {MAX_COMPONENTS_V2} or fewer."
        errors.add(("components",), "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED", message)
    texts = [str(component.get("content", "")) for _, component in everything if component["type"] == TEXT]
    if sum(map(len, texts)) > MAX_TEXT_V2:
        message = f"The total text of all components must be {MAX_TEXT_V2} or fewer characters."
        errors.add(("components",), "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", message)


def _check_custom_ids(everything: list[tuple[Path, Json]], errors: FormErrors) -> None:
    for field, code in (("custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED"), ("id", "COMPONENT_ID_DUPLICATED")):
        seen: set[Any] = set()
        for path, component in everything:
            value = component.get(field)
            if not value:
                continue
            if value in seen:
                errors.add((*path, field), code, f"Component {field.replace('_', ' ')} cannot be duplicated")
            seen.add(value)


def _check_one(component: Json, path: Path, errors: FormErrors) -> None:
    custom_id = component.get("custom_id")
    if custom_id is not None:
        errors.length((*path, "custom_id"), str(custom_id), 1, 100)
    check = check_select if component["type"] in SELECTS else _CHECKS.get(component["type"])
    if check is not None:
        check(component, path, errors)


def _row(row: Json, path: Path, errors: FormErrors) -> None:
    children = row.get("components") or []
    errors.length((*path, "components"), children, 1, 5)
    for index, child in enumerate(children):
        _check_kind(child, IN_ROW, (*path, "components", index), errors)
    if len(children) > 1 and any(child.get("type") in SELECTS for child in children):
        errors.add(
            (*path, "components"),
            "COMPONENT_LAYOUT_WIDTH_EXCEEDED",
            "The specified component exceeds the maximum width",
        )


def _button(button: Json, path: Path, errors: FormErrors) -> None:
    style = button.get("style")
    if style not in range(1, 7):
        errors.add((*path, "style"), "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5, 6}.")
    if not (button.get("label") or button.get("emoji")) and style != PREMIUM:
        errors.add(
            path, "BUTTON_COMPONENT_LABEL_OR_EMOJI_REQUIRED", "A button must have a label or an emoji."
        )
    errors.length((*path, "label"), button.get("label") or "", 0, 80)
    if style == LINK:
        if button.get("custom_id") is not None:
            errors.add(
                (*path, "custom_id"), "BUTTON_COMPONENT_INVALID_CUSTOM_ID", "A link button has no custom id."
            )
        if not str(button.get("url") or "").startswith(("http://", "https://", "discord://")):
            errors.add((*path, "url"), "URL_TYPE_INVALID_URL", "Not a well formed URL.")
        errors.length((*path, "url"), str(button.get("url") or ""), 0, 512)
    elif style != PREMIUM and not button.get("custom_id"):
        errors.required((*path, "custom_id"))


def check_select(select: Json, path: Path, errors: FormErrors) -> None:
    """Add every mistake of a menu in a message or a modal to `errors`."""
    if not select.get("custom_id"):
        errors.required((*path, "custom_id"))
    errors.length((*path, "placeholder"), select.get("placeholder") or "", 0, 150)
    least, most = select.get("min_values"), select.get("max_values")
    least, most = 1 if least is None else least, 1 if most is None else most
    if not (0 <= least <= 25 and 1 <= most <= 25 and least <= most):
        errors.add(
            (*path, "max_values"),
            "BASE_TYPE_BAD_LENGTH",
            "Must be between 1 and 25 and not below min_values.",
        )
    if select["type"] != STRING_SELECT:
        return
    options = select.get("options") or []
    errors.length((*path, "options"), options, max(1, most), 25)
    values = [str(option.get("value")) for option in options]
    if len(set(values)) != len(values):
        errors.add(
            (*path, "options"), "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", "Option values must be unique."
        )
    for index, option in enumerate(options):
        for field, limit in (("label", 100), ("value", 100)):
            errors.length((*path, "options", index, field), str(option.get(field) or ""), 1, limit)
        errors.length((*path, "options", index, "description"), option.get("description") or "", 0, 100)


def _section(section: Json, path: Path, errors: FormErrors) -> None:
    errors.length((*path, "components"), section.get("components") or [], 1, 3)
    for index, child in enumerate(section.get("components") or []):
        _check_kind(child, frozenset({TEXT}), (*path, "components", index), errors)
    accessory = section.get("accessory")
    if not isinstance(accessory, dict):
        errors.required((*path, "accessory"))
    else:
        _check_kind(accessory, frozenset({BUTTON, THUMBNAIL}), (*path, "accessory"), errors)


def _gallery(gallery: Json, path: Path, errors: FormErrors) -> None:
    items = gallery.get("items") or []
    errors.length((*path, "items"), items, 1, 10)
    for index, item in enumerate(items):
        _check_media(item, "media", (*path, "items", index), errors)


def _text(text: Json, path: Path, errors: FormErrors) -> None:
    errors.length((*path, "content"), str(text.get("content") or ""), 1, MAX_TEXT_V2)


def _container(container: Json, path: Path, errors: FormErrors) -> None:
    for index, child in enumerate(container.get("components") or []):
        _check_kind(child, IN_CONTAINER, (*path, "components", index), errors)


def _thumbnail(thumbnail: Json, path: Path, errors: FormErrors) -> None:
    _check_media(thumbnail, "media", path, errors)


def _file(file: Json, path: Path, errors: FormErrors) -> None:
    _check_media(file, "file", path, errors)


def _check_media(item: Json, field: str, path: Path, errors: FormErrors) -> None:
    description = item.get("description")
    if description is not None:
        errors.length((*path, "description"), description, 1, 1024)
    media = item.get(field)
    url = media.get("url") if isinstance(media, dict) else None
    if not isinstance(url, str) or not url:
        errors.required((*path, field, "url"))
        return
    errors.length((*path, field, "url"), url, 1, 2048)
    schemes = ("attachment://",) if field == "file" else ("http://", "https://", "attachment://")
    if not url.startswith(schemes):
        said = ", ".join(repr(scheme.removesuffix("://")) for scheme in schemes)
        errors.add((*path, field, "url"), "URL_TYPE_INVALID_SCHEME", f"Scheme must be one of ({said}).")


_CHECKS: dict[int, Callable[[Json, Path, FormErrors], None]] = {
    ROW: _row,
    BUTTON: _button,
    SECTION: _section,
    TEXT: _text,
    THUMBNAIL: _thumbnail,
    GALLERY: _gallery,
    FILE: _file,
    CONTAINER: _container,
}
