"""Which restriction refuses or pauses a person's request, and the sentence for the person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bot.domain.errors import UserMistake
from bot.store.rows.restrictions import Kind, Restriction
from bot.texts.catalogue import Moment


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a request is taken, and the restrictions that decide it.

    `refused` is the block that refuses the request, `paused` the pause that lets it wait.
    """

    refused: Restriction | None = None
    paused: Restriction | None = None


def decide(restrictions: Iterable[Restriction]) -> Decision:
    """Return what the restrictions that hold for a person in a channel mean for their request.

    Of several blocks the widest counts: of the person everywhere, then of the server, then of the person in
    the server. Of several pauses the nearest counts: of a thread, then of its channel, then of the server.
    """
    found = list(restrictions)
    blocks = [each for each in found if each.kind is Kind.BLOCK]
    pauses = [each for each in found if each.kind is Kind.PAUSE]
    return Decision(
        refused=min(blocks, key=_width, default=None), paused=max(pauses, key=_nearness, default=None)
    )


def refusal(block: Restriction) -> UserMistake:
    """Return the mistake whose sentence names the scope of a block, its end and its reason."""
    further = []
    if block.until is not None:
        further.append(UserMistake("blocked_until", until=Moment(block.until)))
    elif _name(block) == "blocked_here":
        further.append(UserMistake("blocked_for_good"))
    if block.reason:
        further.append(UserMistake("blocked_reason", reason=block.reason))
    return UserMistake(_name(block), further=further)


def _name(block: Restriction) -> str:
    if not block.scope.guild_id:
        return "blocked_everywhere"
    return "blocked_here" if block.scope.user_id else "blocked_server"


def _width(block: Restriction) -> tuple[bool, bool]:
    return bool(block.scope.guild_id), bool(block.scope.user_id)


def _nearness(pause: Restriction) -> int:
    """Return the sort key of a pause, largest for the nearest: a thread has a larger id than its channel."""
    return pause.scope.channel_id
