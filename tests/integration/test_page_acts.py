"""What operators change on their page, over HTTP: requests, failed pictures, workers."""

from __future__ import annotations

from page_site import Site, enqueue, press, shown, site
from recipes import recipe
from stores import TTL

from bot.domain.jobs import State
from bot.store.rows.audit import Act

__all__ = ["site"]


async def test_a_request_is_moved_to_the_front_paused_and_resumed(site: Site) -> None:
    await site.store.offers.announce("one", lanes=[recipe().lane], seats=1, ttl=TTL)
    for number in (1, 2):
        last = await enqueue(site.store, number)
    assert "place 2" in await shown(site, f"/jobs/{last}", "Move to the front")
    assert "place 1" in await press(site, f"/jobs/{last}/advance")
    text = await press(site, f"/jobs/{last}/pause")
    assert "in a pause" in text
    assert "Go on with the request" in text
    assert "place" in await press(site, f"/jobs/{last}/resume")
    acts = [entry.act for entry in await site.store.moderation.entries(21, limit=9)]
    assert acts == [Act.RESUME, Act.PAUSE, Act.ADVANCE]


async def test_all_failed_requests_of_a_cause_are_tried_again_after_a_question(site: Site) -> None:
    ids = []
    for number in (1, 2, 3):
        ids.append(await enqueue(site.store, number))
        (claim,) = await site.store.leases.claim("one", limit=1, ttl=TTL)
        await site.store.leases.fail(claim, failure="bad_loras" if number == 3 else "painting_failed")
    for delivery in await site.store.deliveries.claim("front", limit=9):
        await site.store.deliveries.mark_delivered(delivery, outcome="edited", message_id=9)
    assert "of 2 requests are painted again" in await shown(
        site, "/failures?ask=painting_failed", "Paint them again"
    )
    for _ in range(2):
        text = await press(site, "/failures/retry", cause="painting_failed", period="day")
        assert "painting_failed" not in text
    states = [(await site.store.jobs.get(job_id)).state for job_id in ids]
    assert states == [State.WAITING, State.WAITING, State.FAILED]
    assert "Paint the failed pictures again" in await shown(site, f"/jobs/{ids[2]}", "bad_loras")
    await press(site, f"/jobs/{ids[2]}/retry")
    assert (await site.store.jobs.get(ids[2])).state is State.WAITING
    acts = [entry.act for entry in await site.store.moderation.entries(21, limit=9)]
    assert acts == [Act.RETRY] * 3


async def test_a_worker_is_drained_and_let_go_on(site: Site) -> None:
    await site.store.offers.announce("one", lanes=[recipe().lane], seats=1, ttl=TTL, version="1.2.3")
    assert "1.2.3" in await shown(site, "/workers", "Finish and claim nothing more")
    assert "claims nothing" in await press(site, "/workers/drain", worker="one", drained="yes")
    assert (await site.store.workers.now())[0].drained
    assert "Finish and claim nothing more" in await press(site, "/workers/drain", worker="one")
    acts = [entry.act for entry in await site.store.moderation.entries(0, limit=9)]
    assert acts == [Act.UNDRAIN, Act.DRAIN]
