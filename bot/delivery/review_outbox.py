"""The outbox of the moderators' messages about reviews, which are edited once something was decided.

If there is no channel, or the bot may not post there, the pictures stay held, `/review show` lists them, and
the post is retried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import discord

from bot.delivery.content import MessageContent, Tone
from bot.delivery.discord_requests import layout, parts_of
from bot.delivery.earlier import posted_earlier
from bot.delivery.outbox import Outbox
from bot.delivery.refusals import DeliveryDelayed, FilesGone, Refusal, Refused
from bot.delivery.review_message import appeal_answer, review_content
from bot.delivery.sender import Sender
from bot.delivery.uploads import Uploads, size_of
from bot.store.moderation.review_messages import DueReview
from bot.store.store import Store
from bot.texts.catalogue import Texts

CLOSED_SECONDS = 600.0  # until a channel that is closed to the bot is tried again
FITTING_ATTEMPTS = 10
REPAINTED, LOST_SECONDS = 6, 20.0  # how often and how long a message waits for lost files
NO_CHANNEL = "no_channel"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Where a message shows its review, None where none needs to, and whether the person was told."""

    message_id: int | None = None
    channel_id: int | None = None
    told: bool = True
    outcome: str = "sent"


class ReviewOutbox(Outbox[DueReview, Shown]):
    """Sends the due messages about reviews, of any server, through `client`."""

    name = "the message of review {due.review.id} of server {due.review.guild_id}"
    at_once = 4
    gives_up = False

    def __init__(
        self, store: Store, client: discord.Client, sender: Sender, uploads: Uploads, *, front: str
    ) -> None:
        super().__init__(store.review_messages, store.wake_ups.reviews, front=front, clock=store.clock)
        self._store = store
        self._client = client
        self._guard = sender.rate_guard
        self._limits = sender.limits
        self._uploads = uploads

    async def send(self, due: DueReview) -> Shown:
        """Bring the message up to date, and answer the person; note why it cannot be shown."""
        try:
            shown = await self._show(due)
        except Refused as error:
            lost = due.review.message_id is not None
            raise await self._troubled(due, error.refusal, lost=lost) from None
        if due.case.place is None and shown.message_id is None and due.review.outcome is None:
            raise await self._troubled(due, NO_CHANNEL)
        return replace(shown, told=await self._told(due)) if due.case.answers else shown

    async def settle(self, due: DueReview, outcome: str, sent: Shown | None) -> None:
        """Store where the message is."""
        place = sent or Shown()
        await self._store.review_messages.settle(
            due,
            outcome=outcome,
            message_id=place.message_id,
            channel_id=place.channel_id,
            told=place.told,
        )

    async def _troubled(self, due: DueReview, trouble: str, *, lost: bool = False) -> DeliveryDelayed:
        """Note why the message cannot be shown; return when it is tried again: a `lost` one, soon."""
        await self._store.review_messages.note_trouble(due, trouble, lost=lost)
        return DeliveryDelayed(trouble, seconds=0.0 if lost else CLOSED_SECONDS)

    async def _show(self, due: DueReview) -> Shown:
        """Edit the message, or post it if there is none."""
        review = due.review
        if review.message_id is not None and review.channel_id is not None:
            try:
                return await self._put(due, review.channel_id, review.message_id)
            except Refused:
                if review.outcome is None:
                    raise
                return Shown()  # it is gone, and there is nothing to decide
        if (place := due.case.place) is None:
            return Shown()
        earlier = await self._posted_earlier(due, place) if due.tried_before else None
        if earlier is None and review.outcome is not None:
            return Shown()
        return await self._put(due, place, earlier)

    async def _posted_earlier(self, due: DueReview, place: int) -> int | None:
        """Return the id of the message that an earlier attempt posted, found by its buttons, or None."""
        channel = self._client.get_partial_messageable(place, guild_id=due.review.guild_id)
        mine, since = f":{due.review.id}", due.review.opened_at
        return await posted_earlier(
            *(self._client, self._guard, channel),
            lambda marks: any(each.startswith("review:") and each.endswith(mine) for each in marks),
            since=since,
        )

    async def _put(self, due: DueReview, place: int, message_id: int | None) -> Shown:
        """Edit the message of this id, or post one, with files small enough."""
        guild = self._client.get_guild(due.review.guild_id)
        channel = guild.get_channel_or_thread(place) if guild else None
        texts, how = self._texts(due), {"private": channel is not None and not everybody_sees(channel)}
        content = await self._uploads.without_gone(review_content(due.case, texts, **how))
        try:
            pictures = await self._uploads.load(content)
        except FilesGone as gone:
            await self._store.files.want(gone.names)
            if due.attempts < REPAINTED:
                raise DeliveryDelayed(f"{gone}, and are painted again", seconds=LOST_SECONDS) from None
            content, pictures = review_content(due.case, texts, **how, pictures=False), []
        limit = self._limits.of(place, guild)
        for _ in range(FITTING_ATTEMPTS):
            files = await self._uploads.fit(content, pictures, limit)
            try:
                sent = await self._send(due, place, message_id, parts_of(content, files))
                return Shown(message_id=sent, channel_id=place)
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
