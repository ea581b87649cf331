"""Sends messages of sessions with the bot's token, each once: with a nonce, and a search before a repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import discord

from bot.delivery.content import MessageContent
from bot.delivery.discord_requests import MessageFile, RateGuard, layout
from bot.delivery.earlier import posted_earlier
from bot.store.rows.sessions import GroupSession

File = tuple[str, bytes]


class Courier:
    """Posts and edits messages in the channels of sessions.

    Every verb raises Refused, and DeliveryDelayed where Discord may take the message later.
    """

    def __init__(self, client: discord.Client, rate_guard: RateGuard) -> None:
        self._client = client
        self._rate_guard = rate_guard

    async def post(
        self,
        session: GroupSession,
        content: MessageContent,
        *,
        mark: str,
        files: Sequence[File] = (),
        again: bool = True,
        telling: bool = False,
    ) -> int:
        """Post a message whose button has this mark, unless it was posted before; return its id.

        If `telling`, Discord tells the people whom the message mentions. Without `again` there was no earlier
        attempt, so no earlier message is searched for.
        """
        custom_id = f"group:{session.id}:{mark}"
        if again and (known := await self._earlier(session, custom_id)):
            return known
        view = layout(content, file_names=[name for name, _ in files])
        covered = _is_covered(content)
        attached = _attached(files, covered=covered)
        return await self._send(session, mark, telling=telling, view=view, files=attached)

    async def post_file(self, session: GroupSession, text: str, file: File, *, mark: str, again: bool) -> int:
        """Post a file with a line of text, unless a message with a file of this name is there."""
        if again and (known := await self._earlier(session, file[0])):
            return known
        return await self._send(session, mark, content=text, files=_attached([file]))

    async def edit(self, session: GroupSession, message_id: int, content: MessageContent) -> None:
        """Edit a message that has no files."""
        message = self._channel(session).get_partial_message(message_id)
        with self._rate_guard.request(by_token=False):
            await message.edit(view=layout(content), allowed_mentions=discord.AllowedMentions.none())

    async def edit_posted(
        self, session: GroupSession, content: MessageContent, *, mark: str, files: Sequence[File]
    ) -> None:
        """Edit the message with the button of this mark, if it is there; `files` replace its files."""
        message_id = await self._earlier(session, f"group:{session.id}:{mark}", needed=True)
        if message_id is None:
            return
        message = self._channel(session).get_partial_message(message_id)
        view = layout(content, file_names=[name for name, _ in files])
        silent = discord.AllowedMentions.none()
        with self._rate_guard.request(by_token=False):
            attached = _attached(files, covered=_is_covered(content))
            await message.edit(view=view, attachments=attached, allowed_mentions=silent)

    async def _send(self, session: GroupSession, mark: str, *, telling: bool = False, **message: Any) -> int:
        mentions = discord.AllowedMentions(everyone=False, roles=False, users=telling)
        nonce = f"gs-{session.id}-{mark}"[:25]
        with self._rate_guard.request(by_token=False):
            return (await self._channel(session).send(**message, nonce=nonce, allowed_mentions=mentions)).id

    async def _earlier(self, session: GroupSession, wanted: str, *, needed: bool = False) -> int | None:
        """Return the id of the message with this button or file."""
        return await posted_earlier(
            *(self._client, self._rate_guard, self._channel(session)),
            lambda marks: wanted in marks,
            since=session.opened_at,
            oldest_first=False,
            needed=needed,
        )

    def _channel(self, session: GroupSession) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(session.channel_id, guild_id=session.guild_id)


def _attached(files: Sequence[File], *, covered: bool = False) -> list[MessageFile]:
    return [MessageFile(data, name, covered=covered) for name, data in files]


def _is_covered(content: MessageContent) -> bool:
    return any(picture.spoiler for picture in content.pictures)
