"""Discord's side of delivery: edits of a job's own message, and what stands in for them.

While the interaction's token is safely alive, the message is edited with it; after that, by the bot.
A private message cannot be edited by the bot, so its result goes to the person's direct messages, as
does one whose channel is closed to the bot. A token that was refused once is never used again.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import discord

from bot.artifacts import Artifacts
from bot.delivery.earlier import posted_earlier
from bot.delivery.layout import layout
from bot.delivery.pictures import PictureFile, fit
from bot.delivery.rate_guard import RateGuard
from bot.delivery.refusals import (
    CLOSED,
    FINAL,
    TRANSIENT,
    DeliveryDelayed,
    FilesGone,
    Refusal,
    understand,
)
from bot.delivery.render import MessageContent, not_taken, with_notice
from bot.errors import DeliveryRefused, MissingArtifact, StoreUnavailable
from bot.jobs import Delivery, Job, State
from bot.texts import Texts
from bot.threads import Threads

log = logging.getLogger(__name__)

TOKEN_MARGIN = 60.0  # seconds before its end from which a token is not trusted any more
FITTING_ATTEMPTS = 8  # halving each time: from 10 MiB to below 100 kB
ORIGINAL = cast("int", "@original")  # Discord takes this name for an id; discord.py's annotation does not
REMEMBERED_TOKENS = 10_000
FITTED_AT_ONCE = 2  # grids are made and compressed in memory
MIB = 1024 * 1024
ENVELOPE = 64 * 1024  # what a request has beside its file: the layout, and the frame around both
MAX_REQUEST = 25 * MIB - ENVELOPE
DIRECT_LIMIT = discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES
KNOWN_LIMITS = (50 * MIB, MAX_REQUEST, DIRECT_LIMIT)  # of servers by their boosts, of requests, of all others


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that shows its content: how it got there, its id, and its channel where that is another."""

    outcome: str
    message_id: int
    channel_id: int | None = None


class _Refused(Exception):
    """Discord's no; of a file that is too large, perhaps what `limit` the place has, in bytes."""

    def __init__(self, refusal: Refusal, *, limit: int = 0) -> None:
        super().__init__(refusal)
        self.refusal = refusal
        self.limit = limit


def next_limit(size: int) -> int:
    """What to try after a file of `size` bytes was too large: the next lower limit Discord has, or half."""
    return max((limit for limit in KNOWN_LIMITS if limit < size), default=size // 2)


class Sender:
    """Sends the content of jobs' messages through `client`, with the files of `artifacts`."""

    def __init__(self, client: discord.Client, artifacts: Artifacts, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._artifacts = artifacts
        self._clock = clock
        self._dead_tokens: dict[str, None] = {}
        self._rate_guard = RateGuard(clock=clock)
        self._threads = Threads("pictures", most=FITTED_AT_ONCE)

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
            return await self._edit(job, content)
        except _Refused as error:
            raise DeliveryRefused(error.refusal) from None

    async def deliver(self, delivery: Delivery, content: MessageContent) -> Sent:
        """Show the job's final `content` with its picture, wherever the person can see it.

        Raises `DeliveryRefused` with the outcome to store, `DeliveryDelayed`, or `FilesGone`.
        """
        files = await self._load(content)
        try:
            return await self._deliver_fitting(delivery, content, files)
        except _Refused as error:
            if error.refusal in (Refusal.TOO_LARGE, Refusal.REJECTED):
                await self._say_so(delivery, content)
            raise DeliveryRefused(error.refusal) from None

    async def withdraw(self, job: Job, sent: Sent) -> None:
        """Remove a message that was sent while its person deleted the job."""
        try:
            if self._token_alive(job) and sent.channel_id is None:
                with _Understood(self._rate_guard, by_token=True):
                    await self._webhook(job).delete_message(sent.message_id)
                return
        except (_Refused, DeliveryDelayed) as error:
            log.info("the message of a deleted job is removed by the bot itself: %s", error)
        place = sent.channel_id or job.origin.channel_id
        try:
            with _Understood(self._rate_guard, by_token=False):
                channel = self._client.get_partial_messageable(place)
                await channel.get_partial_message(sent.message_id).delete()
        except (_Refused, DeliveryDelayed) as error:
            log.warning("the message of a deleted job may still be there: %s", error)

    async def _load(self, content: MessageContent) -> list[list[bytes]]:
        """The files of each picture to show; raises FilesGone."""
        files: dict[str, bytes] = {}
        gone = []
        for name in [name for picture in content.pictures for name in picture.artifacts]:
            try:
                files[name] = await self._artifacts.get(name)
            except MissingArtifact:
                gone.append(name)
            except StoreUnavailable as error:
                raise DeliveryDelayed(str(error)) from error
        if gone:
            raise FilesGone(gone)
        return [[files[name] for name in picture.artifacts] for picture in content.pictures]

    async def _deliver_fitting(
        self, delivery: Delivery, content: MessageContent, pictures: Sequence[Sequence[bytes]]
    ) -> Sent:
        """Make the files smaller until they are taken."""
        limit = self._upload_limit(delivery.job)
        whole = sum(len(file) for picture in pictures for file in picture)
        for _ in range(FITTING_ATTEMPTS):
            files = [
                await self._fitted(picture, limit * sum(map(len, picture)) // whole) for picture in pictures
            ]
            try:
                return await self._deliver(delivery, content, files)
            except _Refused as error:
                if error.refusal is not Refusal.TOO_LARGE or not files:
                    raise
                limit = min(limit, error.limit or next_limit(_length(files)))
        raise _Refused(Refusal.TOO_LARGE)

    async def _fitted(self, files: Sequence[bytes], limit: int) -> PictureFile:
        if len(files) == 1 and len(files[0]) <= limit:
            return PictureFile(data=files[0], suffix=".png")
        return await self._threads.run(fit, files, limit)

    async def _say_so(self, delivery: Delivery, content: MessageContent) -> None:
        """Tell in the message itself that Discord refused what it was to show, if even that can be told."""
        texts = Texts.for_locale(delivery.job.origin.locale)
        try:
            await self._edit(delivery.job, not_taken(content, texts))
        except (_Refused, DeliveryDelayed) as error:
            log.warning("nor can that be told in the message: %s", error)

    async def _deliver(
        self, delivery: Delivery, content: MessageContent, files: Sequence[PictureFile]
    ) -> Sent:
        job = delivery.job
        try:
            if content.refusal and (message_id := await self._refuse(job, content)):
                return Sent(outcome="refused", message_id=message_id)
            if self.can_edit(job):
                return Sent(outcome="edited", message_id=await self._edit(job, content, files))
            if job.origin.private:
                raise _Refused(Refusal.PRIVATE_EXPIRED)
        except _Refused as error:
            if error.refusal in FINAL:
                raise
            if job.origin.private or error.refusal in CLOSED:
                return await self._send_directly(delivery, content, files, error.refusal)
        try:
            channel = self._channel(job)
            return Sent(outcome="sent", message_id=await self._send(channel, delivery, content, files))
        except _Refused as error:
            if error.refusal in FINAL:
                raise
            return await self._send_directly(delivery, content, files, error.refusal)

    async def _edit(self, job: Job, content: MessageContent, files: Sequence[PictureFile] = ()) -> int:
        if self._token_alive(job):
            try:
                return await self._edit_by_token(job, content, files)
            except _Refused as error:
                if error.refusal is not Refusal.DEAD_TOKEN:
                    raise
                self._bury(job.origin.interaction_token)
        if job.origin.private:
            raise _Refused(Refusal.PRIVATE_EXPIRED)
        if job.message_id is None:
            raise _Refused(Refusal.NO_MESSAGE)
        message = self._channel(job).get_partial_message(job.message_id)
        with _Understood(self._rate_guard, by_token=False):
            return (await message.edit(**_parts(content, files))).id

    async def _edit_by_token(self, job: Job, content: MessageContent, files: Sequence[PictureFile]) -> int:
        with _Understood(self._rate_guard, by_token=True):
            webhook = self._webhook(job)
            return (await webhook.edit_message(job.message_id or ORIGINAL, **_parts(content, files))).id

    async def _refuse(self, job: Job, content: MessageContent) -> int | None:
        """Replace the job's message, which everybody sees, by one to its person alone; the id of that.

        None where only the interaction's token could do that, and it has ended.
        """
        if job.origin.private or not self._token_alive(job):
            return None
        webhook, view = self._webhook(job), layout(content, file_names=[])
        try:
            with _Understood(self._rate_guard, by_token=True):
                await webhook.delete_message(job.message_id or ORIGINAL)
        except _Refused as error:
            if error.refusal is Refusal.DEAD_TOKEN:
                self._bury(job.origin.interaction_token)
                return None
            # An earlier attempt may have deleted the message, and its answer was lost.
            if error.refusal is not Refusal.MESSAGE_DELETED:
                raise
        silent = discord.AllowedMentions.none()
        with _Understood(self._rate_guard, by_token=True):
            return (await webhook.send(view=view, allowed_mentions=silent, ephemeral=True, wait=True)).id

    def _webhook(self, job: Job) -> discord.Webhook:
        origin = job.origin
        webhook = discord.Webhook.partial(
            origin.application_id, origin.interaction_token, client=self._client
        )
        webhook.type = discord.WebhookType.application
        return webhook

    async def _send(
        self,
        channel: discord.abc.Messageable,
        delivery: Delivery,
        content: MessageContent,
        files: Sequence[PictureFile],
    ) -> int:
        """Post a new message, unless an earlier attempt has posted it; the message's id.

        The nonce makes Discord answer a repeated post with the first message, for a few minutes.
        """
        if delivery.tried_before and (earlier := await self._posted_earlier(channel, delivery, content)):
            return earlier
        parts = _parts(content, files)
        attachments = parts.pop("attachments")
        with _Understood(self._rate_guard, by_token=False):
            return (await channel.send(**parts, files=attachments, nonce=f"sdjax-{delivery.job.id}"[:25])).id

    async def _posted_earlier(
        self, channel: discord.abc.Messageable, delivery: Delivery, content: MessageContent
    ) -> int | None:
        if self._client.user is None:
            return None
        try:
            with _Understood(self._rate_guard, by_token=False):
                return await posted_earlier(channel, delivery, content, author_id=self._client.user.id)
        except _Refused as error:  # the post itself may still be allowed: a result is never lost over this
            log.warning("nobody can tell whether the result was posted before: %s", error)
            return None

    async def _send_directly(
        self, delivery: Delivery, content: MessageContent, files: Sequence[PictureFile], refusal: Refusal
    ) -> Sent:
        """The result as a direct message, when its own place is closed; nothing for a cancelled job."""
        job = delivery.job
        if job.state is State.CANCELLED:
            raise _Refused(refusal)
        if _length(files) > DIRECT_LIMIT:  # a server may take more than a person
            raise _Refused(Refusal.TOO_LARGE, limit=DIRECT_LIMIT)
        texts = Texts.for_locale(job.origin.locale)
        notice = texts.gettext("Your answer could no longer be shown where you asked, so it comes here.")
        try:
            with _Understood(self._rate_guard, by_token=False):
                channel = await self._client.create_dm(discord.Object(job.origin.user_id))
            message_id = await self._send(channel, delivery, with_notice(content, notice), files)
        except _Refused as error:
            raise error if error.refusal is Refusal.TOO_LARGE else _Refused(refusal) from None
        return Sent(outcome="sent_directly", message_id=message_id, channel_id=channel.id)

    def _channel(self, job: Job) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(job.origin.channel_id, guild_id=job.origin.guild_id)

    def _upload_limit(self, job: Job) -> int:
        """What the server takes as far as is known; its real limit shows in the refusal of a larger file.

        The server's boosts say it. What an interaction says beside them counts the person's own subscription
        in, which a bot's uploads have nothing of.
        """
        guild = self._client.get_guild(job.origin.guild_id) if job.origin.guild_id else None
        return min(guild.filesize_limit, MAX_REQUEST) if guild else DIRECT_LIMIT

    def _token_alive(self, job: Job) -> bool:
        origin = job.origin
        young = self._clock() < origin.token_expires_at - TOKEN_MARGIN
        return young and bool(origin.interaction_token) and origin.interaction_token not in self._dead_tokens

    def _bury(self, token: str) -> None:
        self._dead_tokens[token] = None
        while len(self._dead_tokens) > REMEMBERED_TOKENS:
            del self._dead_tokens[next(iter(self._dead_tokens))]


class _Understood:
    """Translates discord.py's errors to `_Refused` or `DeliveryDelayed`, after asking the rate guard."""

    def __init__(self, rate_guard: RateGuard, *, by_token: bool) -> None:
        self._rate_guard = rate_guard
        self._by_token = by_token

    def __enter__(self) -> None:
        self._rate_guard.check(by_token=self._by_token)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._rate_guard.note(error)
        if isinstance(error, discord.HTTPException):
            refusal = understand(error, by_token=self._by_token)
            if refusal is Refusal.LATER:
                raise DeliveryDelayed(str(error)) from error
            raise _Refused(refusal) from error
        if isinstance(error, discord.RateLimited):
            raise DeliveryDelayed(str(error), seconds=error.retry_after) from error
        if isinstance(error, TRANSIENT):
            raise DeliveryDelayed(f"Discord cannot be reached: {error}") from error


def _length(files: Sequence[PictureFile]) -> int:
    return sum(len(file.data) for file in files)


def _parts(content: MessageContent, files: Sequence[PictureFile]) -> dict[str, Any]:
    """The arguments that a message's edit takes; the files are read from their start each time."""
    named = {picture.stem + file.suffix: file for picture, file in zip(content.pictures, files, strict=False)}
    return {
        "view": layout(content, file_names=list(named)),
        "attachments": [discord.File(io.BytesIO(file.data), filename=name) for name, file in named.items()],
        "allowed_mentions": discord.AllowedMentions.none(),
    }
