"""The first responses of a bot to an interaction, by Discord's callback types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot.sandbox import rules
from bot.sandbox.interactions import Interaction, Interactions
from bot.sandbox.log import Log
from bot.sandbox.modal_rules import check_modal
from bot.sandbox.objects import INTERACTION_TYPES, message_object
from bot.sandbox.posting import Posting
from bot.sandbox.rejections import FormErrors, Json
from bot.sandbox.state import Event, Flag, World
from bot.sandbox.uploads import Body

MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, CHOICES, MODAL = 4, 5, 6, 7, 8, 9
ALLOWED = {
    "command": frozenset({MESSAGE, DEFERRED_MESSAGE, MODAL}),
    "menu": frozenset({MESSAGE, DEFERRED_MESSAGE, MODAL}),
    "component": frozenset({MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE, MODAL}),
    "modal": frozenset({MESSAGE, DEFERRED_MESSAGE}),
    "autocomplete": frozenset({CHOICES}),
}


class Callbacks:
    """Applies the first response to an interaction."""

    def __init__(self, world: World, interactions: Interactions, posting: Posting, log: Log) -> None:
        self._world = world
        self._interactions = interactions
        self._posting = posting
        self._log = log
        self._by_type: dict[int, Callable[[Interaction, Body], None]] = {
            MESSAGE: self._message,
            DEFERRED_MESSAGE: self._deferred_message,
            DEFERRED_UPDATE: self._deferred_update,
            UPDATE: self._update,
            CHOICES: self._choices,
            MODAL: self._modal,
        }

    def answer(self, interaction_id: str, token: str, body: Body) -> Json:
        """Apply a first response and return the body for `with_response`."""
        given: Json = body.json if isinstance(body.json, dict) else {}
        interaction = self._interactions.to_acknowledge(interaction_id, token, given)
        kind, data = given.get("type"), given.get("data") or {}
        allowed = set(ALLOWED[interaction.kind])
        if interaction.kind == "modal" and interaction.message is not None:
            allowed |= {DEFERRED_UPDATE, UPDATE}
        errors = FormErrors()
        if not isinstance(kind, int) or kind not in allowed:
            choices = ", ".join(map(str, sorted(allowed)))
            errors.add(("type",), "BASE_TYPE_CHOICES", f"Value must be one of {{{choices}}}.")
        if not isinstance(data, dict):
            errors.add(("data",), "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType")
        errors.check()
        self._by_type[int(given["type"])](interaction, Body(json=data, files=body.files))
        interaction.answer, interaction.acknowledged = given, kind
        interaction.acknowledged_at = self._world.clock()
        return self._response(interaction)

    def _response(self, interaction: Interaction) -> Json:
        seen: Json = {"id": str(interaction.id), "type": INTERACTION_TYPES[interaction.kind]}
        response: Json = {"interaction": seen}
        if interaction.acknowledged in (MESSAGE, DEFERRED_MESSAGE) and interaction.original is not None:
            seen["response_message_id"] = str(interaction.original.id)
            seen["response_message_loading"] = interaction.acknowledged == DEFERRED_MESSAGE
            seen["response_message_ephemeral"] = bool(interaction.original.flags & Flag.EPHEMERAL)
        if interaction.acknowledged in (MESSAGE, UPDATE) and interaction.original is not None:
            message = message_object(self._world, interaction.original)
            response["resource"] = {"type": interaction.acknowledged, "message": message}
        return response

    def _note(self, data: Any, known: frozenset[str]) -> None:
        for sentence in rules.unknown_fields(data, known):
            self._log.violation(f"interaction callback: {sentence}")

    def _message(self, interaction: Interaction, body: Body) -> None:
        self._note(body.json, rules.MESSAGE_FIELDS)
        message = self._interactions.new_message(interaction)
        alone = self._interactions.answers_alone(interaction)
        ephemeral = alone or bool(rules.flags_of(body.json) & Flag.EPHEMERAL)
        message.visible_to = interaction.member_id if ephemeral else None
        self._interactions.adopt(interaction, message)
        self._posting.create(body, message, ephemeral=ephemeral)

    def _deferred_message(self, interaction: Interaction, body: Body) -> None:
        self._note(body.json, frozenset({"flags"}))
        message = self._interactions.new_message(interaction)
        alone = self._interactions.answers_alone(interaction)
        ephemeral = Flag.EPHEMERAL if alone else rules.flags_of(body.json) & Flag.EPHEMERAL
        message.flags = Flag.LOADING | ephemeral
        message.visible_to = interaction.member_id if ephemeral else None
        self._interactions.adopt(interaction, message)
        self._posting.keep(message)

    def _deferred_update(self, interaction: Interaction, _body: Body) -> None:
        interaction.original = interaction.message

    def _update(self, interaction: Interaction, body: Body) -> None:
        self._note(body.json, rules.EDIT_FIELDS)
        if interaction.message is not None:
            interaction.original = self._posting.edit(body, interaction.message)

    def _choices(self, interaction: Interaction, body: Body) -> None:
        self._note(body.json, frozenset({"choices"}))
        choices = body.json.get("choices") or []
        errors = FormErrors()
        errors.length(("data", "choices"), choices, 0, 25)
        for index, choice in enumerate(choices):
            errors.length(("data", "choices", index, "name"), str(choice.get("name") or ""), 1, 100)
            if isinstance(choice.get("value"), str):
                errors.length(("data", "choices", index, "value"), choice["value"], 1, 100)
        errors.check()
        if interaction.choices is not None and not interaction.choices.done():
            interaction.choices.set_result(choices)

    def _modal(self, interaction: Interaction, body: Body) -> None:
        check_modal(body.json)
        interaction.modal = body.json
        data = {"interaction_id": str(interaction.id), "channel_id": str(interaction.channel_id), **body.json}
        self._world.emit(Event(type="MODAL", data=data, member_id=interaction.member_id))
