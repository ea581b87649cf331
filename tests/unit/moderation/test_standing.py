"""Which restriction decides a request, and its sentence for the person."""

from __future__ import annotations

import pytest

from bot.front.answers.answers import sentence_for
from bot.moderation.standing import block_of, refusal
from bot.store.rows.restrictions import Kind, Restriction, Scope
from bot.texts.catalogue import LANGUAGES, Texts

SERVER, RAVI = 21, 12


def restriction(kind: Kind, *, until: float | None = None, reason: str = "", **scope: int) -> Restriction:
    return Restriction(kind=kind, scope=Scope(**scope), until=until, reason=reason, by=11, at=0.0)


HERE = restriction(Kind.BLOCK, guild_id=SERVER, user_id=RAVI)
OF_SERVER = restriction(Kind.BLOCK, guild_id=SERVER)
EVERYWHERE = restriction(Kind.BLOCK, user_id=RAVI)
PAUSE = restriction(Kind.PAUSE, guild_id=SERVER, reason="maintenance")


def test_without_a_block_a_request_is_taken() -> None:
    assert block_of([]) is None
    assert block_of([PAUSE]) is None


def test_of_several_blocks_the_widest_is_reported() -> None:
    assert block_of([HERE, OF_SERVER, EVERYWHERE]) == EVERYWHERE
    assert block_of([HERE, OF_SERVER]) == OF_SERVER
    assert block_of([HERE]) == HERE


def told(block: Restriction, language: str = "en") -> str:
    return sentence_for(refusal(block), Texts(language))


def test_the_sentence_says_by_whom_until_when_and_why() -> None:
    block = restriction(
        Kind.BLOCK, guild_id=SERVER, user_id=RAVI, until=1_780_000_000.5, reason="spam *twice*"
    )
    assert told(block) == (
        "A moderator has blocked you from painting in this server. "
        "This ends <t:1780000000:R>. The reason: spam \\*twice\\*"
    )
    no_end = "The block has no end date: ask a moderator to remove it."
    assert told(HERE) == f"A moderator has blocked you from painting in this server. {no_end}"
    assert told(OF_SERVER).startswith("The bot's owner has blocked this server")
    assert told(EVERYWHERE).startswith("The bot's owner has blocked you")


@pytest.mark.parametrize("language", LANGUAGES)
def test_discord_finds_the_time_in_every_language(language: str) -> None:
    block = restriction(Kind.BLOCK, guild_id=SERVER, user_id=RAVI, until=1_780_000_000.0, reason="@everyone")
    assert "<t:1780000000:R>" in told(block, language)
    assert "@everyone" not in told(block, language)
