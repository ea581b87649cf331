"""Discord's rules for modals and for the values that a member enters; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bot.sandbox import component_rules as kinds
from bot.sandbox.file_types import check_file_types
from bot.sandbox.rejections import FormErrors, Json, Path
from bot.sandbox.state import number_of
from bot.sandbox.uploads import Upload, check_upload

IN_LABEL = kinds.SELECTS | {
    kinds.TEXT_INPUT,
    kinds.FILE_UPLOAD,
    kinds.RADIO_GROUP,
    kinds.CHECKBOX_GROUP,
    kinds.CHECKBOX,
}
MAX_PARTS = 5
MAX_TEXT = 4000
MAX_CHOICES = MAX_FILES = 10
FEWEST_CHOICES = {kinds.RADIO_GROUP: 2, kinds.CHECKBOX_GROUP: 1}
COUNTED = kinds.SELECTS | {kinds.CHECKBOX_GROUP, kinds.FILE_UPLOAD}


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
    if part.get("type") in FEWEST_CHOICES:
        _check_choices(part, path, errors)
    if part.get("type") in COUNTED:
        _check_counts(part, path, errors)
    check_file_types(part, path, errors)
    if part.get("disabled"):
        errors.add((*path, "disabled"), "COMPONENT_DISABLED", "A modal has no disabled components.")


def _check_choices(group: Json, path: Path, errors: FormErrors) -> None:
    options = group.get("options") or []
    errors.length((*path, "options"), options, FEWEST_CHOICES[group["type"]], MAX_CHOICES)
    values = [str(option.get("value")) for option in options]
    if len(set(values)) != len(values):
        message = "Option values must be unique."
        errors.add((*path, "options"), "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", message)
    if group["type"] == kinds.RADIO_GROUP and len(_chosen_before(group)) > 1:
        errors.add((*path, "options"), "BASE_TYPE_MAX_LENGTH", "Only one option can be the default.")
    for index, option in enumerate(options):
        for field, least in (("label", 1), ("value", 1), ("description", 0)):
            errors.length((*path, "options", index, field), str(option.get(field) or ""), least, 100)


def _counts(part: Json) -> tuple[int, int]:
    """Return how many items of a menu, a group of checkboxes or an upload there are at least and at most."""
    least, most = part.get("min_values"), part.get("max_values")
    usual = len(part.get("options") or []) if part["type"] == kinds.CHECKBOX_GROUP else 1
    return 1 if least is None else least, usual if most is None else most


def _check_counts(part: Json, path: Path, errors: FormErrors) -> None:
    least, most = _counts(part)
    if part.get("min_values") == 0 and part.get("required", True):
        message = "min_values must be at least 1 if the component is required."
        errors.add((*path, "min_values"), "NUMBER_TYPE_MIN", message)
    limit = MAX_FILES if part["type"] == kinds.FILE_UPLOAD else len(part.get("options") or [])
    if part["type"] not in kinds.SELECTS and not 0 <= least <= most <= limit:
        errors.add((*path, "max_values"), "BASE_TYPE_BAD_LENGTH", f"Must be between {least} and {limit}.")


def refusals(
    modal: Json, values: Mapping[str, Any], files: Mapping[int, Upload], *, most_bytes: int
) -> list[str]:
    """Return the sentences with which Discord's client refuses a submission.

    The values of an upload are the numbers of its `files`, each of up to `most_bytes`.
    """
    sentences: list[str] = []
    for _, part, label in inputs(modal):
        value = values.get(part["custom_id"])
        sentence = _refusal(part, label, value)
        if sentence is None and part["type"] == kinds.FILE_UPLOAD:
            sentence = _file_refusal(part, label, value or [], files, most_bytes)
        sentences += [] if sentence is None else [sentence]
    return sentences


def _file_refusal(
    part: Json, label: str, value: Any, files: Mapping[int, Upload], most_bytes: int
) -> str | None:
    try:
        for number in value if isinstance(value, list) else [value]:
            check_upload(files.get(number_of(number)), part.get("file_types"), most_bytes)
    except ValueError as mistake:
        return f"{label}: {mistake}"
    return None


def _refusal(part: Json, label: str, value: Any) -> str | None:
    if value in (None, "", []):
        prefilled = value is None and (part.get("value") or _chosen_before(part))
        required = part.get("required", True) and part.get("type") != kinds.CHECKBOX
        return f"{label}: this field is required." if required and not prefilled else None
    if part["type"] == kinds.TEXT_INPUT:
        least, most = part.get("min_length") or 0, part.get("max_length") or MAX_TEXT
        if not least <= len(str(value)) <= most:
            return f"{label}: must be between {least} and {most} characters."
    if part["type"] == kinds.CHECKBOX and not isinstance(value, bool):
        return f"{label}: must be checked or not."
    return _choice_refusal(part, label, value if isinstance(value, list) else [value])


def _choice_refusal(part: Json, label: str, chosen: list[Any]) -> str | None:
    if part["type"] in (kinds.RADIO_GROUP, *COUNTED):
        least, most = (1, 1) if part["type"] == kinds.RADIO_GROUP else _counts(part)
        if len(chosen) > most:
            return f"{label}: choose at most {most}."
        if len(chosen) < least:
            return f"{label}: choose at least {least}."
    offered = {str(option["value"]) for option in part.get("options") or []}
    if part["type"] in (kinds.STRING_SELECT, *FEWEST_CHOICES) and not {str(one) for one in chosen} <= offered:
        return f"{label}: choose one of those that are offered."
    return None


def _chosen_before(part: Json) -> list[str]:
    """Return the default values of a menu or a group."""
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
        return {**seen, "value": bool(part.get("default") if given is None else given)}
    if given is None:
        given = _chosen_before(part)
    if part["type"] == kinds.RADIO_GROUP:
        return {**seen, "value": (given[0] if given else None) if isinstance(given, list) else given}
    return {**seen, "values": given if isinstance(given, list) else [given] if given else []}
