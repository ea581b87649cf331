"""Results and progress in the messages of the sandbox: with and without faults, and to closed places."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from results import labels, shows_result, text_of
from serving import DEADLINE, Served, serving, until
from stores import undelivered

from bot.config import Config
from bot.domain.file_states import LostFile
from bot.domain.jobs import Claim, Job
from bot.files.artifacts import Artifacts
from bot.front.commands.history import message_address
from bot.sandbox.client import Member
from bot.sandbox.exchange import Exchange
from bot.sandbox.permissions import Permission
from bot.sandbox.rules import Limits
from bot.sandbox.server import Sandbox
from bot.store import Store
from sdjax_engine.images import encode_png, read_recipe

Message = dict[str, Any]
PROMPT = "a red heart left of a blue star"


@pytest.fixture
def outcomes(store: Store, tmp_path: Path) -> Iterator[Any]:
    """The outcomes of deliveries, read from the database as by an operator."""

    def read() -> list[str]:
        with sqlite3.connect(tmp_path / "queue.sqlite3") as database:
            rows = database.execute("SELECT outcome FROM outbox WHERE outcome IS NOT NULL").fetchall()
        database.close()
        return [row[0] for row in rows]

    return read


def noise(claim: Claim) -> np.ndarray[Any, np.dtype[np.uint8]]:
    shape = (claim.request.height, claim.request.width, 3)
    return np.random.default_rng(claim.request.seed).integers(0, 256, shape, dtype=np.uint8)


async def paint(served: Served, job_id: str, *, fail: int = 0) -> Job:
    """Complete a job like a worker, with noise as pictures; the first `fail` images fail."""
    claims = await served.store.leases.claim("test", limit=9, ttl=60.0)
    for number, claim in enumerate(claims):
        if number < fail:
            await served.store.leases.fail(claim, failure="painting_failed")
            continue
        name = await served.artifacts.put(encode_png(noise(claim), claim.request), ".png")
        await served.store.leases.complete(claim, artifact=name, seconds=1.0)
    return await served.store.jobs.get(job_id)


async def ask(member: Member, store: Store, **options: Any) -> tuple[Message, Job]:
    """Request a picture; return the message that shows it in the queue, and its job."""
    asked = await member.imagine(prompt=PROMPT, **options)
    message = await member.message_of(asked, channel=options.get("channel"))

    async def known() -> bool:
        return (await store.jobs.active())[-1].message_id == int(message["id"])

    await until(known)
    return message, (await store.jobs.active())[-1]


async def with_picture(member: Member) -> Message:
    return await member.wait_for_message(shows_result)


async def logged(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return words in caplog.text


async def settled(outcomes: Any) -> list[str]:
    async def done() -> bool:
        return bool(outcomes())

    await until(done)
    found: list[str] = outcomes()
    return found


async def outcome(served: Served, job: Job, outcomes: Any) -> str:
    """Paint a job, and return the only outcome of a delivery."""
    await paint(served, job.id)
    (found,) = await settled(outcomes)
    return found


async def direct(member: Member) -> list[Message]:
    """The messages that the bot sent to a member alone."""
    channels = (await member.state())["channels"]
    return [
        message for each in channels if each["type"] == 1 for message in await member.messages(each["id"])
    ]


async def test_one_message_goes_from_queued_to_the_painted_picture(
    served: Served, mina: Member, outcomes: Any
) -> None:
    queued, job = await ask(mina, served.store)
    assert "Queued, 1st" in text_of(queued)
    assert labels(queued) == ["Cancel"]
    painted = await paint(served, job.id)
    message = await with_picture(mina)
    assert message["id"] == queued["id"]
    assert message["attachments"][0]["filename"] == f"{job.id}.png"
    assert await mina.attachment_bytes(message) == await served.artifacts.get(
        painted.images[0].artifact or ""
    )
    assert f"seed {job.recipe.seed}" in text_of(message)
    assert labels(message) == ["Again", "Remix", "Vary", "Files", "Delete"]
    assert await settled(outcomes) == ["edited"]
    assert len(await mina.messages()) == 1


async def test_the_message_is_known_with_the_job_before_it_says_anything(
    served: Served, sandbox: Sandbox, mina: Member
) -> None:
    sandbox.misbehave(rest_5xx=1000, on="/messages/")
    interaction = await mina.imagine(prompt=PROMPT)
    try:
        promised = await mina.message_of(interaction, lambda _: True)

        async def stored() -> bool:
            return bool(await served.store.jobs.active())

        await until(stored)
        (job,) = await served.store.jobs.active()
        assert job.message_id == int(promised["id"])
    finally:
        sandbox.misbehave(rest_5xx=0)


async def test_several_pictures_are_a_grid_and_failed_ones_are_counted(served: Served, mina: Member) -> None:
    _, job = await ask(mina, served.store, variants=3)
    await paint(served, job.id, fail=1)
    message = await with_picture(mina)
    grid = PIL.Image.open(io.BytesIO(await mina.attachment_bytes(message)))
    assert grid.size == (2 * job.recipe.width, job.recipe.height)
    assert message["attachments"][0]["filename"] == f"{job.id}-grid.png"
    assert "1 of 3 pictures failed." in text_of(message)


async def test_steps_are_shown_while_painting_and_never_over_the_result(served: Served, mina: Member) -> None:
    await ask(mina, served.store)
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    await served.store.leases.heartbeat({claim: 7}, ttl=60.0)
    await mina.wait_for_message(lambda message: "step 7 of 20" in text_of(message))
    await served.store.leases.heartbeat({claim: 13}, ttl=60.0)
    await mina.wait_for_message(lambda message: "step 13 of 20" in text_of(message))
    name = await served.artifacts.put(encode_png(noise(claim), claim.request), ".png")
    await served.store.leases.complete(claim, artifact=name, seconds=1.0)
    await with_picture(mina)
    (last,) = [event["data"] for event in mina.events if event["type"] == "MESSAGE_UPDATE"][-1:]
    assert last["attachments"]
    assert "Painting" not in text_of(last)


async def test_progress_that_is_late_is_dropped_and_the_newest_shown(
    served: Served, sandbox: Sandbox, mina: Member
) -> None:
    await ask(mina, served.store)
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    sandbox.misbehave(slow_ms=1000)
    for step in range(1, 13):
        await served.store.leases.heartbeat({claim: step}, ttl=60.0)
        await asyncio.sleep(0.25)
    sandbox.misbehave(slow_ms=0)
    await mina.wait_for_message(lambda message: "step 12 of 20" in text_of(message))
    shown = [event["data"] for event in mina.events if event["type"] == "MESSAGE_UPDATE"]
    steps = [
        text_of(message).partition("step ")[2].split()[0] for message in shown if "step " in text_of(message)
    ]
    assert len(steps) <= 4
    assert steps == sorted(steps, key=int)


async def test_a_private_result_after_the_tokens_end_comes_as_a_direct_message(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    _, job = await ask(mina, served.store, private=True)
    sandbox.misbehave(expire_tokens=True)
    assert await outcome(served, job, outcomes) == "sent_directly"
    (message,) = await direct(mina)
    assert message["attachments"]
    assert "could no longer be shown" in text_of(message)
    address = message_address(await served.store.jobs.get(job.id))
    assert address == f"https://discord.com/channels/@me/{message['channel_id']}/{message['id']}"


async def test_a_private_result_that_cannot_be_delivered_is_never_shown_in_public(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    _, job = await ask(mina, served.store, private=True)
    await mina.accept_dms(False)
    sandbox.misbehave(expire_tokens=True)
    assert await outcome(served, job, outcomes) == "private_expired"
    assert not any(message["attachments"] for message in await mina.messages())


async def test_a_file_over_the_limit_of_direct_messages_is_made_smaller(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.delivery.uploads.FILE_LIMIT", 20_000)
    _, job = await ask(mina, served.store, private=True)
    sandbox.misbehave(expire_tokens=True)
    assert await outcome(served, job, outcomes) == "sent_directly"
    (message,) = await direct(mina)
    assert message["attachments"][0]["filename"] == f"{job.id}.webp"
    assert message["attachments"][0]["size"] <= 20_000


async def test_a_deleted_message_is_not_replaced(served: Served, mina: Member, outcomes: Any) -> None:
    queued, job = await ask(mina, served.store)
    await mina.delete(queued)
    assert await outcome(served, job, outcomes) == "message_deleted"
    assert await mina.messages() == []


async def test_a_new_message_whose_answer_was_lost_is_posted_once(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any, tmp_path: Path
) -> None:
    _, job = await ask(mina, served.store)
    with sqlite3.connect(tmp_path / "queue.sqlite3") as database:  # a crash before the message was noted
        database.execute("UPDATE jobs SET message_id = NULL, token_expires_at = 0")
    database.close()
    sandbox.misbehave(lose_answers=1, on="/messages")
    assert await outcome(served, job, outcomes) == "sent"
    shown = [message for message in await mina.messages() if message["attachments"]]
    assert len(shown) == 1
    assert (await served.store.jobs.get(job.id)).message_id == int(shown[0]["id"])


async def test_a_missing_file_is_reported_in_place_of_the_picture(served: Served, mina: Member) -> None:
    await ask(mina, served.store)
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    await served.store.leases.complete(claim, artifact=f"ab/{'ab' * 32}.png", seconds=1.0)
    lost: list[LostFile] = []

    async def wanted() -> bool:
        lost.extend(await served.store.files.claim_lost([claim.request.lane], limit=1, ttl=60.0))
        return bool(lost)

    await until(wanted)
    assert lost[0].painter.job_id == claim.job_id
    await served.store.files.end_wait(lost[0].name, failure="start_changed")
    message = await mina.wait_for_message(lambda message: "file is gone" in text_of(message))
    assert "Again" in labels(message)


async def test_an_unexpected_error_delays_one_result_and_affects_no_other(
    served: Served, mina: Member, outcomes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(mina, served.store)
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    await served.store.leases.complete(claim, artifact="no name of a file", seconds=1.0)
    await until(lambda: logged(caplog, "because of an unexpected error"))
    _, job = await ask(mina, served.store)
    await paint(served, job.id)
    await with_picture(mina)
    assert await settled(outcomes) == ["edited"]


async def test_a_channel_that_refused_a_size_gets_smaller_files_and_is_not_asked_again_for_the_next(
    store: Store, artifacts: Artifacts, discord_address: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.delivery.uploads.KNOWN_LIMITS", (45_000,))
    monkeypatch.setattr("bot.delivery.uploads.SURE_LIMIT", 45_000)
    seen: list[Any] = []
    async with (
        Sandbox(limits=Limits(file=45_000), observer=seen.append) as sandbox,
        Member(sandbox.address, "Mina") as mina,
        serving(sandbox, store, artifacts, Config()) as served,
    ):
        for count in (1, 2):
            _, job = await ask(mina, store)
            await paint(served, job.id)
            async with asyncio.timeout(DEADLINE):
                while sum(shows_result(each) for each in await mina.messages()) < count:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.05)
        refused = [each.status for each in seen if isinstance(each, Exchange)].count(413)
        served.bot.limits_on_files._learned.clear()
        again = await mina.message_of(await mina.use("show", job=job.id))
        assert again["attachments"][0]["size"] <= 45_000
    assert refused == 1
    assert [each.status for each in seen if isinstance(each, Exchange)].count(413) == 2


@pytest.mark.parametrize(("limit", "suffix"), [(45_000, ".webp"), (12_000, ".jpg"), (6_000, ".jpg")])
async def test_a_picture_over_the_upload_limit_is_made_smaller_and_delivered(
    store: Store, artifacts: Artifacts, discord_address: object, limit: int, suffix: str
) -> None:
    async with (
        Sandbox(limits=Limits(file=limit, request=2 * limit)) as sandbox,
        Member(sandbox.address, "Mina") as mina,
        serving(sandbox, store, artifacts, Config()) as served,
    ):
        _, job = await ask(mina, store)
        await paint(served, job.id)
        message = await with_picture(mina)
        data = await mina.attachment_bytes(message)
    assert message["attachments"][0]["filename"] == f"{job.id}{suffix}"
    assert len(data) <= limit
    assert PIL.Image.open(io.BytesIO(data)).format in ("WEBP", "JPEG")
    assert read_recipe(io.BytesIO(data)) == job.recipe.request(0)


async def test_after_a_removal_from_the_server_no_delivery_is_retried(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    _, job = await ask(mina, served.store)
    sandbox.misbehave(expire_tokens=True)
    sandbox.kick()
    refused = sandbox.invalid_requests
    assert await outcome(served, job, outcomes) == "no_access"
    assert sandbox.invalid_requests - refused <= 3  # by the token, in the channel, to the person


async def test_without_the_right_to_attach_files_the_result_comes_as_a_direct_message(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any, tmp_path: Path
) -> None:
    _, job = await ask(mina, served.store)
    forget_message(tmp_path)
    sandbox.misbehave(expire_tokens=True)
    sandbox.forbid("art", Permission.ATTACH_FILES)
    assert await outcome(served, job, outcomes) == "sent_directly"
    (message,) = await direct(mina)
    assert message["attachments"]
    assert "could no longer be shown" in text_of(message)


async def test_without_any_right_and_with_closed_direct_messages_the_refusal_is_stored(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any, tmp_path: Path
) -> None:
    _, job = await ask(mina, served.store)
    forget_message(tmp_path)
    sandbox.misbehave(expire_tokens=True)
    sandbox.forbid("art", Permission.SEND_MESSAGES)
    await mina.accept_dms(False)
    assert await outcome(served, job, outcomes) == "no_permission"
    assert await direct(mina) == []


async def test_closed_direct_messages_end_a_delivery_without_retries(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any, tmp_path: Path
) -> None:
    _, job = await ask(mina, served.store, channel="dm")
    forget_message(tmp_path)
    sandbox.misbehave(expire_tokens=True)
    await mina.accept_dms(False)
    assert await outcome(served, job, outcomes) == "direct_closed"


async def test_an_archived_thread_is_unarchived_by_the_result(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    sandbox.open_thread("art", "sketches")
    queued, job = await ask(mina, served.store, channel="sketches")
    sandbox.archive("sketches")
    assert await outcome(served, job, outcomes) == "sent"
    shown = [message for message in await mina.messages("sketches") if message["attachments"]]
    assert [message["id"] == queued["id"] for message in shown] == [False]
    assert (await served.store.jobs.get(job.id)).message_id == int(shown[0]["id"])


async def test_the_result_of_a_locked_thread_is_a_direct_message(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    sandbox.open_thread("art", "sketches")
    _, job = await ask(mina, served.store, channel="sketches")
    sandbox.archive("sketches", locked=True)
    assert await outcome(served, job, outcomes) == "sent_directly"
    assert len(await direct(mina)) == 1


async def test_an_expired_token_is_tried_only_once(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    queued, job = await ask(mina, served.store)
    sandbox.misbehave(expire_tokens=True)
    (claim,) = await served.store.leases.claim("test", limit=1, ttl=60.0)
    for step in (3, 9):
        await served.store.leases.heartbeat({claim: step}, ttl=60.0)
        await mina.wait_for_message(lambda message, step=step: f"step {step} of" in text_of(message))
    await served.store.leases.give_back(claim)
    assert await outcome(served, job, outcomes) == "edited"
    assert sandbox.invalid_requests == 1
    assert (await mina.messages())[0]["id"] == queued["id"]


async def test_a_long_retry_after_delays_deliveries_without_requests_meanwhile(
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any
) -> None:
    queued, job = await ask(mina, served.store)
    sandbox.misbehave(expire_tokens=True)
    sandbox.misbehave(rest_429=1, on=f"/channels/{queued['channel_id']}/messages/", retry_after=3600.0)
    await served.paint(job.id)

    async def put_off() -> bool:
        return not await undelivered(served.store, limit=9)

    await until(put_off)
    asked = sandbox.invalid_requests
    _, other = await ask(mina, served.store)
    sandbox.misbehave(expire_tokens=True)
    await served.paint(other.id)
    await until(put_off)
    assert outcomes() == []
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
    served: Served, sandbox: Sandbox, mina: Member, outcomes: Any, page: tuple[int, str]
) -> None:
    status, where = page
    queued, job = await ask(mina, served.store)
    if where == "/channels/":
        sandbox.misbehave(expire_tokens=True)
    sandbox.misbehave(pages=1, page_status=status, on=where)
    assert await outcome(served, job, outcomes) == "edited"
    (message,) = await mina.messages()
    assert (message["id"], len(message["attachments"])) == (queued["id"], 1)


async def test_a_content_that_discord_refuses_is_reported_in_the_message(
    *,
    lenient: Sandbox,
    store: Store,
    artifacts: Artifacts,
    discord_address: object,
    outcomes: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        Member(lenient.address, "Mina") as mina,
        serving(lenient, store, artifacts, Config()) as served,
    ):
        queued, job = await ask(mina, store)
        monkeypatch.setattr("bot.delivery.result.MAX_ALT", 5000)
        with sqlite3.connect(tmp_path / "queue.sqlite3") as database:
            database.execute("UPDATE jobs SET recipe = replace(recipe, ?, ?)", (PROMPT, "heart" * 300))
        database.close()
        assert await outcome(served, job, outcomes) == "rejected"
        (message,) = await mina.messages()
    assert message["id"] == queued["id"]
    assert text_of(message) == "Discord did not take this picture. Press Again, or tell the bot's owner."
    (violation,) = lenient.violations
    assert "50035" in violation


def forget_message(folder: Path) -> None:
    """Delete the message's id, as after a crash before it was stored."""
    with sqlite3.connect(folder / "queue.sqlite3") as database:
        database.execute("UPDATE jobs SET message_id = NULL, token_expires_at = 0")
    database.close()
