"""/stats and the batch in /queue, as members of a server see them."""

from __future__ import annotations

from front_tools import ephemeral, finished, queued, text_of
from serving import Served

from bot.sandbox.client import Member


async def test_stats_count_the_persons_and_the_servers_pictures(
    served: Served, ravi: Member, omar: Member
) -> None:
    await finished(served, ravi, "a boat", variants=2)
    await finished(served, omar, "a tree")
    message = await ravi.message_of(await ravi.use("stats"))
    assert ephemeral(message)
    lines = text_of(message).strip().splitlines()
    assert lines[:2] == ["### Painted for you", "- the last 24 hours · 2 pictures · 1 request"]
    start = lines.index("### Painted in this server")
    assert lines[start + 1] == "- the last 24 hours · 3 pictures · 2 requests · 2 people"
    assert lines[start + 2].startswith("- the last 7 days · 3 pictures")
    assert lines[-1].startswith("-# On average a request waited ")


async def test_in_a_direct_message_stats_count_only_the_persons_pictures(
    served: Served, yuna: Member
) -> None:
    message = await yuna.message_of(await yuna.use("stats", channel="dm"), channel="dm")
    assert "나를 위해 그린 그림" in text_of(message)
    assert "이 서버에서" not in text_of(message)


async def test_the_queue_shows_the_batch_on_the_devices(served: Served, ravi: Member, omar: Member) -> None:
    await queued(ravi, "a boat", variants=2)
    claims = await served.store.leases.claim("test", limit=1, ttl=60.0)
    await served.store.leases.heartbeat(dict.fromkeys(claims, 3), ttl=60.0, begun=claims)
    text = text_of(await omar.message_of(await omar.use("queue")))
    assert "**On the devices now**" in text
    assert "1 of 1 seats · <@" in text
