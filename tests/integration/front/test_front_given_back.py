"""What a person typed into a form is given back whole if the form is refused or the queue is unavailable."""

from __future__ import annotations

from typing import Any

import pytest
from front_tools import ephemeral, refusal, text_of
from serving import Served, until

from bot.errors import StoreUnavailable
from bot.sandbox.client import Member


async def given_back(member: Member) -> str:
    return "".join(text_of(message) for message in await member.messages() if ephemeral(message))


async def test_words_that_one_message_has_no_room_for_come_in_several(served: Served, mina: Member) -> None:
    form = await mina.modal_of(await mina.use("rules add", name="Blades"))
    terms = "\n".join(f"word{number:04d}" for number in range(440))
    also = "\n".join(["x" * 101, *(f"also{number:04d}" for number in range(400))])
    interaction = await mina.submit(form, name="Blades", terms=terms, also=also)
    assert "words or phrases" in await refusal(mina, interaction)

    async def all_there() -> bool:
        back = await given_back(mina)
        return all(word in back for word in (*terms.split(), *also.split()))

    await until(all_there)


async def test_words_are_given_back_while_the_queue_is_away(
    served: Served, mina: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = await mina.modal_of(await mina.use("rules add", name="Blades"))

    async def put(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("down")

    monkeypatch.setattr(type(served.store.prompt_rules), "put", put)
    monkeypatch.setattr("bot.front.commands.rules.PATIENCE_SECONDS", 0.1)
    await mina.submit(form, name="Blades", terms="sword\ndagger", also="")
    await mina.wait_for_message(lambda message: "dagger" in text_of(message))
