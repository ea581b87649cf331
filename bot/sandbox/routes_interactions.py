"""REST operations with an interaction's token: the first response, its edits, follow-ups."""

from __future__ import annotations

from bot.sandbox import rules
from bot.sandbox.core import Core
from bot.sandbox.interactions import Interaction
from bot.sandbox.objects import message_object
from bot.sandbox.rates import WEBHOOKS
from bot.sandbox.rejections import unknown_message
from bot.sandbox.rest import NO_CONTENT, Call, Operation, Reply
from bot.sandbox.state import Flag, Message, number_of

WEBHOOK = "/webhooks/{webhook_id}/{webhook_token}"
THREAD = {"thread_id": "id"}
EDITING = {**THREAD, "with_components": "bool"}


class InteractionRoutes:
    """Responses to interactions; the token in the path is the only authentication."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def operations(self) -> list[Operation]:
        """Return the operations of this part."""
        operations = [
            Operation(
                method="POST",
                route="/interactions/{interaction_id}/{interaction_token}/callback",
                handler=self._callback,
                query={"with_response": "bool"},
                fields=frozenset({"type", "data"}),
                authorised=False,
            ),
            Operation(
                method="POST",
                route=WEBHOOK,
                handler=self._follow_up,
                query={**EDITING, "wait": "bool"},
                fields=rules.WEBHOOK_FIELDS,
                authorised=False,
                limit=WEBHOOKS,
            ),
        ]
        for one in ("@original", "{message_id}"):
            route = f"{WEBHOOK}/messages/{one}"
            for method, handler in (("GET", self._get), ("PATCH", self._patch), ("DELETE", self._delete)):
                operations.append(
                    Operation(
                        method=method,
                        route=route,
                        handler=handler,
                        query=EDITING if method == "PATCH" else THREAD,
                        fields=rules.EDIT_FIELDS if method == "PATCH" else None,
                        authorised=False,
                        limit=WEBHOOKS,
                    )
                )
        return operations

    def _callback(self, call: Call) -> Reply:
        params = call.params
        answer = self._core.callbacks.answer(params["interaction_id"], params["interaction_token"], call.body)
        return Reply(body=answer) if call.asks("with_response") else NO_CONTENT

    def _interaction(self, call: Call) -> Interaction:
        return self._core.interactions.to_follow_up(call.params["webhook_id"], call.params["webhook_token"])

    def _message(self, call: Call) -> Message:
        interaction = self._interaction(call)
        wanted = call.params.get("message_id")
        if wanted is None or (interaction.original and wanted == str(interaction.original.id)):
            message = interaction.original
        else:
            known = number_of(wanted) in interaction.message_ids
            message = self._core.world.messages.get(number_of(wanted)) if known else None
        if message is None or message.id not in self._core.world.messages:
            raise unknown_message()
        return message

    def _get(self, call: Call) -> Reply:
        return Reply(body=message_object(self._core.world, self._message(call)))

    def _patch(self, call: Call) -> Reply:
        message = self._core.posting.edit(call.body, self._message(call))
        return Reply(body=message_object(self._core.world, message))

    def _delete(self, call: Call) -> Reply:
        self._core.posting.delete(self._message(call))
        return NO_CONTENT

    def _follow_up(self, call: Call) -> Reply:
        interaction = self._interaction(call)
        original = interaction.original
        waits = original is not None and original.id in self._core.world.messages
        if original is not None and waits and original.flags & Flag.LOADING:
            # The first follow-up after a deferral replaces the "thinking…" message.
            message = self._core.posting.edit(call.body, original)
        else:
            self._core.interactions.count_follow_up(interaction)
            message = self._core.interactions.new_message(interaction)
            alone = self._core.interactions.answers_alone(interaction)
            ephemeral = alone or bool(rules.flags_of(call.json) & Flag.EPHEMERAL)
            message.visible_to = interaction.member_id if ephemeral else None
            if original is not None:
                message.interaction_metadata = {
                    **interaction.metadata,
                    "original_response_message_id": str(original.id),
                }
            self._core.posting.create(call.body, message, ephemeral=ephemeral)
        return Reply(body=message_object(self._core.world, message)) if call.asks("wait") else NO_CONTENT
