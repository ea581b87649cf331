"""The audit log: pages, filters, and the exported file."""

from __future__ import annotations

import json
from typing import Any

from front_tools import Message, delete, ephemeral, finished, queued, text_of
from results import shows_result
from serving import Served

from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.store.rows.audit import By
from bot.store.rows.restrictions import Scope

MINA, RAVI, _, OMAR, _ = (person.id for person in PEOPLE)
MODERATOR = By(actor_id=MINA, guild_id=GUILD_ID)


async def audit(who: Member, /, **options: Any) -> Message:
    """Return the private answer to /audit."""
    message = await who.message_of(await who.use("audit", **options))
    assert ephemeral(message)
    return message


async def blocks(served: Served, count: int) -> None:
    for number in range(count):
        by = By(actor_id=MINA, guild_id=GUILD_ID, reason=f"reason {number}")
        await served.store.moderation.block(Scope(guild_id=GUILD_ID, user_id=RAVI), by)


async def page_with(member: Member, words: str) -> Message:
    return await member.wait_for_message(lambda one: words in text_of(one))


async def test_the_log_has_pages(served: Served, mina: Member) -> None:
    await blocks(served, 25)
    newest = await audit(mina)
    assert "reason 24" in text_of(newest)
    assert "reason 15" in text_of(newest)
    assert "reason 14" not in text_of(newest)
    await mina.press(newest, "Older")
    second = await page_with(mina, "reason 14")
    await mina.press(second, "Older")
    last = await page_with(mina, "reason 0")
    assert text_of(last).count("reason") == 5
    await mina.press(last, "Newer")
    await page_with(mina, "reason 14")


async def test_acts_of_moderators_on_requests_are_in_the_log(
    served: Served, mina: Member, ravi: Member, omar: Member
) -> None:
    _, shown = await finished(served, ravi, "a boat")
    await delete(mina, shown)
    waiting = await queued(omar, "a tree")
    await mina.press(waiting, "Cancel")
    await mina.wait_for_message(lambda one: "Cancelled. Press Again" in text_of(one))
    own = await queued(omar, "a hill")
    await omar.press(own, "Cancel")
    await omar.wait_for_message(
        lambda one: one["id"] == own["id"] and "Cancelled. Press Again" in text_of(one)
    )
    cancelled, deleted = text_of(await audit(mina)).splitlines()[-2:]
    assert cancelled.endswith(f"<@{MINA}> cancelled a request of <@{OMAR}>")
    assert deleted.endswith(f"<@{MINA}> deleted 1 request of <@{RAVI}>")
    only = text_of(await audit(mina, member=str(RAVI)))
    assert ("deleted 1 request" in only, "cancelled" in only) == (True, False)
    only = text_of(await audit(mina, act="cancel"))
    assert ("deleted 1 request" in only, "cancelled" in only) == (False, True)


async def test_the_log_is_exported_as_json_lines_with_its_filter(served: Served, mina: Member) -> None:
    await blocks(served, 12)
    await served.store.moderation.unblock(Scope(guild_id=GUILD_ID, user_id=RAVI), MODERATOR)
    shown = await audit(mina, act="block", member=str(RAVI))
    answer = await mina.message_of(await mina.press(shown, "Export"), shows_result)
    assert ephemeral(answer)
    assert text_of(answer) == "12 acts as JSON, one a line, the newest first."
    assert answer["attachments"][0]["filename"] == "audit.jsonl"
    lines = [json.loads(line) for line in (await mina.attachment_bytes(answer)).splitlines()]
    assert [line["reason"] for line in lines] == [f"reason {number}" for number in reversed(range(12))]
    assert {line["act"] for line in lines} == {"block"}
    ids = [lines[0][name] for name in ("actor", "subject", "server")]
    assert ids == [str(MINA), str(RAVI), str(GUILD_ID)]
    assert lines[0]["before"] == lines[1]["after"] == {"until": None, "reason": "reason 10"}
