"""Requests to Discord: the parts of a message, and the rate guard that each request passes.

Content is shown as Components V2. The rate guard stops requests that Discord's limits forbid, well before
Discord bans the address, and translates the errors of the others.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import discord

from bot.delivery.content import ButtonContent, MenuContent, MessageContent, Tone
from bot.delivery.pictures import PictureFile
from bot.delivery.refusals import TRANSIENT, DeliveryDelayed, Refusal, Refused, understand

log = logging.getLogger(__name__)

COLOURS: Mapping[Tone, int] = {
    Tone.WAITING: 0x8A8F98,
    Tone.RUNNING: 0x4C8DFF,
    Tone.DONE: 0x3BA55D,
    Tone.FAILED: 0xD83C3E,
    Tone.CANCELLED: 0x8A8F98,
}

WINDOW_SECONDS = 600.0
MAX_INVALID = 2_500  # Discord bans an address at 10,000 in ten minutes; other programs may share the address
LONGEST_WAIT = 60.0  # seconds; for a longer Retry-After a request is not repeated by discord.py
FORBIDDEN, TOO_LARGE, TOO_MANY, PASSING = 403, 413, 429, 503
INVALID = frozenset({401, FORBIDDEN, TOO_MANY})
BLOCKED_BY_CLOUDFLARE = 40333
BAN_SECONDS = 60.0  # used if a ban has no Retry-After
FIRST_BLOCK_SECONDS, LONGEST_BLOCK_SECONDS = 5.0, 300.0


class MessageFile(discord.File):
    """A file of a message; Discord covers it until a person uncovers it if it is `covered` or named SPOILER_…

    discord.py 2.7 knows the names alone, which Discord calls legacy (discord/discord-api-docs#8429).
    """

    def __init__(self, data: bytes, filename: str, *, covered: bool = False) -> None:
        super().__init__(io.BytesIO(data), filename=filename)
        self._covered = covered or self.spoiler

    def to_dict(self, index: int) -> dict[str, Any]:
        """Return Discord's form of the file; `index` is its number in the request."""
        return {**super().to_dict(index), **({"is_spoiler": True} if self._covered else {})}


def parts_of(content: MessageContent, files: Sequence[PictureFile]) -> dict[str, Any]:
    """Return the arguments that a message's edit takes; the files are read from their start each time."""
    named = {picture.stem + file.suffix: file for picture, file in zip(content.pictures, files, strict=False)}
    return {
        "view": layout(content, file_names=list(named)),
        "attachments": [MessageFile(file.data, name) for name, file in named.items()],
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


class NotDiscords(discord.HTTPException):
    """An answer that is not Discord's own: a block of this address, or a page of a host in between.

    It is no `Forbidden` and no `NotFound`, because it says nothing about the message, and its status is that
    of an error that passes. `seconds` is how long to wait before the next request.
    """

    def __init__(self, response: aiohttp.ClientResponse, *, seconds: float = 0.0) -> None:
        super().__init__(response, "this answer is not Discord's own")
        self.seconds = seconds
        self.status = PASSING  # discord.py takes a 401 for a refused token


class RateGuard:
    """Counts refused requests of one process, and says before each request whether it may be made.

    `watch` shows it every answer that Discord gives to a client, also those to requests without `request`.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits_until = 0.0
        self._quiet_until = 0.0
        self._blocked_until = 0.0
        self._blocks = 0  # blocks since the last request that was answered well
        self._window_ends = 0.0
        self._invalid = 0

    def watch(self, trace: aiohttp.TraceConfig) -> None:
        """Let the guard see each answer to a client with this trace, before discord.py reads it."""

        async def answered(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, end: aiohttp.TraceRequestEndParams
        ) -> None:
            refused = 400 <= end.response.status < 500
            error = self.judge(end.response, await end.response.read() if refused else b"")
            if error is not None:
                raise error

        trace.on_request_end.append(answered)

    @contextmanager
    def request(self, *, by_token: bool) -> Iterator[None]:
        """Surround one request to Discord, made by an interaction's token or by the bot itself.

        Raises Refused and DeliveryDelayed in place of the errors of discord.py and of the connection.
        """
        self.check(by_token=by_token)
        try:
            yield
        except discord.RateLimited as error:
            if not by_token:
                self._waits_until = max(self._waits_until, self._clock() + error.retry_after)
            raise DeliveryDelayed(str(error), seconds=error.retry_after) from error
        except BaseException as error:
            _raise_translated(error, by_token=by_token)
            raise

    def check(self, *, by_token: bool) -> None:
        """Raise `DeliveryDelayed` with the seconds to wait if this request must not be made now.

        The bot's own rate limit does not apply to requests `by_token` of an interaction.
        """
        until = max(self._quiet_until, self._blocked_until)
        self._check(until if by_token else max(until, self._waits_until))

    def check_first_answer(self) -> None:
        """Raise `DeliveryDelayed` if Discord would ban this address for a further request.

        A first answer does not wait for the end of a block: three seconds later it is of no use.
        """
        self._check(self._quiet_until)

    def _check(self, until: float) -> None:
        left = until - self._clock()
        if left > 0:
            raise DeliveryDelayed(f"Discord wants no requests for {left:.0f} s", seconds=left)

    def judge(self, response: aiohttp.ClientResponse, body: bytes) -> discord.DiscordException | None:
        """Count an answer; return the error to raise for an answer that discord.py would misunderstand.

        Such an answer is not Discord's own, or wants a longer wait than a request may take.
        """
        now, status = self._clock(), response.status
        if not 400 <= status < 500 or status == TOO_LARGE:  # each host says in its own way what is too large
            self._note_well(status)
            return None
        if status in INVALID:
            self._count(now)
        said = _read(response, body)
        if status == TOO_MANY:
            return self._too_many(response, said, now)
        if status == FORBIDDEN and (said is None or said.get("code") == BLOCKED_BY_CLOUDFLARE):
            return NotDiscords(response, seconds=self._note_block(response, now))
        return None if said is not None else NotDiscords(response)

    def _too_many(
        self, response: aiohttp.ClientResponse, said: Mapping[str, Any] | None, now: float
    ) -> discord.DiscordException | None:
        wait = (said or {}).get("retry_after")
        if "Via" not in response.headers or not isinstance(wait, int | float):  # Cloudflare bans the address
            seconds = _seconds_to_wait(response, BAN_SECONDS)
            self._quiet_until = max(self._quiet_until, now + seconds)
            return NotDiscords(response, seconds=seconds)
        return discord.RateLimited(wait) if wait > LONGEST_WAIT else None

    def _note_well(self, status: int) -> None:
        if self._blocks and status < 300:
            self._blocks = 0
            log.info("Discord answers this address again")

    def _note_block(self, response: aiohttp.ClientResponse, now: float) -> float:
        """Return the seconds until the next request: twice as many after each one that meets the block.

        The first wait is short, because a single odd request can be refused like a blocked address.
        """
        if now >= self._blocked_until:
            self._blocks += 1
            wait = min(FIRST_BLOCK_SECONDS * 2.0 ** (self._blocks - 1), LONGEST_BLOCK_SECONDS)
            self._blocked_until = now + _seconds_to_wait(response, wait)
            if self._blocks == 1:
                log.warning(
                    "an answer of status %d is not Discord's own: this address seems to be blocked for a "
                    "while; requests wait for %.0f s, then longer",
                    *(response.status, self._blocked_until - now),
                )
        return self._blocked_until - now

    def _count(self, now: float) -> None:
        if now >= self._window_ends:
            self._window_ends, self._invalid = now + WINDOW_SECONDS, 0
        self._invalid += 1
        if self._invalid >= MAX_INVALID:
            self._quiet_until = max(self._quiet_until, self._window_ends)


def _read(response: aiohttp.ClientResponse, body: bytes) -> Mapping[str, Any] | None:
    """Return Discord's error; None for any other body, by the rule of discord.py."""
    if response.headers.get("Content-Type") != "application/json":
        return None
    try:
        said = json.loads(body)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _raise_translated(error: BaseException, *, by_token: bool) -> None:
    if isinstance(error, NotDiscords):
        raise DeliveryDelayed(str(error), seconds=error.seconds) from error
    if isinstance(error, discord.HTTPException):
        refusal = understand(error, by_token=by_token)
        if refusal is Refusal.LATER:
            raise DeliveryDelayed(str(error).partition("\n")[0]) from error
        raise Refused(refusal) from error
    if isinstance(error, TRANSIENT):
        raise DeliveryDelayed(f"Discord cannot be reached: {error}") from error


def _seconds_to_wait(response: aiohttp.ClientResponse, default: float) -> float:
    try:
        return float(response.headers.get("Retry-After", default))
    except ValueError:
        return default
