"""Creating, editing and deleting messages: from bodies and files to state and events."""

from __future__ import annotations

import mimetypes

from bot.sandbox import rules
from bot.sandbox.components import ATTACHMENT, resolve, texts
from bot.sandbox.log import Log
from bot.sandbox.objects import attachment_object, channel_object
from bot.sandbox.permissions import Permission
from bot.sandbox.rejections import FormErrors, Json, thread_archived, thread_locked
from bot.sandbox.state import Attachment, Channel, Event, Flag, Message, World, number_of
from bot.sandbox.uploads import Body, Upload, picture_size, safe_filename


class Posting:
    """Creates, edits and deletes messages for all routes."""

    def __init__(self, world: World, log: Log) -> None:
        self._world = world
        self._log = log

    def create(self, body: Body, message: Message, *, ephemeral: bool = False) -> Message:
        """Fill the new `message` from `body`, store it, and send the event to everyone who may see it.

        As in Discord, it unarchives an archived thread; raises if the thread is locked.
        """
        thread = self._world.channel(message.channel_id)
        if thread.locked:
            raise thread_locked()
        self._fill(body, message, ephemeral=ephemeral)
        if thread.archived:
            thread.archived = False
            self._world.emit(Event(type="THREAD_UPDATE", data=channel_object(self._world, thread)))
        self.keep(message)
        return message

    def check(self, body: Body, message: Message) -> None:
        """Fill the new `message` from `body` without storing it; raises Discord's error."""
        self._fill(body, message, ephemeral=False)

    def keep(self, message: Message) -> None:
        """Store a finished message, and send the event to everyone who may see it."""
        self._world.messages[message.id] = message
        self._world.channel(message.channel_id).last_message_id = message.id
        self._world.emit(Event(type="MESSAGE_CREATE", data=None, message=message))

    def edit(self, body: Body, message: Message) -> Message:
        """Change the fields of `message` that `body` names."""
        if self._world.channel(message.channel_id).archived:
            raise thread_archived()
        self._fill(body, message, ephemeral=bool(message.flags & Flag.EPHEMERAL))
        message.edited_at = self._world.clock()
        self._world.emit(Event(type="MESSAGE_UPDATE", data=None, message=message))
        return message

    def delete(self, message: Message) -> None:
        """Delete a message."""
        del self._world.messages[message.id]
        self._world.emit(Event(type="MESSAGE_DELETE", data=None, message=message))

    def _fill(self, body: Body, message: Message, *, ephemeral: bool) -> None:
        given: Json = body.json if isinstance(body.json, dict) else {}
        wanted = rules.flags_of(given)
        v2 = bool((message.flags | wanted) & Flag.IS_COMPONENTS_V2)
        for oddity in rules.check_message(given, v2=v2):
            self._log.violation(oddity)
        flags = given.get("flags")
        rules.check_v2_kept(message.flags, flags)
        content = (given.get("content") or "") if "content" in given else message.content
        embeds = (given.get("embeds") or []) if "embeds" in given else message.embeds
        if v2:
            extra = {name: given.get(name) for name in ("poll", "sticker_ids")}
            rules.check_v2_alone({"content": content, "embeds": embeds, **extra})
        channel = self._world.channel(message.channel_id)
        attachments = self._attachments(body, given, message, channel, ephemeral=ephemeral)
        errors = FormErrors()
        components = message.components
        if "components" in given:
            components = resolve(
                given["components"] or [], lambda url: self._unfurl(url, attachments), errors
            )
        errors.check()
        kept = message.flags & ~(Flag.LOADING | (Flag.SUPPRESS_EMBEDS if flags is not None else 0))
        final = kept | (wanted & rules.SETTABLE_FLAGS) | (Flag.EPHEMERAL if ephemeral else 0)
        rules.check_not_empty(
            content=content, embeds=embeds, components=components, files=len(attachments), flags=final
        )
        message.content, message.components, message.flags = content, components, final
        message.embeds = [{"type": "rich", **embed} for embed in embeds]
        message.attachments = [self._world.attach(attachment) for attachment in attachments]
        self._notify(message, given.get("allowed_mentions"), channel)

    def _notify(self, message: Message, allowed: Json | None, channel: Channel) -> None:
        mentions = rules.mentions_in("\n".join([message.content, *texts(message.components)]), allowed)
        message.mentions = tuple(user for user in mentions.users if user in self._world.members)
        message.mention_roles = tuple(role for role in mentions.roles if role in self._world.roles)
        may = self._world.permissions(message.author_id, channel) & Permission.MENTION_EVERYONE
        message.mention_everyone = mentions.everyone and bool(may)

    def _attachments(
        self, body: Body, given: Json, message: Message, channel: Channel, *, ephemeral: bool
    ) -> list[Attachment]:
        """Return the message's files after the change: kept files by id, then uploaded files."""
        old = {str(attachment.id): attachment for attachment in message.attachments}
        listed = given.get("attachments")
        entries = listed if listed is not None else [{"id": key} for key in old]
        errors = FormErrors()
        result: list[Attachment] = []
        described: dict[int, Json] = {}
        for index, entry in enumerate(entries):
            key = str(entry.get("id"))
            if key in old:
                result.append(self._kept(old[key], entry))
            elif (number := number_of(key)) in body.files:
                described[number] = entry
            else:
                sentence = f"There is neither an attachment nor an uploaded file {key}."
                errors.add(("attachments", index, "id"), "ATTACHMENT_NOT_FOUND", sentence)
        for number, upload in body.files.items():
            entry = described.get(number, {})
            result.append(self._new_attachment(upload, entry, channel, ephemeral=ephemeral))
        errors.length(("attachments",), result, 0, rules.MAX_ATTACHMENTS)
        errors.check()
        return result

    def _kept(self, kept: Attachment, entry: Json) -> Attachment:
        """Return a kept file with what the edit changes, as apps can since June 2026."""
        description = entry.get("description", kept.description)
        spoiler = bool(entry.get("is_spoiler", kept.spoiler))
        if (description, spoiler) == (kept.description, kept.spoiler):
            return kept
        return self._world.change(kept, description=description, spoiler=spoiler)

    def _new_attachment(
        self, upload: Upload, entry: Json, channel: Channel, *, ephemeral: bool
    ) -> Attachment:
        filename = safe_filename(entry.get("filename") or upload.filename)
        width, height = picture_size(upload.data)
        return Attachment(
            id=self._world.new_id(),
            place_id=channel.id,
            filename=filename,
            content_type=mimetypes.guess_type(filename)[0] or "application/octet-stream",
            data=upload.data,
            description=entry.get("description"),
            width=width,
            height=height,
            ephemeral=ephemeral,
            spoiler=bool(entry.get("is_spoiler", filename.startswith("SPOILER_"))),
        )

    def _unfurl(self, url: str, attachments: list[Attachment]) -> Json | None:
        if not url.startswith(ATTACHMENT):
            return {"id": str(self._world.new_id()), "url": url, "proxy_url": url}
        name = safe_filename(url.removeprefix(ATTACHMENT))
        found = next(
            (attachment for attachment in reversed(attachments) if attachment.filename == name), None
        )
        if found is None:
            return None
        seen = attachment_object(self._world, found)
        fields = ("id", "url", "proxy_url", "content_type", "width", "height")
        medium = {field: seen[field] for field in fields if field in seen}
        return {**medium, "attachment_id": str(found.id), "name": found.filename, "size": len(found.data)}
