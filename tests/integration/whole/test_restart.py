"""The shipped process on the sandbox's address: shut down, killed and restarted."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from processes import BOT, SLOW_BOT, START, Bot, end, finished, running, sentences, start
from results import shows_result

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox

Message = dict[str, Any]
JOBS = 3
LONG = {"steps": 24, "variants": 3}
START_SECONDS = 200.0


def change(file: Path, before: str, after: str) -> None:
    file.write_text(file.read_text().replace(before, after, 1))


async def connected(sandbox: Sandbox) -> None:
    """Wait until a bot is connected; it has registered its commands by then."""
    async with asyncio.timeout(START_SECONDS):
        while not sandbox.connected:  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.05)


def with_pictures(messages: list[Message]) -> list[Message]:
    return [message for message in messages if shows_result(message)]


async def delivered(member: Member, count: int) -> list[Message]:
    """Wait for `count` messages with pictures."""

    def enough(messages: list[Message]) -> list[Message] | None:
        shown = with_pictures(messages)
        return shown if len(shown) >= count else None

    return await member.wait_for(enough, timeout=START_SECONDS)


async def accepted(member: Member, prompt: str, interactions: list[str]) -> None:
    """Ask for a picture; return once the bot has answered that it is queued."""
    interactions.append(await member.imagine(prompt=prompt, **LONG))
    await member.message_of(interactions[-1])


def assert_each_once(messages: list[Message], interactions: list[str]) -> None:
    """Assert that every interaction has one message, and every message one picture."""
    answered = Counter(message["interaction_metadata"]["id"] for message in messages)
    assert answered == Counter(interactions)
    assert [len(message["attachments"]) for message in messages] == [1] * len(messages)


@pytest.mark.slow
async def test_after_a_shutdown_and_after_a_kill_every_result_is_delivered_once(
    sandbox: Sandbox, config: Path
) -> None:
    async with Member(sandbox.address, "Mina") as mina:
        async with running(config, program=SLOW_BOT) as process:
            await connected(sandbox)
            interactions = [
                await mina.imagine(prompt=f"a blue star {number}", seed=number, **LONG)
                for number in range(2 * JOBS)  # some wait, however late the shutdown begins
            ]
            await delivered(mina, 1)
            await accepted(mina, "a blue star at the last moment", interactions)
            stopped = await end(process, signal.SIGTERM)
        assert stopped.status == 0, stopped.err
        assert "Traceback" not in stopped.err
        shown = len(with_pictures(await mina.messages()))
        assert shown < len(interactions)
        async with running(config, program=SLOW_BOT) as process:
            await delivered(mina, shown + 1)
            interactions += [
                await mina.imagine(prompt=f"a red circle {number}", seed=number, **LONG)
                for number in range(JOBS)
            ]
            for interaction in interactions[-JOBS:]:  # a killed process loses what it has not accepted
                await mina.message_of(interaction)
            await accepted(mina, "a red circle at the last moment", interactions)
            await end(process, signal.SIGKILL)
        assert len(with_pictures(await mina.messages())) < len(interactions)
        async with running(config) as process:
            await delivered(mina, len(interactions))
            stopped = await end(process, signal.SIGINT)
        assert stopped.status == 0, stopped.err
        assert_each_once(await mina.messages(), interactions)


HANGS = (
    """
import sys, threading
from sdjax_engine.scheduler import loop as watch
from sdjax_engine.lane.runs import Run

def hang(run):
    threading.Event().wait()

Run.wait, watch.PATIENCE = hang, 0.0
sys.orig_argv = [sys.executable, "-m", "bot", *sys.argv[1:]]
"""
    + START
)
"""A bot on devices that hang; it restarts as the shipped command."""


@pytest.mark.slow
async def test_after_hanging_devices_a_new_process_delivers_once(sandbox: Sandbox, config: Path) -> None:
    change(config, "[engine]", "[engine]\nstuck_seconds = 3.0")
    async with Member(sandbox.address, "Mina") as mina:
        async with running(config, program=("-c", HANGS)) as process:
            await connected(sandbox)
            interactions = [
                await mina.imagine(prompt=f"a green star {number}", seed=number) for number in range(3)
            ]
            await delivered(mina, 3)
            stopped = await end(process, signal.SIGTERM)
        assert stopped.status == 0, stopped.err
        assert stopped.err.count("The bot restarts.") == 1
        assert_each_once(await mina.messages(), interactions)


@pytest.mark.slow
async def test_a_worker_on_hanging_devices_ends_and_the_next_worker_delivers_once(
    sandbox: Sandbox, config: Path
) -> None:
    change(config, "[engine]", "[engine]\nstuck_seconds = 3.0")

    async def started(role: str, name: str, program: Sequence[str] = BOT) -> Bot:
        return await start(
            role, "--config", str(config), err=config.with_suffix(f".{name}.err"), program=program
        )

    async with Member(sandbox.address, "Mina") as mina:
        hanging = await started("worker", "hanging", ("-c", HANGS))
        front = await started("front", "front")
        await connected(sandbox)
        interactions = [
            await mina.imagine(prompt=f"a green star {number}", seed=number) for number in range(3)
        ]
        ended = await end(hanging)
        assert (ended.status, sentences(ended.err)) == (
            75,
            ["sdjax-bot: The devices answer nothing any more."],
        )
        assert with_pictures(await mina.messages()) == []
        worker = await started("worker", "next")
        await delivered(mina, 3)
        for process in (worker, front):
            assert (await end(process, signal.SIGTERM)).status == 0
        assert_each_once(await mina.messages(), interactions)


@pytest.mark.parametrize(
    ("file", "before", "after", "status", "said"),
    [
        ("config.toml", "api_url =", 'api_url = "http://127.0.0.1:9/api/v10" #', 1, "cannot be reached"),
        ("config.toml", "checkpoint =", 'checkpoint = "nothing here" #', 1, "nothing here"),
        ("token", "a-token", "wrong-token", 2, "refuses the token"),
    ],
    ids=["an unreachable Discord", "an unreadable checkpoint", "a wrong token"],
)
async def test_a_start_that_fails_is_one_sentence_and_its_status_says_whether_a_restart_can_help(
    config: Path, file: str, *, before: str, after: str, status: int, said: str
) -> None:
    change(config.parent / file, before, after)
    ended = await finished(config)
    assert ended.status == status, ended.err
    assert len(sentences(ended.err)) == 1
    assert said in ended.err
    assert "Traceback" not in ended.err
