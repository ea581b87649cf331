"""What operators change on their page, over HTTP: requests, failed pictures, workers."""

from __future__ import annotations

from dataclasses import replace

from page_site import Site, enqueue, press, shown, site
from recipes import recipe
from stores import TTL

from bot.config import Config
from bot.domain.jobs import State
from bot.moderation.policy import Policy, Said
from bot.page.audit import MOST_VALUE
from bot.page.settings import read_policies, settings_of
from bot.store.moderation.policies import PolicyScope
from bot.store.rows.audit import Act, By

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


async def test_a_worker_tells_its_pictures_of_the_last_hour_and_its_memory(site: Site) -> None:
    offers, lane = site.store.offers, recipe().lane
    await offers.announce("one", lanes=[lane], seats=1, ttl=TTL, version="1", hourly=1234, memory=3 * 2**30)
    text = await shown(site, "/workers", "1234 pictures in the last hour")
    assert "3.0 GiB of each device in use" in text


async def test_a_policy_is_shown_with_what_holds_and_why(site: Site) -> None:
    by = By(actor_id=7, guild_id=21)
    await site.store.policies.put(PolicyScope.SERVER, 21, {"steps": 60, "paint": True}, by)
    await site.store.policies.put(PolicyScope.CHANNEL, 5, {"steps": 80}, by)
    bound = Said(scope=PolicyScope.BOUND, policy=Policy(steps=70))
    house = replace(site.house, operator_says=(bound,))
    tables = (await read_policies(house, {"server": "21"}))["tables"]
    found = {(own.scope.value, key): line for own, lines in tables for key, *line in lines}
    assert found["server", "steps"] == ["60", "60", ["server"]]
    assert found["channel", "steps"] == ["80", "70", ["channel", "bound"]]
    assert ("channel", "paint") not in found
    assert "the server" in await shown(site, "/policies?server=21", "Because of")


def test_a_setting_tells_where_its_value_comes_from_and_never_a_secret() -> None:
    document = {"queue": {"database": "postgresql+asyncpg://bot:hush@db/x", "lease_seconds": 99.0}}
    environ = {"SDJAX__LOG__LEVEL": "debug", "SDJAX__MODELS__0__NAME": "demo"}
    nets = {"canny": {"source": "nets/canny", "types": ["edges", "lines"]}}
    config = Config.parse({**document, "log": {"level": "debug"}, "models": [{"controlnets": nets}]})
    found = {each.key: (each.value, each.source) for each in settings_of(config, environ)}
    assert found["queue.lease_seconds"] == ("99.0", "file")
    assert found["log.level"] == ("debug", "environment")
    assert found["log.format"] == ("text", "default")
    assert found["models.0.name"] == ("demo", "environment")
    assert found["models.0.controlnets.canny.types"] == ("edges, lines", "file")
    assert found["queue.database"][1] == "file"
    assert "hush" not in str(found)


def test_a_secret_that_is_longer_than_what_is_shown_is_hidden() -> None:
    address = f"https://bot:{'hush' * (MOST_VALUE // 4)}@example.org/{'x' * MOST_VALUE}"
    config = Config.parse({"engine": {"cache_dir": address}})
    (shown,) = [each.value for each in settings_of(config, {}) if each.key == "engine.cache_dir"]
    assert "hush" not in shown
    assert len(shown) == MOST_VALUE
