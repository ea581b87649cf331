"""Sends the moderators' messages about reviews, and edits them once something was decided.

Each due message is a row, leased to one front at a time, so that a killed front loses none: an edit can be
repeated, and an earlier post is searched for before the message is posted again. If there is no channel, or
the bot may not post there, the pictures stay held, `/review show` lists them, and the post is retried.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime
from typing import Any

import discord

from bot.delivery.content import MessageContent, Tone
from bot.delivery.discord_requests import layout, parts_of
from bot.delivery.earlier import CLOCKS_APART, LOOKED_AT, custom_ids
from bot.delivery.outbox import backoff
from bot.delivery.refusals import DeliveryDelayed, FilesGone, Refusal, Refused
from bot.delivery.review_message import appeal_answer, review_content
from bot.delivery.sender import Sender
from bot.delivery.uploads import Uploads, size_of
from bot.domain.errors import StoreUnavailable
from bot.store.moderation.review_messages import DueReview
from bot.store.store import Store
from bot.texts.catalogue import Texts

log = logging.getLogger(__name__)

AT_ONCE = 4
POLL_SECONDS = 1.0
CLOSED_SECONDS = 600.0  # until a channel that is closed to the bot is tried again
FITTING_ATTEMPTS = 10
REPAINTED, LOST_SECONDS = 6, 20.0  # how often and how long a message waits for lost files
NO_CHANNEL = "no_channel"

MessageIds = tuple[int | None, int | None]  # message, channel


class ReviewOutbox:
    """Sends the due messages about reviews, of any server, through `client`."""

    def __init__(self, store: Store, client: discord.Client, sender: Sender, uploads: Uploads) -> None:
        self._store = store
        self._client = client
        self._guard = sender.rate_guard
        self._limits = sender.limits
        self._uploads = uploads

    async def run(self) -> None:
        """Send until cancelled; a cancelled message is sent again after its lease."""
        while True:
            try:
                due = await self._store.review_messages.claim(limit=AT_ONCE)
                await asyncio.gather(*(self._attempt(each) for each in due))
            except StoreUnavailable as error:
                log.error("the moderators' messages cannot be read: %s", error)
                due = []
            if not due:
                await self._store.wake_ups.reviews.wait(POLL_SECONDS)

    async def _attempt(self, due: DueReview) -> None:
        """Bring one message up to date; an error affects this message only."""
        rows = self._store.review_messages
        try:
            message_id, channel_id = await self._show(due)
            told = await self._told(due) if due.answers else True
        except Refused as error:
            log.warning(
                "moderators of server %d cannot be told of review %d: %s",
                *(due.review.guild_id, due.review.id, error.refusal),
            )
            lost = due.review.message_id is not None
            seconds = 0.0 if lost else CLOSED_SECONDS
            await rows.retry(due, seconds=seconds, trouble=str(error.refusal), lost=lost)
        except DeliveryDelayed as error:
            log.warning("the message of review %d is sent later: %s", due.review.id, error)
            await rows.retry(due, seconds=max(error.seconds, _wait(due)))
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("the message of review %d could not be sent; it is tried again", due.review.id)
            await rows.retry(due, seconds=_wait(due))
        else:
            if due.place is None and message_id is None and due.review.outcome is None:
                log.warning("server %d has no channel for reviews", due.review.guild_id)
                await rows.retry(due, seconds=CLOSED_SECONDS, trouble=NO_CHANNEL)
                return
            await rows.settle(due, message_id=message_id, channel_id=channel_id, told=told)

    async def _show(self, due: DueReview) -> MessageIds:
        """Edit the message, or post it if there is none; return its ids, None if it was not posted."""
        review = due.review
        if review.message_id is not None and review.channel_id is not None:
            try:
                return await self._put(due, review.channel_id, review.message_id)
            except Refused:
                if review.outcome is None:
                    raise
                return None, None  # it is gone, and there is nothing to decide
        if due.place is None:
            return None, None
        channel = self._client.get_partial_messageable(due.place, guild_id=review.guild_id)
        earlier = await self._posted_earlier(channel, due) if due.tried_before else None
        if earlier is None and review.outcome is not None:
            return None, None
        return await self._put(due, due.place, earlier)

    async def _put(self, due: DueReview, place: int, message_id: int | None) -> MessageIds:
        """Edit the message of this id, or post one, with files small enough."""
        guild = self._client.get_guild(due.review.guild_id)
        channel = guild.get_channel_or_thread(place) if guild else None
        texts, how = self._texts(due), {"private": channel is not None and not everybody_sees(channel)}
        content = review_content(due, texts, **how)
        try:
            pictures = await self._uploads.load(content)
        except FilesGone as gone:
            await self._store.files.want(gone.names)
            if due.attempts < REPAINTED:
                raise DeliveryDelayed(f"{gone}, and are painted again", seconds=LOST_SECONDS) from None
            content, pictures = review_content(due, texts, **how, pictures=False), []
        limit = self._limits.of(place, guild)
        for _ in range(FITTING_ATTEMPTS):
            files = await self._uploads.fit(content, pictures, limit)
            try:
                return await self._send(due, place, message_id, parts_of(content, files)), place
            except Refused as error:
                if error.refusal is not Refusal.TOO_LARGE or not files:
                    raise
                limit = self._limits.refused(place, size_of(files))
        raise Refused(Refusal.TOO_LARGE)

    async def _send(self, due: DueReview, place: int, message_id: int | None, parts: dict[str, Any]) -> int:
        channel = self._client.get_partial_messageable(place, guild_id=due.review.guild_id)
        with self._guard.request(by_token=False):
            if message_id is not None:
                edited = await channel.get_partial_message(message_id).edit(**parts)
                return edited.id
            files = parts.pop("attachments")
            nonce = f"sdjax-review-{due.review.id}"[:25]
            return (await channel.send(**parts, files=files, nonce=nonce)).id

    async def _posted_earlier(self, channel: discord.PartialMessageable, due: DueReview) -> int | None:
        """Return the id of the message that an earlier attempt posted, found by its buttons, or None."""
        after = datetime.fromtimestamp(due.review.opened_at - CLOCKS_APART, UTC)
        mine = f":{due.review.id}"
        try:
            with self._guard.request(by_token=False):
                async for message in channel.history(limit=LOOKED_AT, after=after, oldest_first=True):
                    own = self._client.user is not None and message.author.id == self._client.user.id
                    found = (each for each in custom_ids(message.components) if each.startswith("review:"))
                    if own and any(each.endswith(mine) for each in found):
                        return message.id
        except Refused as error:  # the post itself may still be allowed
            log.warning("whether a review was posted before cannot be read: %s", error)
        return None

    async def _told(self, due: DueReview) -> bool:
        """Send the answer to an appeal as a direct message; False if the person takes none from the bot."""
        request = due.review.request or {}
        texts = Texts.for_locale(str(dict(request.get("origin", {})).get("locale", "")))
        content = MessageContent(heading=appeal_answer(due.review, texts), tone=Tone.WAITING)
        try:
            with self._guard.request(by_token=False):
                channel = await self._client.create_dm(discord.Object(due.review.user_id))
                nonce = f"sdjax-appeal-{due.review.id}"[:25]
                silent = discord.AllowedMentions.none()
                await channel.send(view=layout(content), nonce=nonce, allowed_mentions=silent)
        except Refused:
            return False
        return True

    def _texts(self, due: DueReview) -> Texts:
        """Return the sentences in the language of the server."""
        guild = self._client.get_guild(due.review.guild_id)
        return Texts.for_locale(str(guild.preferred_locale) if guild else "en")


def everybody_sees(channel: object) -> bool:
    """Return whether every member sees a channel of a server; False where its roles are not known."""
    if not isinstance(channel, discord.abc.GuildChannel | discord.Thread) or not channel.guild.roles:
        return False
    if isinstance(channel, discord.Thread):
        return not channel.is_private() and everybody_sees(channel.parent)
    return channel.permissions_for(channel.guild.default_role).view_channel


def _wait(due: DueReview) -> float:
    return backoff(due.attempts, random.random())  # noqa: S311 - spreads load, guards nothing
