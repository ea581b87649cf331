"""Checks what passes between a bot and the sandbox against Discord's own documents."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema_rs
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7, DRAFT202012

from bot.sandbox.automod import AUTOMOD_EVENTS
from bot.sandbox.exchange import Exchange, Frame

REPOSITORY = Path(__file__).parents[1]
OPENAPI, GATEWAY = "urn:openapi", "urn:gateway"
DISPATCHES = {"READY": "ready", "GUILD_CREATE": "guild", "INTERACTION_CREATE": "interaction"}
IDENTIFY, HELLO = 2, 10
ID_FIELDS = {"id", "recipient_id", "message_id", "channel_id", "guild_id"}
AUTOMOD_RULE = {
    "$ref": f"{OPENAPI}#/paths/~1guilds~1%7Bguild_id%7D~1auto-moderation~1rules/get/responses/200"
    "/content/application~1json/schema/items"
}
"""Rules have the same form in events and in answers."""
FILE_TYPES = {
    "type": ["array", "null"],
    "maxItems": 10,
    "items": {"type": "string", "pattern": r"^(image|video|audio|\.[^.\s].*)$"},
}
NEWER = {
    "ApplicationCommandAttachmentOption": {"file_types": FILE_TYPES},
    "ApplicationCommandAttachmentOptionResponse": {"file_types": FILE_TYPES},
    "FileUploadComponentForModalRequest": {"file_types": FILE_TYPES},
}
"""Fields that Discord has documented since July 2026, in words alone: discord/discord-api-docs#8506."""
NOT_VALIDATED = (
    "NOT VALIDATED against Discord's documents: they lie neither in ../shared/discord-api"
    " nor in the folder that DISCORD_API_SPEC names"
)


def folder() -> Path | None:
    """Return where Discord's documents lie, or None."""
    places = [os.environ.get("DISCORD_API_SPEC"), REPOSITORY.parent / "shared" / "discord-api"]
    found = (Path(place) for place in places if place)
    return next((place for place in found if (place / "openapi.json").is_file()), None)


@dataclass
class Documents:
    """Discord's two documents, and the problems of the exchanges that were checked against them."""

    place: Path
    checked: int = 0
    problems: list[str] = field(default_factory=list)
    _quick: dict[str, jsonschema_rs.Validator] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def openapi(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.place / "openapi.json").read_text())
        for name, fields in NEWER.items():
            known = loaded["components"]["schemas"][name]["properties"]
            loaded["components"]["schemas"][name]["properties"] = {**fields, **known}
        return loaded

    @cached_property
    def gateway(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.place / "gateway.schema.json").read_text())
        return loaded

    @cached_property
    def registry(self) -> Registry[Any]:
        resources = [
            (OPENAPI, Resource(contents=self.openapi, specification=DRAFT202012)),
            (GATEWAY, Resource(contents=self.gateway, specification=DRAFT7)),
        ]
        return Registry().with_resources(resources)

    def __call__(self, seen: Exchange | Frame) -> None:
        """Check one exchange; the observer of a sandbox."""
        problems = self.of_exchange(seen) if isinstance(seen, Exchange) else self.of_frame(seen)
        self.problems += problems

    def of_frame(self, frame: Frame) -> list[str]:
        if frame.event in AUTOMOD_EVENTS:
            self.checked += 1
            return [f"gateway {frame.event}: {each}" for each in self._told(AUTOMOD_RULE, frame.payload["d"])]
        name = DISPATCHES.get(frame.event or "")
        value = frame.payload["d"] if name else frame.payload
        if frame.from_bot:
            name = "identify" if frame.op == IDENTIFY else None
        elif frame.op == HELLO:
            name = "hello"
        if name is None:
            return []
        self.checked += 1
        schema = {"$ref": f"{GATEWAY}#/definitions/Root/properties/{name}"}
        return [f"gateway {name}: {problem}" for problem in self._told(schema, value, Draft7Validator)]

    def of_exchange(self, exchange: Exchange) -> list[str]:
        self.checked += 1
        where = f"{exchange.method} {exchange.route}"
        operation = self.openapi["paths"].get(exchange.route, {}).get(exchange.method.lower())
        if operation is None:
            return [f"{where}: Discord has no such operation"]
        pointer = f"{OPENAPI}#/paths/{escaped(exchange.route)}/{exchange.method.lower()}"
        problems: list[str] = []
        if exchange.request is not None and exchange.status < 400:
            schema = {"$ref": f"{pointer}/requestBody/content/application~1json/schema"}
            problems += [
                f"request: {each}" for each in self._told(schema, as_discord_reads(exchange.request))
            ]
        known = [str(exchange.status), f"{str(exchange.status)[0]}XX"]
        status = next((each for each in known if each in operation["responses"]), None)
        if status is None and exchange.status < 500:
            problems.append(f"there is no answer {exchange.status}")
        elif status is not None and exchange.response is not None:
            answer = operation["responses"][status]
            base = answer.get("$ref", f"{pointer}/responses/{status}").replace(
                "#/components", f"{OPENAPI}#/components"
            )
            schema = {"$ref": f"{base}/content/application~1json/schema"}
            problems += [
                f"answer {status}: {each}" for each in self._told(schema, as_documented(exchange.response))
            ]
        return [f"{where}: {problem}" for problem in problems]

    def _told(
        self, schema: dict[str, Any], value: Any, kind: type[Validator] = Draft202012Validator
    ) -> list[str]:
        """Return the problems: the quick validator finds whether there are any, the other describes them."""
        where = schema["$ref"]
        if where not in self._quick:
            self._quick[where] = self._quick_validator(schema, kind)
        if self._quick[where].is_valid(value):
            return []
        problems = list(told(kind(schema, registry=self.registry).iter_errors(value)))
        return problems or [
            f"{error.instance_path}: {error.message[:300]}" for error in self._quick[where].iter_errors(value)
        ]

    def _quick_validator(self, schema: dict[str, Any], kind: type[Validator]) -> jsonschema_rs.Validator:
        if kind is Draft7Validator:
            gateway = jsonschema_rs.Registry([(GATEWAY, self.gateway)], draft=jsonschema_rs.Draft7)
            return jsonschema_rs.Draft7Validator(schema, registry=gateway, validate_formats=False)
        openapi = jsonschema_rs.Registry([(OPENAPI, self.openapi)], draft=jsonschema_rs.Draft202012)
        return jsonschema_rs.Draft202012Validator(schema, registry=openapi, validate_formats=False)


def escaped(text: str) -> str:
    """Write a key for use in a JSON pointer inside an address."""
    return text.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


def as_discord_reads(request: Any) -> Any:
    """Return the request with strings as ids: discord.py sends some as integers, which Discord accepts."""
    if isinstance(request, list):
        return [as_discord_reads(each) for each in request]
    if not isinstance(request, dict):
        return request
    read = {key: as_discord_reads(value) for key, value in request.items()}
    for holder in (read, *(read.get("attachments") or []), read.get("message_reference") or {}):
        for name in ID_FIELDS & holder.keys():
            # A component's id is a number; only those of attachments are snowflakes.
            if isinstance(holder[name], int) and (name != "id" or holder is not read):
                holder[name] = str(holder[name])
    return read


def as_documented(response: Any) -> Any:
    """Return the response with integers as its errors' codes: Discord sends names, against its document."""
    if not isinstance(response, dict) or "errors" not in response:
        return response

    def numbered(node: dict[str, Any]) -> dict[str, Any]:
        return {
            key: [{**leaf, "code": 0} for leaf in below] if key == "_errors" else numbered(below)
            for key, below in node.items()
        }

    return {**response, "errors": numbered(response["errors"])}


def told(errors: Iterable[ValidationError]) -> Iterator[str]:
    """Yield each error at its deepest place; in a union, from the branch that fits best."""
    for error in errors:
        deepest = error
        while deepest.context:
            deepest = best_branch(deepest)
        path = "/".join(map(str, deepest.absolute_path))
        yield f"{path or 'all of it'}: {deepest.message[:300]}"


def best_branch(error: ValidationError) -> ValidationError:
    """Return the first error of the branch whose `type` fits and that has the fewest errors."""
    branches: dict[Any, list[ValidationError]] = {}
    for below in error.context or []:
        branches.setdefault(below.relative_schema_path[0], []).append(below)

    def unfit(branch: list[ValidationError]) -> tuple[bool, int]:
        return any(list(each.relative_path) == ["type"] for each in branch), len(branch)

    return min(branches.values(), key=unfit)[0]
