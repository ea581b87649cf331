"""Shows a job's message by the first way that is open and not refused.

    way               open                                          outcome
    replace privately a refusal, in public, while the token lives   refused
    edit by token     while the interaction's token lives           edited
    edit by the bot   a public message whose id is known            edited
    post              a public job, whose channel is not closed     sent
    direct message    a job that was not cancelled                  sent_directly

A private message cannot be edited by the bot, so after the token's end its result is a direct message. A
token that was refused once is never used again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import discord

from bot.delivery.content import MessageContent
from bot.delivery.discord_requests import RateGuard, layout, parts_of
from bot.delivery.earlier import posted_earlier
from bot.delivery.pictures import PictureFile
from bot.delivery.refusals import CLOSED, FINAL, DeliveryDelayed, Refusal, Refused
from bot.delivery.render import not_taken, with_notice
from bot.delivery.uploads import UploadLimits, Uploads, size_of
from bot.domain.errors import DeliveryRefused
from bot.domain.jobs import Delivery, Job, State
from bot.files.artifacts import Artifacts
from bot.provenance.signing import Signing
from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

TOKEN_MARGIN = 60.0  # seconds before its end after which a token is no longer used
FITTING_ATTEMPTS = 10  # Discord's limits, then half each time: to below 100 kB
ORIGINAL = cast("int", "@original")  # Discord takes this name for an id; discord.py's annotation does not
REMEMBERED_TOKENS = 10_000

Channel = discord.PartialMessageable | discord.DMChannel
Entered = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A sent message: the outcome, its id, and its channel if it is not the job's."""

    outcome: str
    message_id: int
    channel_id: int | None = None


@dataclass(kw_only=True)
class Attempt:
    """The content to show, and the results of the ways tried so far.

    `refusal` is the refusal of the last way; `message_deleted`: a way deleted the job's message.
    `delivery` is None for an edit that is no delivery. `place` is where the last way sent the files.
    """

    job: Job
    content: MessageContent
    files: Sequence[PictureFile] = ()
    delivery: Delivery | None = None
    refusal: Refusal | None = None
    message_deleted: bool = False
    place: int = 0

    @property
    def may_edit(self) -> bool:
        """Whether every refusal so far was for an expired token."""
        return self.refusal in (None, Refusal.DEAD_TOKEN)

    @property
    def reason(self) -> Refusal:
        """Why the message cannot be shown."""
        if self.refusal is not None and self.refusal is not Refusal.DEAD_TOKEN:
            return self.refusal
        return Refusal.PRIVATE_EXPIRED if self.job.origin.private else Refusal.NO_MESSAGE


class Sender:
    """Sends the content of jobs' messages through `client`, with the files of `artifacts`, signed.

    `rate_guard` and the upload `limits` are those of the client.
    """

    def __init__(
        self,
        client: discord.Client,
        artifacts: Artifacts,
        *,
        clock: Callable[[], float],
        rate_guard: RateGuard | None = None,
        limits: UploadLimits | None = None,
        signing: Signing | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._uploads = Uploads(artifacts, signing)
        self.limits = limits or UploadLimits(clock=clock)
        self._dead_tokens: dict[str, None] = {}
        self.rate_guard = rate_guard or RateGuard(clock=clock)

    def can_edit(self, job: Job) -> bool:
        """Return whether the job's message can probably be edited now; makes no request."""
        return self.token_lives(job) or (job.message_id is not None and reachable(job))

    def token_lives(self, job: Job) -> bool:
        """Return whether the interaction's token can probably be used; makes no request."""
        origin = job.origin
        young = self._clock() < origin.token_expires_at - TOKEN_MARGIN
        return young and bool(origin.interaction_token) and origin.interaction_token not in self._dead_tokens

    async def edit(self, job: Job, content: MessageContent, files: Sequence[PictureFile] = ()) -> int:
        """Show `content` with these files in the job's own message, and return the message's id.

        Raises `DeliveryRefused` if no edit can ever work, `DeliveryDelayed` if a later edit may work.
        """
        try:
            return (await self._show(EDITS, Attempt(job=job, content=content, files=files))).message_id
        except Refused as error:
            raise DeliveryRefused(error.refusal) from None

    async def deliver(
        self, delivery: Delivery, content: MessageContent, *, entered: Entered = lambda _stage: None
    ) -> Sent:
        """Show the job's final `content` with its picture, wherever the person can see it.

        `entered` is told each stage: `files` while they are read and made, then `send`.
        Raises `DeliveryRefused` with the outcome to store, `DeliveryDelayed`, or `FilesGone`.
        """
        pictures = await self._uploads.load(content)
        try:
            return await self._deliver_fitting(delivery, content, pictures, entered)
        except Refused as error:
            if error.refusal in (Refusal.TOO_LARGE, Refusal.REJECTED):
                await self._say_so(delivery, content)
            raise DeliveryRefused(error.refusal) from None

    async def withdraw(self, job: Job, sent: Sent) -> None:
        """Delete a message that was sent while the person deleted the job."""
        try:
            if self.token_lives(job) and sent.channel_id is None:
                with self.rate_guard.request(by_token=True):
                    await self._webhook(job).delete_message(sent.message_id)
                return
        except (Refused, DeliveryDelayed) as error:
            log.info("the message of a deleted job is removed by the bot itself: %s", error)
        place = sent.channel_id or job.origin.channel_id
        try:
            with self.rate_guard.request(by_token=False):
                channel = self._client.get_partial_messageable(place)
                await channel.get_partial_message(sent.message_id).delete()
        except (Refused, DeliveryDelayed) as error:
            log.warning("the message of a deleted job may still be there: %s", error)

    async def withdraw_earlier(self, delivery: Delivery) -> None:
        """Delete what an earlier attempt may have posted for a job that is deleted, and did not settle."""
        job = delivery.job
        if job.message_id is not None or not delivery.tried_before:
            return
        delete, since = f"delete:{job.id}", job.finished_at or job.created_at
        channels: list[Channel] = [self._channel(job)] if reachable(job) else []
        with suppress(Refused), self.rate_guard.request(by_token=False):
            channels.append(await self._client.create_dm(discord.Object(job.origin.user_id)))
        for channel in channels:
            found = await posted_earlier(
                self._client, self.rate_guard, channel, lambda marks: delete in marks, since=since
            )
            if found is not None:
                await self.withdraw(job, Sent(outcome="deleted", message_id=found, channel_id=channel.id))

    async def _show(self, ways: Sequence[Way], attempt: Attempt) -> Sent:
        """Show the content by the first way that is open and not refused; raises Refused after the last."""
        for way in ways:
            if not way.is_open(self, attempt):
                continue
            attempt.place = attempt.job.message_channel_id or attempt.job.origin.channel_id
            try:
                return await way.send(self, attempt)
            except Refused as error:
                if error.refusal in FINAL:
                    raise
                if error.refusal is Refusal.DEAD_TOKEN:
                    self._bury(attempt.job.origin.interaction_token)
                attempt.refusal = error.refusal
        raise Refused(attempt.reason)

    async def _deliver_fitting(
        self,
        delivery: Delivery,
        content: MessageContent,
        pictures: Sequence[Sequence[bytes]],
        entered: Entered,
    ) -> Sent:
        """Send the content, with smaller files until Discord accepts them."""
        origin = delivery.job.origin
        guild = self._client.get_guild(origin.guild_id) if origin.guild_id else None
        limit = self.limits.of(origin.channel_id, guild)
        for _ in range(FITTING_ATTEMPTS):
            entered("files")
            files = await self._uploads.fit(content, pictures, limit)
            attempt = Attempt(job=delivery.job, content=content, files=files, delivery=delivery)
            entered("send")
            try:
                return await self._show(WAYS, attempt)
            except Refused as error:
                if error.refusal is not Refusal.TOO_LARGE or not files:
                    raise
                limit = min(limit, error.limit or self.limits.refused(attempt.place, size_of(files)))
        raise Refused(Refusal.TOO_LARGE)

    async def _say_so(self, delivery: Delivery, content: MessageContent) -> None:
        """Show in the message that Discord refused its content, if an edit is possible."""
        texts = Texts.for_locale(delivery.job.origin.locale)
        try:
            await self._show(EDITS, Attempt(job=delivery.job, content=not_taken(content, texts)))
        except (Refused, DeliveryDelayed) as error:
            log.warning("the refusal cannot be shown in the message either: %s", error)

    async def _replace_privately(self, attempt: Attempt) -> Sent:
        """Replace the job's public message by a refusal that only its person sees."""
        webhook, view = self._webhook(attempt.job), layout(attempt.content, file_names=[])
        try:
            with self.rate_guard.request(by_token=True):
                await webhook.delete_message(attempt.job.message_id or ORIGINAL)
        except Refused as error:
            # An earlier attempt may have deleted the message, and its answer was lost.
            if error.refusal is not Refusal.MESSAGE_DELETED:
                raise
        attempt.message_deleted = True
        silent = discord.AllowedMentions.none()
        with self.rate_guard.request(by_token=True):
            message = await webhook.send(view=view, allowed_mentions=silent, ephemeral=True, wait=True)
        return Sent(outcome="refused", message_id=message.id)

    async def _edit_by_token(self, attempt: Attempt) -> Sent:
        webhook, parts = self._webhook(attempt.job), parts_of(attempt.content, attempt.files)
        with self.rate_guard.request(by_token=True):
            message = await webhook.edit_message(attempt.job.message_id or ORIGINAL, **parts)
        return Sent(outcome="edited", message_id=message.id)

    async def _edit_by_bot(self, attempt: Attempt) -> Sent:
        assert attempt.job.message_id is not None, "the way is open only where the message is known"
        job = attempt.job
        place = job.message_channel_id or job.origin.channel_id
        channel = self._client.get_partial_messageable(place)
        message = channel.get_partial_message(attempt.job.message_id)
        with self.rate_guard.request(by_token=False):
            edited = await message.edit(**parts_of(attempt.content, attempt.files))
        return Sent(outcome="edited", message_id=edited.id)

    async def _post(self, attempt: Attempt) -> Sent:
        channel = self._channel(attempt.job)
        return Sent(outcome="sent", message_id=await self._send(channel, attempt, attempt.content))

    async def _send_directly(self, attempt: Attempt) -> Sent:
        """Send the result as a direct message; if it is refused, raise the refusal of the last other way."""
        attempt.place = attempt.job.origin.user_id
        limit = self.limits.of(attempt.place)
        if size_of(attempt.files) > limit:  # a server may take larger files than a direct message
            raise Refused(Refusal.TOO_LARGE, limit=limit)
        texts = Texts.for_locale(attempt.job.origin.locale)
        notice = texts.gettext("Your answer could no longer be shown where you asked, so it comes here.")
        try:
            with self.rate_guard.request(by_token=False):
                channel = await self._client.create_dm(discord.Object(attempt.job.origin.user_id))
            message_id = await self._send(channel, attempt, with_notice(attempt.content, notice))
        except Refused as error:
            raise error if error.refusal is Refusal.TOO_LARGE else Refused(attempt.reason) from None
        return Sent(outcome="sent_directly", message_id=message_id, channel_id=channel.id)

    async def _send(self, channel: Channel, attempt: Attempt, content: MessageContent) -> int:
        """Post a new message, unless an earlier attempt has posted it, and return the message's id.

        The nonce makes Discord answer a repeated post with the first message, for a few minutes.
        """
        delivery = attempt.delivery
        if delivery is not None and delivery.tried_before:
            earlier = await self._posted_earlier(channel, delivery, content)
            if earlier:  # it may show an earlier state of the result
                with self.rate_guard.request(by_token=False):
                    message = channel.get_partial_message(earlier)
                    return (await message.edit(**parts_of(content, attempt.files))).id
        parts = parts_of(content, attempt.files)
        attachments = parts.pop("attachments")
        nonce = f"sdjax-{attempt.job.id}"[:25]
        with self.rate_guard.request(by_token=False):
            return (await channel.send(**parts, files=attachments, nonce=nonce)).id

    async def _posted_earlier(
        self, channel: discord.abc.Messageable, delivery: Delivery, content: MessageContent
    ) -> int | None:
        """Return the id of the message that an earlier attempt posted, found by its Delete button, or None.

        The other buttons may differ: a decision of moderators may have changed the content since.
        """
        delete, since = f"delete:{delivery.job.id}", delivery.job.finished_at or delivery.job.created_at
        if not any(button.custom_id == delete for row in content.rows for button in row):
            return None
        return await posted_earlier(
            self._client, self.rate_guard, channel, lambda marks: delete in marks, since=since
        )

    def _webhook(self, job: Job) -> discord.Webhook:
        origin = job.origin
        webhook = discord.Webhook.partial(
            origin.application_id, origin.interaction_token, client=self._client
        )
        webhook.type = discord.WebhookType.application
        return webhook

    def _channel(self, job: Job) -> discord.PartialMessageable:
        return self._client.get_partial_messageable(job.origin.channel_id, guild_id=job.origin.guild_id)

    def _bury(self, token: str) -> None:
        self._dead_tokens[token] = None
        while len(self._dead_tokens) > REMEMBERED_TOKENS:
            del self._dead_tokens[next(iter(self._dead_tokens))]


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to show a message; `send` raises Refused and DeliveryDelayed."""

    is_open: Callable[[Sender, Attempt], bool]
    send: Callable[[Sender, Attempt], Awaitable[Sent]]


def reachable(job: Job) -> bool:
    """Return whether the bot's own token may reach the job's message and its channel."""
    return not (job.origin.private or job.origin.external)


def _replaces(sender: Sender, attempt: Attempt) -> bool:
    job = attempt.job
    return bool(attempt.content.refusal) and not job.origin.private and sender.token_lives(job)


def _has_token(sender: Sender, attempt: Attempt) -> bool:
    return attempt.may_edit and sender.token_lives(attempt.job) and attempt.job.message_channel_id is None


def _has_message(_sender: Sender, attempt: Attempt) -> bool:
    job = attempt.job
    known = job.message_id is not None and not attempt.message_deleted
    direct = job.message_channel_id is not None  # a message of the bot itself, which needs no token
    return attempt.may_edit and known and (direct or reachable(job))


def _has_channel(_sender: Sender, attempt: Attempt) -> bool:
    return reachable(attempt.job) and attempt.refusal not in CLOSED


def _is_wanted(_sender: Sender, attempt: Attempt) -> bool:
    return attempt.job.state is not State.CANCELLED


EDITS = (
    Way(is_open=_has_token, send=Sender._edit_by_token),
    Way(is_open=_has_message, send=Sender._edit_by_bot),
)
"""The ways to edit the job's own message."""

WAYS = (
    Way(is_open=_replaces, send=Sender._replace_privately),
    *EDITS,
    Way(is_open=_has_channel, send=Sender._post),
    Way(is_open=_is_wanted, send=Sender._send_directly),
)
"""The ways to deliver a result, in the order in which they are tried."""
