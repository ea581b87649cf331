"""Interactions, from a member's action to the end of their tokens, and Discord's rules for the answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.sandbox import rules
from bot.sandbox.commands import CONTEXTS, IN_SERVER
from bot.sandbox.log import Log
from bot.sandbox.objects import (
    INTERACTION_TYPES,
    guild_object,
    interaction_channel_object,
    member_object,
    message_object,
    user_object,
)
from bot.sandbox.rejections import Json, Rejection, unknown
from bot.sandbox.state import DIRECT_MESSAGE, PRIVATE, Channel, Event, Flag, Message, World, number_of

OUTSIDE_FOLLOW_UPS = 5  # of one interaction if only its member has installed the bot
FAILURES = {
    "command": "The application did not respond",
    "menu": "The application did not respond",
    "component": "This interaction failed",
    "modal": "Something went wrong. Try again.",
}

ANSWER_TYPES = {"command": 20, "menu": 23}
"""Types of the messages that answer commands."""


@dataclass(kw_only=True)
class Interaction:
    """One action of a member. `kind` is "command", "menu", "component", "autocomplete" or "modal".

    `excused`: the sandbox may have made it fail (an injected fault, or no bot was connected), so that a
    missing answer is no violation.
    """

    id: int
    token: str
    kind: str
    member_id: int
    channel_id: int
    created_at: float
    data: Json
    metadata: Json
    name: str | None = None
    message: Message | None = None
    answer: Json | None = None
    acknowledged: int | None = None
    acknowledged_at: float | None = None
    failed: bool = False
    dead: bool = False
    excused: bool = False
    original: Message | None = None
    follow_ups: int = 0
    message_ids: set[int] = field(default_factory=set)
    modal: Json | None = None
    choices: asyncio.Future[list[Json]] | None = None


class Interactions:
    """All interactions; `excuse` says whether the sandbox may have made one fail that began at this time."""

    def __init__(self, world: World, log: Log, excuse: Callable[[float], bool], limits: rules.Limits) -> None:
        self._world = world
        self._log = log
        self._excuse = excuse
        self._limits = limits
        self._by_id: dict[int, Interaction] = {}
        self._by_token: dict[str, Interaction] = {}
        self._unsettled: dict[int, Interaction] = {}

    def begin(
        self,
        kind: str,
        member_id: int,
        channel: Channel,
        data: Json,
        *,
        name: str | None = None,
        message: Message | None = None,
        origin: Interaction | None = None,
    ) -> Interaction:
        """Register an action of a member and send INTERACTION_CREATE to the bot."""
        interaction = Interaction(
            id=self._world.new_id(),
            token=secrets.token_urlsafe(96),
            kind=kind,
            member_id=member_id,
            channel_id=channel.id,
            created_at=self._world.clock(),
            data=data,
            metadata={},
            name=name,
            message=message,
        )
        interaction.metadata = self._metadata(interaction, origin)
        if kind == "autocomplete":
            interaction.choices = asyncio.get_running_loop().create_future()
        self._by_id[interaction.id] = self._by_token[interaction.token] = interaction
        self._unsettled[interaction.id] = interaction
        self._world.emit(Event(type="INTERACTION_CREATE", data=self.payload(interaction)))
        return interaction

    def get(self, interaction_id: int) -> Interaction | None:
        """Return an interaction in any state."""
        return self._by_id.get(interaction_id)

    def acknowledgement_seconds(self) -> list[float | None]:
        """The time of each interaction until its first response; None if there was none."""
        return [
            None if each.acknowledged_at is None else each.acknowledged_at - each.created_at
            for each in self._by_id.values()
        ]

    def payload(self, interaction: Interaction) -> Json:
        """The INTERACTION_CREATE that the bot receives."""
        world = self._world
        channel = world.channels[interaction.channel_id]
        private = channel.type in PRIVATE
        member = world.members[interaction.member_id]
        payload: Json = {
            "id": str(interaction.id),
            "application_id": str(world.application_id),
            "type": INTERACTION_TYPES[interaction.kind],
            "data": interaction.data,
            "channel_id": str(channel.id),
            "channel": interaction_channel_object(world, channel, interaction.member_id),
            "token": interaction.token,
            "version": 1,
            "app_permissions": str(world.permissions(world.bot_id, channel)),
            "locale": member.user.locale,
            "entitlements": [],
            "authorizing_integration_owners": interaction.metadata["authorizing_integration_owners"],
            "context": CONTEXTS.get(channel.type, IN_SERVER),
            "attachment_size_limit": self._limits.stated,
        }
        if interaction.message is not None:
            payload["message"] = message_object(world, interaction.message)
        if private:
            return {**payload, "user": user_object(member.user)}
        permissions = str(world.permissions(interaction.member_id, channel))
        return {
            **payload,
            "guild_id": str(world.guild_id),
            "guild_locale": "en-US",
            "guild": {key: guild_object(world)[key] for key in ("id", "features")} | {"locale": "en-US"},
            "member": {**member_object(world, member), "permissions": permissions},
        }

    def _metadata(self, interaction: Interaction, origin: Interaction | None) -> Json:
        metadata: Json = {
            "id": str(interaction.id),
            "type": INTERACTION_TYPES[interaction.kind],
            "user": user_object(self._world.user(interaction.member_id)),
            "authorizing_integration_owners": self._owners(interaction),
        }
        if interaction.kind == "component" and interaction.message is not None:
            metadata["interacted_message_id"] = str(interaction.message.id)
        if interaction.kind == "menu":
            metadata["target_message_id"] = interaction.data["target_id"]
        if interaction.kind == "modal" and origin is not None:
            metadata["triggering_interaction_metadata"] = origin.metadata
        return metadata

    def _owners(self, interaction: Interaction) -> Json:
        """Return who installed the bot: "0" is the server, "1" the member."""
        if interaction.message is not None and interaction.message.interaction_metadata is not None:
            given: Json = interaction.message.interaction_metadata["authorizing_integration_owners"]
            return given
        channel, owners = self._world.channels[interaction.channel_id], {}
        if channel.type == DIRECT_MESSAGE:
            owners["0"] = "0"
        elif channel.type not in PRIVATE and not self._world.kicked:
            owners["0"] = str(self._world.guild_id)
        if self._world.members[interaction.member_id].installed:
            owners["1"] = str(interaction.member_id)
        return owners

    def answers_alone(self, interaction: Interaction) -> bool:
        """Whether every answer is ephemeral: the server does not let external apps post."""
        channel = self._world.channels[interaction.channel_id]
        outside = "0" not in interaction.metadata["authorizing_integration_owners"]
        return outside and channel.type not in PRIVATE and not self._world.external_apps

    def count_follow_up(self, interaction: Interaction) -> None:
        """Count a follow-up; raise 40094 for one too many if the bot is not in the server."""
        interaction.follow_ups += 1
        outside = "0" not in interaction.metadata["authorizing_integration_owners"]
        if outside and interaction.follow_ups > OUTSIDE_FOLLOW_UPS:
            message = "This interaction has reached the maximum number of follow-up messages."
            raise Rejection(400, 40094, message)

    def to_acknowledge(self, interaction_id: str, token: str, answer: Json) -> Interaction:
        """Return the interaction for its first response; raises 10062 or 40060.

        A bot whose request was lost sends it again: the same response twice is no violation.
        """
        interaction = self._by_id.get(number_of(interaction_id))
        if interaction is None or interaction.token != token:
            raise unknown("interaction", 10062)
        if interaction.acknowledged is not None:
            repeated = interaction.answer == answer
            raise Rejection(
                *(400, 40060, "Interaction has already been acknowledged."),
                violation=not (interaction.excused or repeated),
            )
        self._check_deadline(interaction)
        if interaction.failed or interaction.dead:
            raise unknown("interaction", 10062, violation=False)  # the log has the missed deadline already
        return interaction

    def to_follow_up(self, application_id: str, token: str) -> Interaction:
        """Return the acknowledged interaction of a valid token; raises 10015 or 50027."""
        interaction = self._by_token.get(token)
        if interaction is None or application_id != str(self._world.application_id):
            raise unknown("Webhook", 10015)
        if interaction.dead:
            raise Rejection(401, 50027, "Invalid Webhook Token", violation=False)
        if self._world.clock() >= interaction.created_at + rules.TOKEN_SECONDS:
            raise Rejection(401, 50027, "Invalid Webhook Token")
        if interaction.acknowledged is None:
            raise unknown("Webhook", 10015, violation=not interaction.excused)
        return interaction

    def new_message(self, interaction: Interaction) -> Message:
        """Return the empty message of an answer or a follow-up."""
        message = Message(
            id=self._world.new_id(),
            channel_id=interaction.channel_id,
            author_id=self._world.bot_id,
            created_at=self._world.clock(),
            webhook_id=self._world.application_id,
            interaction_metadata=dict(interaction.metadata),
        )
        interaction.message_ids.add(message.id)
        return message

    def adopt(self, interaction: Interaction, message: Message) -> None:
        """Make `message` the interaction's original response (@original)."""
        interaction.original = message
        if interaction.kind in ANSWER_TYPES:
            message.type = ANSWER_TYPES[interaction.kind]
            message.interaction = {
                "id": str(interaction.id),
                "type": 2,
                "name": interaction.name or "",
                "user": user_object(self._world.user(interaction.member_id)),
            }

    def expire_tokens(self) -> None:
        """Expire every present token, as after 15 minutes."""
        for interaction in self._by_id.values():
            interaction.dead = interaction.excused = True

    def excuse_all(self) -> None:
        """Excuse all open interactions because of an injected fault."""
        for interaction in self._unsettled.values():
            if interaction.acknowledged is None:
                interaction.excused = True

    def check_deadlines(self) -> None:
        """Fail interactions without acknowledgement in time, and log deferred answers that never came."""
        for interaction in [*self._unsettled.values()]:
            self._check_deadline(interaction)
            self._check_promise(interaction)
            answered = interaction.acknowledged is not None and not self._is_promised(interaction)
            if interaction.failed or answered:
                del self._unsettled[interaction.id]

    def _check_deadline(self, interaction: Interaction) -> None:
        late = self._world.clock() >= interaction.created_at + rules.ACKNOWLEDGE_SECONDS
        if interaction.acknowledged is not None or interaction.failed or not late:
            return
        self._fail(interaction, f"no acknowledgement within {rules.ACKNOWLEDGE_SECONDS:g} s")

    def _check_promise(self, interaction: Interaction) -> None:
        over = self._world.clock() >= interaction.created_at + rules.TOKEN_SECONDS
        if over and self._is_promised(interaction) and not interaction.failed:
            self._fail(interaction, "deferred and never answered within 15 min")

    def _is_promised(self, interaction: Interaction) -> bool:
        """Whether the member still sees that the bot is thinking."""
        waiting = self._world.messages.get(interaction.original.id) if interaction.original else None
        return waiting is not None and bool(waiting.flags & Flag.LOADING)

    def _fail(self, interaction: Interaction, reason: str) -> None:
        interaction.failed = True
        if not (interaction.excused or self._excuse(interaction.created_at)):
            self._log.violation(f"{interaction.kind} {interaction.name or interaction.id}: {reason}")
        if interaction.choices is not None and not interaction.choices.done():
            interaction.choices.set_result([])
            return
        data = {
            "interaction_id": str(interaction.id),
            "channel_id": str(interaction.channel_id),
            "message": FAILURES.get(interaction.kind, ""),
        }
        self._world.emit(Event(type="INTERACTION_FAILED", data=data, member_id=interaction.member_id))
