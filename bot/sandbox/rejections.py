"""The sandbox's errors: Discord's statuses, codes and error trees."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
Path = tuple[str | int, ...]


class Rejection(Exception):
    """A request that Discord refuses, with its HTTP status, JSON error code and message.

    `violation`: a correct bot never causes it. Violations are logged.
    """

    def __init__(
        self, status: int, code: int, message: str, *, errors: Json | None = None, violation: bool = True
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors
        self.violation = violation
        self.extra: Json = {}

    @property
    def body(self) -> Json:
        """The JSON body of the answer."""
        body: Json = {"message": self.message, "code": self.code, **self.extra}
        if self.errors:
            body["errors"] = self.errors
        return body

    def __str__(self) -> str:
        details = "; ".join(f"{path}: {text}" for path, text in _leaves(self.errors or {}, ""))
        return f"{self.status} {self.code} {self.message}" + (f" ({details})" if details else "")


def _leaves(errors: Json, path: str) -> list[tuple[str, str]]:
    found = [(path, str(leaf["message"])) for leaf in errors.get("_errors", [])]
    for key, below in errors.items():
        if key != "_errors":
            found += _leaves(below, f"{path}.{key}" if path else key)
    return found


class FormErrors:
    """Collects the mistakes of a body, to report all of them in one 50035."""

    def __init__(self) -> None:
        self._tree: Json = {}

    def add(self, path: Path, code: str, message: str) -> None:
        """Add one mistake at `path`."""
        node = self._tree
        for key in path:
            node = node.setdefault(str(key), {})
        node.setdefault("_errors", []).append({"code": code, "message": message})

    def length(self, path: Path, value: Any, least: int, most: int) -> None:
        """Add a mistake if a text or a list is too short or too long."""
        if not least <= len(value) <= most:
            code = "BASE_TYPE_MAX_LENGTH" if least == 0 else "BASE_TYPE_BAD_LENGTH"
            said = f"{most} or fewer" if least == 0 else f"between {least} and {most}"
            self.add(path, code, f"Must be {said} in length.")

    def required(self, path: Path) -> None:
        """Add a mistake for a missing field."""
        self.add(path, "BASE_TYPE_REQUIRED", "This field is required")

    def check(self) -> None:
        """Raise the rejection if there is any mistake."""
        if self._tree:
            raise Rejection(400, 50035, "Invalid Form Body", errors=_pruned(self._tree))


def _pruned(node: Json) -> Json:
    """Remove the mistakes within a field that has a mistake itself, as in Discord's answers."""
    if "_errors" in node:
        return {"_errors": node["_errors"]}
    return {key: _pruned(below) for key, below in node.items()}


def unknown(what: str, code: int, *, violation: bool = True) -> Rejection:
    """Return the 404 for an object that does not exist or that the bot may not see."""
    return Rejection(404, code, f"Unknown {what}", violation=violation)


def unknown_channel() -> Rejection:
    return unknown("Channel", 10003, violation=False)


def unknown_message() -> Rejection:
    return unknown("Message", 10008, violation=False)


def missing_access() -> Rejection:
    return Rejection(403, 50001, "Missing Access")


def no_mutual_server() -> Rejection:
    sentence = "Cannot send messages to this user due to having no mutual guilds"
    return Rejection(403, 50278, sentence, violation=False)


def thread_archived() -> Rejection:
    sentence = "Tried to perform an operation on an archived thread, such as editing a message"
    return Rejection(400, 50083, sentence, violation=False)


def thread_locked() -> Rejection:
    return Rejection(400, 160005, "Thread is locked", violation=False)


def missing_permissions() -> Rejection:
    return Rejection(403, 50013, "Missing Permissions")
