"""REST operations on channels and their messages, with the bot's token."""

from __future__ import annotations

from urllib.parse import unquote

from bot.sandbox import rules, threads
from bot.sandbox.core import Core
from bot.sandbox.objects import channel_object, message_object
from bot.sandbox.permissions import Permission
from bot.sandbox.rates import MESSAGES
from bot.sandbox.reactions import react, unreact
from bot.sandbox.rejections import (
    Json,
    Rejection,
    missing_access,
    missing_permissions,
    no_mutual_server,
    unknown_message,
)
from bot.sandbox.rest import NO_CONTENT, Call, Operation, Reply
from bot.sandbox.state import FORUM, PRIVATE, PUBLIC_THREAD, Channel, Event, Flag, Message

CHANNEL = "/channels/{channel_id}"
MESSAGE = f"{CHANNEL}/messages/{{message_id}}"
REACTION = f"{MESSAGE}/reactions/{{emoji_name}}/@me"
LIST_QUERY = {"around": "id", "before": "id", "after": "id", "limit": "int 1 100"}


class ChannelRoutes:
    """Reads and writes messages in channels, with the bot's permissions."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._world = core.world
        self._nonces: dict[tuple[int, str], int] = {}

    def operations(self) -> list[Operation]:
        """Return the operations of this part."""
        messages = f"{CHANNEL}/messages"
        return [
            Operation(method="GET", route=CHANNEL, handler=self._channel),
            Operation(method="POST", route=f"{CHANNEL}/typing", handler=self._typing),
            Operation(method="GET", route=messages, handler=self._list, query=LIST_QUERY),
            Operation(
                method="POST",
                route=messages,
                handler=self._post,
                fields=rules.CHANNEL_MESSAGE_FIELDS,
                limit=MESSAGES,
            ),
            Operation(method="GET", route=MESSAGE, handler=self._get),
            Operation(
                method="PATCH", route=MESSAGE, handler=self._patch, fields=rules.EDIT_FIELDS, limit=MESSAGES
            ),
            Operation(method="DELETE", route=MESSAGE, handler=self._delete, limit=MESSAGES),
            Operation(
                method="POST",
                route=f"{CHANNEL}/threads",
                handler=self._thread,
                fields=rules.THREAD_FIELDS,
                query={"use_nested_fields": "bool"},
            ),
            Operation(method="PUT", route=REACTION, handler=self._react),
            Operation(method="DELETE", route=REACTION, handler=self._unreact),
        ]

    def _reach(self, call: Call, needed: Permission = Permission.VIEW_CHANNEL) -> Channel:
        """Return the channel if the bot sees it and has the permission `needed`; raises Discord's error."""
        channel = self._world.channel(call.params["channel_id"])
        if self._core.kicked and channel.type not in PRIVATE:
            refusal = missing_access()
            refusal.violation = False
            raise refusal
        permissions = self._world.permissions(self._world.bot_id, channel)
        excused = channel.id in self._core.forbidden
        refused: Rejection | None = None
        if not permissions & Permission.VIEW_CHANNEL:
            refused = missing_access()
        elif permissions & needed != needed:
            refused = missing_permissions()
        if refused is not None:
            refused.violation = not excused
            raise refused
        return channel

    def _reach_message(self, call: Call, needed: Permission = Permission.VIEW_CHANNEL) -> Message:
        """Return a message that is not ephemeral, if the bot has the permission `needed` in its channel."""
        channel = self._reach(call, needed)
        message = self._world.message(channel.id, call.params["message_id"])
        if message.visible_to is not None:
            raise unknown_message()
        return message

    def _channel(self, call: Call) -> Reply:
        return Reply(body=channel_object(self._world, self._reach(call)))

    def _thread(self, call: Call) -> Reply:
        parent = self._reach(call)
        self._reach(call, threads.needed_for(parent))
        return Reply(body=threads.begin(self._core, parent, call.body), status=201)

    def _typing(self, call: Call) -> Reply:
        channel = self._reach(call, Permission.SEND_MESSAGES)
        data = {"channel_id": str(channel.id), "user_id": str(self._world.bot_id)}
        self._world.emit(Event(type="TYPING", data=data))
        return NO_CONTENT

    def _list(self, call: Call) -> Reply:
        channel = self._reach(call, Permission.READ_MESSAGE_HISTORY)
        seen = [message for message in self._world.messages_in(channel.id) if message.visible_to is None]
        limit = int(call.query.get("limit", 50))
        if "after" in call.query:
            chosen = [message for message in seen if message.id > int(call.query["after"])][:limit]
        elif "around" in call.query:
            near = sorted(seen, key=lambda message: abs(message.id - int(call.query["around"])))
            chosen = sorted(near[:limit], key=lambda message: message.id)
        else:
            before = int(call.query.get("before", 2**63))
            chosen = [message for message in seen if message.id < before][-limit:]
        return Reply(body=[message_object(self._world, message) for message in reversed(chosen)])

    def _get(self, call: Call) -> Reply:
        message = self._reach_message(call, Permission.READ_MESSAGE_HISTORY)
        return Reply(body=message_object(self._world, message))

    def _post(self, call: Call) -> Reply:
        thread = self._world.channel(call.params["channel_id"]).type == PUBLIC_THREAD
        needed = Permission.SEND_MESSAGES_IN_THREADS if thread else Permission.SEND_MESSAGES
        if call.body.files:
            needed |= Permission.ATTACH_FILES
        channel = self._reach(call, needed)
        if channel.type == FORUM:
            raise Rejection(400, 50008, "Cannot send messages in a non-text channel")
        self._check_recipient(channel)
        body, nonce = call.json, call.json.get("nonce")
        known = self._nonces.get((channel.id, str(nonce))) if body.get("enforce_nonce") else None
        earlier = self._world.messages.get(known) if known else None
        if earlier is not None and self._world.clock() < earlier.created_at + rules.NONCE_SECONDS:
            return Reply(body=message_object(self._world, earlier))
        if rules.flags_of(body) & Flag.EPHEMERAL:
            self._core.log.violation("POST messages: only an interaction's answer can be ephemeral")
        message = Message(
            id=self._world.new_id(),
            channel_id=channel.id,
            author_id=self._world.bot_id,
            created_at=self._world.clock(),
            nonce=nonce,
            reference=self._reference(channel, body),
        )
        if message.reference is not None:
            message.type = 19
        self._core.posting.create(call.body, message)
        if nonce is not None:
            self._nonces[channel.id, str(nonce)] = message.id
        return Reply(body=message_object(self._world, message))

    def _check_recipient(self, channel: Channel) -> None:
        recipient = self._world.members.get(channel.recipient_id or 0)
        if recipient is not None and not recipient.accepts_dms:
            raise Rejection(403, 50007, "Cannot send messages to this user", violation=False)
        shares_server = not self._core.kicked  # there is only one server
        if recipient is not None and not (shares_server or recipient.installed):
            raise no_mutual_server()

    def _reference(self, channel: Channel, body: Json) -> Json | None:
        wanted = body.get("message_reference")
        if not wanted:
            return None
        try:
            message = self._world.message(channel.id, str(wanted.get("message_id")))
        except Rejection:
            if not wanted.get("fail_if_not_exists", True):
                return None
            raise
        return {"type": 0, "message_id": str(message.id), "channel_id": str(channel.id)}

    def _patch(self, call: Call) -> Reply:
        message = self._reach_message(call)
        if message.author_id != self._world.bot_id:
            raise Rejection(403, 50005, "Cannot edit a message authored by another user")
        return Reply(body=message_object(self._world, self._core.posting.edit(call.body, message)))

    def _delete(self, call: Call) -> Reply:
        message = self._reach_message(call)
        if message.author_id != self._world.bot_id:
            self._reach(call, Permission.MANAGE_MESSAGES)
        self._core.posting.delete(message)
        return NO_CONTENT

    def _react(self, call: Call) -> Reply:
        message = self._reach_message(call, Permission.ADD_REACTIONS | Permission.READ_MESSAGE_HISTORY)
        react(self._world, message, self._world.bot_id, unquote(call.params["emoji_name"]))
        return NO_CONTENT

    def _unreact(self, call: Call) -> Reply:
        message = self._reach_message(call)
        unreact(self._world, message, self._world.bot_id, unquote(call.params["emoji_name"]))
        return NO_CONTENT
