"""/privacy, and servers that remove the bot."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import zipfile
from typing import Any

import aiohttp
import pytest
import sqlalchemy as sa
from front_tools import ephemeral, finished, job_of, queued, refusal, text_of
from results import shows_result
from serving import Served, until

from bot.domain.errors import MissingArtifact
from bot.files.erasure import forget
from bot.front.commands import privacy
from bot.sandbox.client import Member
from bot.sandbox.community import GUILD_ID, PEOPLE
from bot.sandbox.server import Sandbox
from bot.store.tables.queue import jobs

RAVI, OMAR = PEOPLE[1].id, PEOPLE[3].id
Message = dict[str, Any]


async def asked_about(member: Member) -> Message:
    """Return the private answer to /privacy."""
    message = await member.message_of(await member.use("privacy"))
    assert ephemeral(message)
    assert "What is kept about you" in text_of(message)
    return message


async def test_the_export_has_only_the_persons_own_data(served: Served, ravi: Member, omar: Member) -> None:
    await finished(served, omar, "a tree")
    job, _ = await finished(served, ravi, "a boat")
    message = await asked_about(ravi)
    export = await ravi.message_of(await ravi.press(message, "Export"), shows_result)
    assert ephemeral(export)
    assert text_of(export).startswith("1 request of yours is kept.")
    async with aiohttp.ClientSession() as session, session.get(export["attachments"][0]["url"]) as file:
        archive = zipfile.ZipFile(io.BytesIO(await file.read()))
    assert [said["prompt"] for said in json.loads(archive.read("requests.json"))] == ["a boat"]
    assert archive.read(str(job.images[0].artifact)).startswith(b"\x89PNG")


async def exported(member: Member, interaction: str) -> tuple[Message, list[str]]:
    """The answer with a part of the export, and the prompts in it."""
    answer = await member.message_of(interaction, shows_result)
    archive = zipfile.ZipFile(io.BytesIO(await member.attachment_bytes(answer)))
    said = [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("requests")]
    return answer, [request["prompt"] for page in said for request in page]


async def test_what_does_not_fit_into_the_export_is_in_its_next_part(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("boat", "hill"):
        await finished(served, ravi, (f"{word} " * 300).strip())
    limit = 11_000 + served.bot.services.signing.room  # one such request fits
    limited = functools.partial(privacy.export_part, limit=limit)
    monkeypatch.setattr(privacy, "export_part", limited)
    first, prompts = await exported(ravi, await ravi.press(await asked_about(ravi), "Export"))
    assert ephemeral(first)
    assert [prompt[:4] for prompt in prompts] == ["hill"]
    assert text_of(first).startswith(
        "2 requests of yours are kept. 1 request, the oldest, does not fit into this file: "
    )
    second, prompts = await exported(ravi, await ravi.press(first, "Next part"))
    assert (ephemeral(second), [prompt[:4] for prompt in prompts]) == (True, ["boat"])
    assert text_of(second).startswith("2 requests of yours are kept.")
    assert "next part" not in text_of(second)


async def test_an_export_is_made_once_at_a_time_for_a_person(
    served: Served, ravi: Member, omar: Member
) -> None:
    await finished(served, ravi, "a boat")
    asked = await asked_about(ravi)
    async with served.bot.services.exporting:  # another person's is being made
        waiting = await ravi.press(asked, "Export")
        await until(lambda: _true(bool(served.bot.services.being_exported)))
        assert "Your export is being made" in await refusal(ravi, await ravi.press(asked, "Export"))
    assert (await exported(ravi, waiting))[1] == ["a boat"]


async def test_an_export_that_waits_too_long_for_others_says_so(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await asked_about(ravi)
    with monkeypatch.context() as short:
        short.setattr(privacy, "EXPORT_SECONDS", 0.01)
        async with served.bot.services.exporting:
            assert "was not ready in time" in await refusal(ravi, await ravi.press(asked, "Export"))
    assert (await exported(ravi, await ravi.press(asked, "Export")))[1] == []


async def _true(value: bool) -> bool:
    return value


async def test_a_confirmed_deletion_removes_only_the_persons_own_data(
    served: Served, ravi: Member, omar: Member
) -> None:
    _, others = await finished(served, omar, "a tree")
    job, shown = await finished(served, ravi, "a boat")
    waiting = await queued(ravi, "a hill")
    message = await asked_about(ravi)
    await ravi.press(message, "Delete everything")
    question = await ravi.wait_for_message(lambda seen: "This cannot be undone" in text_of(seen))
    assert len(await served.store.erasure.job_ids_of(user_id=RAVI, limit=9)) == 2
    await ravi.press(question, "Delete everything now")
    await ravi.wait_for_message(lambda seen: "2 requests were deleted." in text_of(seen))
    assert await served.store.erasure.job_ids_of(user_id=RAVI, limit=9) == []
    assert len(await served.store.erasure.job_ids_of(user_id=OMAR, limit=9)) == 1
    seen = {message["id"] for message in await omar.messages()}
    assert others["id"] in seen
    assert not {shown["id"], waiting["id"]} & seen
    try:
        await served.artifacts.get(str(job.images[0].artifact))
    except MissingArtifact:
        return
    raise AssertionError("the picture is still there, unless another request shows the very same one")


async def test_messages_that_the_bot_cannot_delete_are_named(
    served: Served, sandbox: Sandbox, ravi: Member
) -> None:
    job, shown = await finished(served, ravi, "a boat")
    message = await asked_about(ravi)
    await ravi.press(message, "Delete everything")
    question = await ravi.wait_for_message(lambda seen: "This cannot be undone" in text_of(seen))
    sandbox.forbid("art")
    await ravi.press(question, "Delete everything now")
    told = await ravi.wait_for_message(lambda seen: "1 request was deleted." in text_of(seen))
    assert f"/{job.origin.channel_id}/{shown['id']}" in text_of(told)


async def test_a_server_that_removes_the_bot_is_noted(served: Served, sandbox: Sandbox, ravi: Member) -> None:
    await finished(served, ravi, "a boat")
    sandbox.kick()

    async def noted() -> bool:
        return await served.store.erasure.departed(before=served.store.clock() + 1) == [GUILD_ID]

    await until(noted)


async def test_a_result_delivered_during_the_deletion_is_deleted_too(
    served: Served, sandbox: Sandbox, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queued(ravi, "a boat")
    job = await job_of(served.store, "a boat")
    async with (
        served.store.shared.database.write() as connection
    ):  # as if the front had died before it noted the message's id
        await connection.execute(sa.update(jobs).values(message_id=None))
    sandbox.misbehave(expire_tokens=True)
    sending, deleted, read = asyncio.Event(), asyncio.Event(), served.artifacts.get

    async def slow(name: str) -> bytes:
        data = await read(name)
        sending.set()
        await deleted.wait()
        return data

    monkeypatch.setattr(served.artifacts, "get", slow)
    await served.paint(job.id)
    await sending.wait()
    await forget(served.store.erasure, served.bot.services.files, user_id=RAVI)
    deleted.set()
    await ravi.wait_for_message(shows_result)

    async def gone() -> bool:
        return not any(message["attachments"] for message in await ravi.messages())

    await until(gone)


async def confirmed(member: Member) -> None:
    """Ask for the deletion of everything, and press the button that does it."""
    await member.press(await asked_about(member), "Delete everything")
    question = await member.wait_for_message(lambda seen: "This cannot be undone" in text_of(seen))
    await member.press(question, "Delete everything now")


async def test_a_deletion_that_outlives_its_token_says_what_came_of_it(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(served, ravi, "a boat")
    remove = privacy.remove_message

    async def long_afterwards(*arguments: Any) -> Any:
        served.sandbox.misbehave(expire_tokens=True)
        return await remove(*arguments)

    monkeypatch.setattr(privacy, "remove_message", long_afterwards)
    await confirmed(ravi)
    await ravi.wait_for_message(lambda seen: "1 request was deleted" in text_of(seen), channel="dm")


async def test_a_deletion_that_was_interrupted_is_completed_by_its_button(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(served, ravi, "a boat")

    async def cut(*_: Any) -> Any:
        raise asyncio.CancelledError

    with monkeypatch.context() as interrupted:
        interrupted.setattr(privacy, "remove_message", cut)
        await confirmed(ravi)
        begun = await ravi.wait_for_message(lambda seen: "is being deleted" in text_of(seen))
    await ravi.press(begun, "Delete everything now")
    await ravi.wait_for_message(lambda seen: "1 request was deleted" in text_of(seen))
    assert await served.store.erasure.job_ids_of(user_id=RAVI, limit=1) == []


async def test_a_second_press_during_a_deletion_takes_nothing_of_its_end(
    served: Served, ravi: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finished(served, ravi, "a boat")
    remove, goes_on = privacy.remove_message, asyncio.Event()

    async def later(*arguments: Any) -> Any:
        await goes_on.wait()
        await remove(*arguments)
        return "https://discord.com/channels/1/2/3"

    monkeypatch.setattr(privacy, "remove_message", later)
    await confirmed(ravi)
    begun = await ravi.wait_for_message(lambda seen: "is being deleted" in text_of(seen))
    await ravi.press(begun, "Delete everything now")
    goes_on.set()
    end = await ravi.wait_for_message(lambda seen: "1 request was deleted" in text_of(seen))
    assert "https://discord.com/channels/1/2/3" in text_of(end)


async def test_a_server_that_has_the_bot_again_is_noted(
    served: Served, sandbox: Sandbox, ravi: Member
) -> None:
    await finished(served, ravi, "a boat")
    sandbox.kick()

    async def noted() -> bool:
        return await served.store.erasure.departed(before=served.store.clock() + 1) == [GUILD_ID]

    await until(noted)
    sandbox.invite()

    async def forgotten() -> bool:
        return await served.store.erasure.departed(before=served.store.clock() + 1) == []

    await until(forgotten)
    await queued(ravi, "a hill")
