"""The outcome of a delivery to a closed place: one test for each refusal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from results import text_of
from serving import Served, until

from bot.domain.jobs import Job
from bot.sandbox.client import Member
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox

Message = dict[str, Any]


class DeliveryOutcomes:
    """The outcomes of deliveries, read from the database as by an operator."""

    def __init__(self, served: Served, database: Path) -> None:
        self._served = served
        self._database = database

    def read(self) -> list[str]:
        with sqlite3.connect(self._database) as database:
            rows = database.execute("SELECT outcome FROM outbox WHERE outcome IS NOT NULL").fetchall()
        database.close()
        return [row[0] for row in rows]

    async def only(self, job: Job) -> str:
        """Paint the job, and wait for the outcome of its delivery."""
        await self._served.paint(job.id)

        async def done() -> bool:
            return bool(self.read())

        await until(done)
        (outcome,) = self.read()
        return outcome


@pytest.fixture
def outcome(served: Served, tmp_path: Path) -> Iterator[DeliveryOutcomes]:
    return DeliveryOutcomes(served, tmp_path / "queue.sqlite3")


async def ask(member: Member, served: Served, **options: Any) -> tuple[Message, Job]:
    """Request a picture; return the message that shows it in the queue, and its job."""
    message = await member.message_of(
        await member.imagine(prompt="a red heart", **options), channel=options.get("channel")
    )

    async def known() -> bool:
        return (await served.store.jobs.active())[-1].message_id == int(message["id"])

    await until(known)
    return message, (await served.store.jobs.active())[-1]


async def direct(member: Member) -> list[Message]:
    """The messages that the bot sent to a member alone."""
    channels = (await member.state())["channels"]
    return [
        message for each in channels if each["type"] == 1 for message in await member.messages(each["id"])
    ]


async def test_after_a_removal_from_the_server_no_delivery_is_retried(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes
) -> None:
    _, job = await ask(mina, served)
    sandbox.misbehave(expire_tokens=True)
    sandbox.kick()
    refused = sandbox.invalid_requests
    assert await outcome.only(job) == "no_access"
    assert sandbox.invalid_requests - refused <= 3  # by the token, in the channel, to the person


async def test_without_the_right_to_attach_files_the_result_comes_as_a_direct_message(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes, tmp_path: Path
) -> None:
    _, job = await ask(mina, served)
    forget_message(tmp_path)
    sandbox.misbehave(expire_tokens=True)
    sandbox.forbid("art", Permission.ATTACH_FILES)
    assert await outcome.only(job) == "sent_directly"
    (message,) = await direct(mina)
    assert message["attachments"]
    assert "could no longer be shown" in text_of(message)


async def test_without_any_right_and_with_closed_direct_messages_the_refusal_is_stored(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes, tmp_path: Path
) -> None:
    _, job = await ask(mina, served)
    forget_message(tmp_path)
    sandbox.misbehave(expire_tokens=True)
    sandbox.forbid("art", Permission.SEND_MESSAGES)
    await mina.accept_dms(False)
    assert await outcome.only(job) == "no_permission"
    assert await direct(mina) == []


async def test_closed_direct_messages_end_a_delivery_without_retries(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes, tmp_path: Path
) -> None:
    _, job = await ask(mina, served, channel="dm")
    forget_message(tmp_path)
    sandbox.misbehave(expire_tokens=True)
    await mina.accept_dms(False)
    assert await outcome.only(job) == "direct_closed"


async def test_an_archived_thread_is_unarchived_by_the_result(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes
) -> None:
    sandbox.open_thread("art", "sketches")
    queued, job = await ask(mina, served, channel="sketches")
    sandbox.archive("sketches")
    assert await outcome.only(job) == "sent"
    shown = [message for message in await mina.messages("sketches") if message["attachments"]]
    assert [message["id"] == queued["id"] for message in shown] == [False]
    assert (await served.store.jobs.get(job.id)).message_id == int(shown[0]["id"])


async def test_the_result_of_a_locked_thread_is_a_direct_message(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes
) -> None:
    sandbox.open_thread("art", "sketches")
    _, job = await ask(mina, served, channel="sketches")
    sandbox.archive("sketches", locked=True)
    assert await outcome.only(job) == "sent_directly"
    assert len(await direct(mina)) == 1


async def test_an_expired_token_is_tried_only_once(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes
) -> None:
    queued, job = await ask(mina, served)
    sandbox.misbehave(expire_tokens=True)
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    for step in (3, 9):
        await served.store.leases.heartbeat({claim: step}, ttl=60.0)
        await mina.wait_for_message(lambda message, step=step: f"step {step} of" in text_of(message))
    await served.store.leases.give_back(claim)
    assert await outcome.only(job) == "edited"
    assert sandbox.invalid_requests == 1
    assert (await mina.messages())[0]["id"] == queued["id"]


async def test_a_long_retry_after_delays_deliveries_without_requests_meanwhile(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes
) -> None:
    queued, job = await ask(mina, served)
    sandbox.misbehave(expire_tokens=True)
    sandbox.misbehave(rest_429=1, on=f"/channels/{queued['channel_id']}/messages/", retry_after=3600.0)
    await served.paint(job.id)

    async def put_off() -> bool:
        return not await served.store.deliveries.undelivered(limit=9)

    await until(put_off)
    asked = sandbox.invalid_requests
    _, other = await ask(mina, served)
    sandbox.misbehave(expire_tokens=True)
    await served.paint(other.id)
    await until(put_off)
    assert outcome.read() == []
    assert sandbox.invalid_requests - asked <= 1  # with its own token, which has expired


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.delivery.discord_requests.FIRST_BLOCK_SECONDS", 0.1)
    monkeypatch.setattr("bot.delivery.discord_requests.BAN_SECONDS", 0.1)
    monkeypatch.setattr("bot.delivery.outbox.LONGEST_WAIT", 0.1)


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    "page",
    [
        (403, "/webhooks/"),  # by the interaction's token
        (403, "/channels/"),  # by the bot, after the token's end
        (401, "/channels/"),
        (404, "/webhooks/"),
        (429, "/channels/"),
    ],
)
async def test_a_page_in_place_of_discords_answer_ends_no_delivery(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes, page: tuple[int, str]
) -> None:
    status, where = page
    queued, job = await ask(mina, served)
    if where == "/channels/":
        sandbox.misbehave(expire_tokens=True)
    sandbox.misbehave(pages=1, page_status=status, on=where)
    assert await outcome.only(job) == "edited"
    assert not sandbox._core.faults.pages
    (message,) = await mina.messages()
    assert (message["id"], len(message["attachments"])) == (queued["id"], 1)


async def test_a_content_that_discord_refuses_is_reported_in_the_message(
    served: Served, sandbox: Sandbox, mina: Member, outcome: DeliveryOutcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued, job = await ask(mina, served)
    monkeypatch.setattr("bot.delivery.result.MAX_ALT", 5000)
    with sqlite3.connect(outcome._database) as database:
        database.execute("UPDATE jobs SET recipe = replace(recipe, 'a red heart', ?)", ("heart" * 300,))
    database.close()
    assert await outcome.only(job) == "rejected"
    (message,) = await mina.messages()
    assert message["id"] == queued["id"]
    assert text_of(message) == "Discord did not take this picture. Press Again, or tell the bot's owner."
    (violation,) = sandbox.violations
    assert "50035" in violation
    sandbox._core.log.violations.clear()


def forget_message(folder: Path) -> None:
    """Delete the message's id, as after a crash before it was stored."""
    with sqlite3.connect(folder / "queue.sqlite3") as database:
        database.execute("UPDATE jobs SET message_id = NULL, token_expires_at = 0")
    database.close()
