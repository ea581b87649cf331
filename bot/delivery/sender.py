"""Discord's side of delivery: edits of a job's own message, and what stands in for them.

While the interaction's token is safely alive, the message is edited with it; after that, by the bot.
A private message cannot be edited by the bot, so its result goes to the person's direct messages, as
does one whose channel is closed to the bot. A token that was refused once is never used again.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import discord

from bot.artifacts import Artifacts
from bot.delivery.layout import layout
from bot.delivery.pictures import PictureFile, combine, fit
from bot.delivery.refusals import TRANSIENT, DeliveryDelayed, Refusal, understand
from bot.delivery.render import MessageContent, with_notice, without_picture
from bot.errors import DeliveryRefused, MissingArtifact, StoreUnavailable
from bot.jobs import Delivery, Job, State
from bot.texts import Texts

TOKEN_MARGIN = 60.0  # seconds before its end from which a token is not trusted any more
FITTING_ATTEMPTS = 8  # halving each time: from 10 MiB to below 100 kB
ORIGINAL = cast("int", "@original")  # Discord takes this name for an id; discord.py's annotation does not
REMEMBERED_TOKENS = 10_000


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that shows its content: how it got there, and its id."""

    outcome: str
    message_id: int


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class Sender:
    """Sends the content of jobs' messages through `client`, with the files of `artifacts`."""

    def __init__(self, client: discord.Client, artifacts: Artifacts, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._artifacts = artifacts
        self._clock = clock
        self._dead_tokens: dict[str, None] = {}

    def can_edit(self, job: Job) -> bool:
        """Whether the job's message can be edited now, as far as is known without asking Discord."""
        if self._token_alive(job):
            return True
        return job.message_id is not None and not job.origin.private

    async def edit(self, job: Job, content: MessageContent) -> int:
        """Show `content`, without its picture, in the job's own message; the message's id.

        Raises `DeliveryRefused` where that can never work, `DeliveryDelayed` where it may later.
        """
        try:
            return await self._edit(job, content, None)
        except _Refused as error:
            raise DeliveryRefused(error.refusal) from None

    async def deliver(self, delivery: Delivery, content: MessageContent) -> Sent:
        """Show the job's final `content` with its picture, wherever the person can see it.

        Raises `DeliveryRefused` with the outcome to store, or `DeliveryDelayed`.
        """
        content, png = await self._load(delivery.job, content)
        limit = self._upload_limit(delivery.job)
        for _ in range(FITTING_ATTEMPTS):
            file = await asyncio.to_thread(fit, png, limit) if png else None
            try:
                return await self._deliver(delivery, content, file)
            except _Refused as error:
                if error.refusal is not Refusal.TOO_LARGE or file is None:
                    raise DeliveryRefused(error.refusal) from None
                limit = min(limit, len(file.data)) // 2
        raise DeliveryRefused(Refusal.TOO_LARGE)

    async def _load(self, job: Job, content: MessageContent) -> tuple[MessageContent, bytes | None]:
        """The picture to upload, if any; without it, content that says so."""
        if content.picture is None:
            return content, None
        try:
            files = [await self._artifacts.get(name) for name in content.picture.artifacts]
        except MissingArtifact:
            return without_picture(content, Texts.for_locale(job.origin.locale)), None
        except StoreUnavailable as error:
            raise DeliveryDelayed(str(error)) from error
        return content, await asyncio.to_thread(combine, files)

    async def _deliver(self, delivery: Delivery, content: MessageContent, file: PictureFile | None) -> Sent:
        job = delivery.job
        try:
            if self.can_edit(job):
                return Sent(outcome="edited", message_id=await self._edit(job, content, file))
            if job.origin.private:
                raise _Refused(Refusal.PRIVATE_EXPIRED)
        except _Refused as error:
            if error.refusal in (Refusal.TOO_LARGE, Refusal.MESSAGE_DELETED, Refusal.REJECTED):
                raise
            if job.origin.private or error.refusal is Refusal.CHANNEL_DELETED:
                return await self._send_directly(delivery, content, file, error.refusal)
        try:
            channel = self._channel(job)
            return Sent(outcome="sent", message_id=await self._send(channel, delivery, content, file))
        except _Refused as error:
            if error.refusal in (Refusal.TOO_LARGE, Refusal.REJECTED):
                raise
            return await self._send_directly(delivery, content, file, error.refusal)

    async def _edit(self, job: Job, content: MessageContent, file: PictureFile | None) -> int:
        if self._token_alive(job):
            try:
                return await self._edit_by_token(job, content, file)
            except _Refused as error:
                if error.refusal is not Refusal.DEAD_TOKEN:
                    raise
                self._bury(job.origin.interaction_token)
        if job.origin.private:
            raise _Refused(Refusal.PRIVATE_EXPIRED)
        if job.message_id is None:
            raise _Refused(Refusal.NO_MESSAGE)
        message = self._channel(job).get_partial_message(job.message_id)
        with _Understood(by_token=False):
            return (await message.edit(**_parts(content, file))).id

    async def _edit_by_token(self, job: Job, content: MessageContent, file: PictureFile | None) -> int:
        origin = job.origin
        webhook = discord.Webhook.partial(
            origin.application_id, origin.interaction_token, client=self._client
        )
        with _Understood(by_token=True):
            return (await webhook.edit_message(job.message_id or ORIGINAL, **_parts(content, file))).id

    async def _send(
        self,
        channel: discord.abc.Messageable,
        delivery: Delivery,
        content: MessageContent,
        file: PictureFile | None,
    ) -> int:
        """Post a new message. Its nonce makes Discord answer a repeated post with the first message."""
        parts = _parts(content, file)
        files = parts.pop("attachments")
        with _Understood(by_token=False):
            return (await channel.send(**parts, files=files, nonce=f"sdjax-{delivery.id}"[:25])).id

    async def _send_directly(
        self, delivery: Delivery, content: MessageContent, file: PictureFile | None, refusal: Refusal
    ) -> Sent:
        """The result as a direct message, when its own place is closed; nothing for a cancelled job."""
        job = delivery.job
        if job.state is State.CANCELLED:
            raise _Refused(refusal)
        texts = Texts.for_locale(job.origin.locale)
        notice = texts.gettext("Your answer could no longer be shown where you asked, so it comes here.")
        try:
            with _Understood(by_token=False):
                channel = await self._client.create_dm(discord.Object(job.origin.user_id))
            message_id = await self._send(channel, delivery, with_notice(content, notice), file)
        except _Refused as error:
            raise error if error.refusal is Refusal.TOO_LARGE else _Refused(refusal) from None
        return Sent(outcome="sent_directly", message_id=message_id)

    def _channel(self, job: Job) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(job.origin.channel_id, guild_id=job.origin.guild_id)

    def _upload_limit(self, job: Job) -> int:
        """What the server takes as far as is known; its real limit shows in the refusal of a larger file."""
        guild = self._client.get_guild(job.origin.guild_id) if job.origin.guild_id else None
        return guild.filesize_limit if guild else discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES

    def _token_alive(self, job: Job) -> bool:
        origin = job.origin
        young = self._clock() < origin.token_expires_at - TOKEN_MARGIN
        return young and origin.interaction_token not in self._dead_tokens

    def _bury(self, token: str) -> None:
        self._dead_tokens[token] = None
        while len(self._dead_tokens) > REMEMBERED_TOKENS:
            del self._dead_tokens[next(iter(self._dead_tokens))]


class _Understood:
    """Turns discord.py's errors into `_Refused` or `DeliveryDelayed`."""

    def __init__(self, *, by_token: bool) -> None:
        self._by_token = by_token

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, discord.HTTPException):
            refusal = understand(error, by_token=self._by_token)
            if refusal is Refusal.LATER:
                raise DeliveryDelayed(str(error)) from error
            raise _Refused(refusal) from error
        if isinstance(error, TRANSIENT):
            raise DeliveryDelayed(f"Discord cannot be reached: {error}") from error


def _parts(content: MessageContent, file: PictureFile | None) -> dict[str, Any]:
    """The arguments that a message's edit takes; the file is read from its start each time."""
    if content.picture is None or file is None:
        view, attachments = layout(content), []
    else:
        name = content.picture.stem + file.suffix
        view = layout(content, file_name=name)
        attachments = [discord.File(io.BytesIO(file.data), filename=name)]
    return {
        "view": view,
        "attachments": attachments,
        "allowed_mentions": discord.AllowedMentions.none(),
    }
