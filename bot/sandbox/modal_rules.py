"""Discord's rules for modals and for the values that a member enters; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.sandbox import component_rules as kinds
from bot.sandbox.rejections import FormErrors, Json, Path

IN_LABEL = kinds.SELECTS | {
    kinds.TEXT_INPUT,
    kinds.FILE_UPLOAD,
    kinds.RADIO_GROUP,
    kinds.CHECKBOX_GROUP,
    kinds.CHECKBOX,
}
MAX_PARTS = 5
SINGLE = frozenset({kinds.RADIO_GROUP})
MAX_TEXT = 4000


def inputs(modal: Json) -> Iterator[tuple[Path, Json, str]]:
    """Yield every input of a modal, with its path and its label."""
    for path, component in kinds.walk(modal.get("components") or [], ("data", "components")):
        if component.get("type") == kinds.LABEL and isinstance(component.get("component"), dict):
            yield (*path, "component"), component["component"], str(component.get("label", ""))
        elif component.get("type") == kinds.ROW:
            for index, child in enumerate(component.get("components") or []):
                yield (*path, "components", index), child, str(child.get("label", ""))


def check_modal(modal: Json) -> None:
    """Raise 50035 with every mistake of a modal."""
    errors = FormErrors()
    errors.length(("data", "custom_id"), modal.get("custom_id") or "", 1, 100)
    errors.length(("data", "title"), modal.get("title") or "", 1, 45)
    components = modal.get("components") or []
    errors.length(("data", "components"), components, 1, MAX_PARTS)
    for index, component in enumerate(components):
        path: Path = ("data", "components", index)
        kind = component.get("type")
        if kind not in (kinds.ROW, kinds.TEXT, kinds.LABEL):
            errors.add(
                (*path, "type"), "UNION_TYPE_CHOICES", 'Value of field "type" must be one of (1, 10, 18).'
            )
        elif kind == kinds.LABEL:
            errors.length((*path, "label"), component.get("label") or "", 1, 45)
            errors.length((*path, "description"), component.get("description") or "", 0, 100)
    seen: set[str] = set()
    for path, part, label in inputs(modal):
        _check_input(part, label, path, errors)
        if part.get("custom_id") in seen:
            message = "Component custom id cannot be duplicated"
            errors.add((*path, "custom_id"), "COMPONENT_CUSTOM_ID_DUPLICATED", message)
        seen.add(str(part.get("custom_id")))
    errors.check()


def _check_input(part: Json, label: str, path: Path, errors: FormErrors) -> None:
    if part.get("type") not in IN_LABEL:
        errors.add((*path, "type"), "UNION_TYPE_CHOICES", "This component cannot be in a modal.")
    errors.length((*path, "custom_id"), str(part.get("custom_id") or ""), 1, 100)
    if part.get("type") in kinds.SELECTS:
        kinds.check_select(part, path, errors)
    if part.get("type") == kinds.TEXT_INPUT:
        errors.length((*path, "label"), label, 1, 45)
        errors.length((*path, "placeholder"), part.get("placeholder") or "", 0, 100)
        errors.length((*path, "value"), part.get("value") or "", 0, part.get("max_length") or MAX_TEXT)
        if part.get("style") not in (1, 2):
            errors.add((*path, "style"), "BASE_TYPE_CHOICES", "Value must be one of {1, 2}.")


def refusals(modal: Json, values: Mapping[str, Any]) -> list[str]:
    """Return the sentences with which Discord's client refuses a submission."""
    return [
        sentence
        for _, part, label in inputs(modal)
        if (sentence := _refusal(part, label, values.get(part["custom_id"]))) is not None
    ]


def _refusal(part: Json, label: str, value: Any) -> str | None:
    if value in (None, "", []):
        prefilled = part.get("value") or _chosen_before(part)
        required = part.get("required", True) and part.get("type") != kinds.CHECKBOX
        return f"{label}: this field is required." if required and not prefilled else None
    if part["type"] == kinds.TEXT_INPUT:
        least, most = part.get("min_length") or 0, part.get("max_length") or MAX_TEXT
        if not least <= len(str(value)) <= most:
            return f"{label}: must be between {least} and {most} characters."
    if part["type"] == kinds.STRING_SELECT:
        chosen = value if isinstance(value, list) else [value]
        if len(chosen) > (part.get("max_values") or 1):
            return f"{label}: choose at most {part.get('max_values') or 1}."
        if not {str(one) for one in chosen} <= {str(option["value"]) for option in part["options"]}:
            return f"{label}: choose one of those that are offered."
    return None


def _chosen_before(part: Json) -> list[str]:
    """Return the default values of a menu."""
    return [str(option["value"]) for option in part.get("options") or [] if option.get("default")]


def submission(modal: Json, values: Mapping[str, Any]) -> Json:
    """Return the data of the modal-submit interaction: the modal's structure with the entered values."""
    return {
        "custom_id": modal["custom_id"],
        "components": [
            _submitted(component, values, number) for number, component in enumerate(modal["components"], 1)
        ],
    }


def _submitted(component: Json, values: Mapping[str, Any], number: int) -> Json:
    seen: Json = {"type": component["type"], "id": component.get("id") or number}
    if component["type"] == kinds.LABEL:
        return {**seen, "component": _filled(component["component"], values, 100 + number)}
    if component["type"] == kinds.ROW:
        filled = [_filled(child, values, 100 + number) for child in component["components"]]
        return {**seen, "components": filled}
    return seen


def _filled(part: Json, values: Mapping[str, Any], number: int) -> Json:
    seen: Json = {"type": part["type"], "id": part.get("id") or number, "custom_id": part["custom_id"]}
    given = values.get(part["custom_id"])
    if part["type"] == kinds.TEXT_INPUT:
        return {**seen, "value": str(given if given is not None else part.get("value") or "")}
    if part["type"] == kinds.CHECKBOX:
        return {**seen, "value": bool(given)}
    if part["type"] in SINGLE:
        return {**seen, "value": given[0] if isinstance(given, list) and given else given}
    if given is None:
        given = _chosen_before(part)
    return {**seen, "values": given if isinstance(given, list) else [given] if given else []}
