"""Which block refuses a person's request, and the sentence for the person."""

from __future__ import annotations

from collections.abc import Sequence

from bot.domain.errors import UserMistake
from bot.store.rows.restrictions import Kind, Restriction
from bot.texts.catalogue import Moment


def block_of(restrictions: Sequence[Restriction]) -> Restriction | None:
    """Return the block that refuses a request, of the restrictions that hold for a person in a channel.

    Of several blocks the widest counts: of the person everywhere, then of the server, then of the person in
    the server.
    """
    blocks = [each for each in restrictions if each.kind is Kind.BLOCK]
    return min(blocks, key=_width, default=None)


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
