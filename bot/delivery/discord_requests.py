"""Requests to Discord: the parts of a message, and the rate guard that each request passes.

Content is shown as Components V2. The rate guard stops requests that Discord's limits forbid, well before
Discord bans the address, and translates the errors of the others.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import discord

from bot.delivery.buttons import ButtonContent, MenuContent
from bot.delivery.content import MessageContent, Tone
from bot.delivery.pictures import PictureFile
from bot.delivery.refusals import TRANSIENT, DeliveryDelayed, Refusal, Refused, understand

COLOURS: Mapping[Tone, int] = MappingProxyType(
    {
        Tone.WAITING: 0x8A8F98,
        Tone.RUNNING: 0x4C8DFF,
        Tone.DONE: 0x3BA55D,
        Tone.FAILED: 0xD83C3E,
        Tone.CANCELLED: 0x8A8F98,
    }
)

WINDOW_SECONDS = 600.0
MAX_INVALID = 2_500  # Discord bans an address at 10,000 in ten minutes; other programs may share the address
TOO_MANY = 429
INVALID = frozenset({401, 403, TOO_MANY})
BAN_SECONDS = 60.0  # used if a ban has no Retry-After


def parts_of(content: MessageContent, files: Sequence[PictureFile]) -> dict[str, Any]:
    """Return the arguments that a message's edit takes; the files are read from their start each time."""
    named = {picture.stem + file.suffix: file for picture, file in zip(content.pictures, files, strict=False)}
    return {
        "view": layout(content, file_names=list(named)),
        "attachments": [discord.File(io.BytesIO(file.data), filename=name) for name, file in named.items()],
        "allowed_mentions": discord.AllowedMentions.none(),
    }


def layout(content: MessageContent, *, file_names: Sequence[str] = ()) -> discord.ui.LayoutView:
    """Return the view that shows `content`, with the attachments `file_names` as its pictures.

    The view is stopped: the front's dynamic items answer its buttons, so discord.py need not
    remember it.
    """
    container: discord.ui.Container[discord.ui.LayoutView] = discord.ui.Container(
        accent_colour=COLOURS[content.tone]
    )
    above = "\n".join(part for part in (content.heading, content.status) if part)
    container.add_item(discord.ui.TextDisplay(above))
    for picture, file_name in zip(content.pictures, file_names, strict=False):
        gallery: discord.ui.MediaGallery[discord.ui.LayoutView] = discord.ui.MediaGallery()
        media = f"attachment://{file_name}"
        gallery.add_item(media=media, description=picture.alt, spoiler=picture.spoiler)
        container.add_item(gallery)
    if below := "\n".join(part for part in (content.footer, content.folded) if part):
        container.add_item(discord.ui.TextDisplay(below))
    for menu in content.menus:
        container.add_item(discord.ui.ActionRow(_menu(menu)))
    for number, row in enumerate(content.rows, start=1):
        if content.more is not None and number == len(content.rows):
            container.add_item(discord.ui.ActionRow(_menu(content.more)))
        container.add_item(discord.ui.ActionRow(*map(_button, row)))
    view = discord.ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return view


def _button(content: ButtonContent) -> discord.ui.Button[discord.ui.LayoutView]:
    style = discord.ButtonStyle.secondary
    if content.primary:
        style = discord.ButtonStyle.primary
    elif content.dangerous:
        style = discord.ButtonStyle.danger
    return discord.ui.Button(label=content.label, custom_id=content.custom_id, style=style)


def _menu(content: MenuContent) -> discord.ui.Select[discord.ui.LayoutView]:
    options = [
        discord.SelectOption(label=choice.label, value=choice.value, description=choice.description or None)
        for choice in content.choices
    ]
    return discord.ui.Select(
        custom_id=content.custom_id,
        placeholder=content.placeholder,
        options=options,
        max_values=min(content.most, len(options)),
    )


class RateGuard:
    """Counts refused requests of all messages, and says before each request whether it may be made."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits_until = 0.0
        self._quiet_until = 0.0
        self._window_ends = 0.0
        self._invalid = 0

    @contextmanager
    def request(self, *, by_token: bool) -> Iterator[None]:
        """Surround one request to Discord, made by an interaction's token or by the bot itself.

        Raises Refused and DeliveryDelayed in place of the errors of discord.py and of the connection.
        """
        self.check(by_token=by_token)
        try:
            yield
        except BaseException as error:
            self.note(error)
            _raise_translated(error, by_token=by_token)
            raise
        else:
            self.note(None)

    def check(self, *, by_token: bool) -> None:
        """Raise `DeliveryDelayed` with the seconds to wait if this request must not be made now.

        The bot's own rate limit does not apply to requests `by_token` of an interaction.
        """
        until = self._quiet_until if by_token else max(self._quiet_until, self._waits_until)
        left = until - self._clock()
        if left > 0:
            raise DeliveryDelayed(f"Discord wants no requests for {left:.0f} s", seconds=left)

    def note(self, error: BaseException | None) -> None:
        """Record how a request ended: `error`, or None for success."""
        now = self._clock()
        if isinstance(error, discord.RateLimited):
            self._waits_until = max(self._waits_until, now + error.retry_after)
            self._count(now)
        elif isinstance(error, discord.HTTPException) and error.status in INVALID:
            if error.status == TOO_MANY and "Via" not in error.response.headers:
                # Cloudflare banned this address. discord.py does not retry then.
                self._quiet_until = max(self._quiet_until, now + _seconds_to_wait(error))
            self._count(now)

    def _count(self, now: float) -> None:
        if now >= self._window_ends:
            self._window_ends, self._invalid = now + WINDOW_SECONDS, 0
        self._invalid += 1
        if self._invalid >= MAX_INVALID:
            self._quiet_until = max(self._quiet_until, self._window_ends)


def _raise_translated(error: BaseException, *, by_token: bool) -> None:
    if isinstance(error, discord.HTTPException):
        refusal = understand(error, by_token=by_token)
        if refusal is Refusal.LATER:
            raise DeliveryDelayed(str(error)) from error
        raise Refused(refusal) from error
    if isinstance(error, discord.RateLimited):
        raise DeliveryDelayed(str(error), seconds=error.retry_after) from error
    if isinstance(error, TRANSIENT):
        raise DeliveryDelayed(f"Discord cannot be reached: {error}") from error


def _seconds_to_wait(error: discord.HTTPException) -> float:
    try:
        return float(error.response.headers.get("Retry-After", BAN_SECONDS))
    except ValueError:
        return BAN_SECONDS
