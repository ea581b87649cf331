"""SIGHUP to the shipped processes: models and LoRAs come and go, and the commands follow."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import SLOW_BOT, Bot, end, running
from results import shows_result
from safetensors.numpy import load_file, save_file

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store

SECONDS = 200.0
QUERY = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
STAYS = "the configuration stays as it was"


def write_lora(checkpoint: Path, file: Path) -> Path:
    """A LoRA of rank 1 for one layer of the checkpoint."""
    (weights,) = (checkpoint / "unet").glob("*.safetensors")
    out, into = load_file(weights)[f"{QUERY}.weight"].shape
    layer = f"lora_unet_{QUERY.replace('.', '_')}"
    factors = {"lora_down": (1, into), "lora_up": (out, 1)}
    save_file({f"{layer}.{name}.weight": np.ones(shape, np.float32) for name, shape in factors.items()}, file)
    return file


@pytest.fixture
def before(config: Path) -> str:
    return config.read_text()


@pytest.fixture
def changed(config: Path, before: str, tiny_checkpoint: Path) -> str:
    """The configuration with a LoRA, and a model whose sizes and defaults only a worker knows."""
    lora = write_lora(tiny_checkpoint, config.parent / "ink.safetensors")
    models = f"""
        loras = {{ ink = "{lora}" }}
        [[models]]
        name = "second"
        checkpoint = "{tiny_checkpoint}"
        licence = "OpenRAIL"
        [engine]"""
    return before.replace("[engine]", models, 1) + "\n[web]\nport = 9\n"


def reload(config: Path, text: str, *bots: Bot) -> None:
    """Let the processes read this configuration."""
    config.write_text(text)
    for bot in bots:
        bot.process.send_signal(signal.SIGHUP)


async def until(holds: Callable[[], Awaitable[bool]] | Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.05)


def says(bot: Bot, words: str) -> bool:
    return words in bot.err.read_text()


async def offered(member: Member) -> tuple[set[str], bool]:
    """The models that /imagine offers for choice, and whether it takes LoRAs."""
    commands = {each["name"]: each for each in (await member.state())["commands"]}
    options = {each["name"]: each for each in commands.get("imagine", {}).get("options", ())}
    models = options.get("model", {}).get("choices", ())
    return {choice["value"] for choice in models}, "lora" in options


async def painted(member: Member, **options: Any) -> None:
    interaction = await member.imagine(prompt="a red circle", **options)
    await member.message_of(interaction, shows_result, timeout=SECONDS)


async def stopped(*bots: Bot) -> list[str]:
    """Stop the processes, which must end well, and return their logs."""
    ended = [await end(bot, signal.SIGTERM) for bot in bots]
    for each in ended:
        assert each.status == 0, each.err
        assert "Traceback" not in each.err
    return [each.err for each in ended]


@pytest.mark.slow
async def test_a_front_and_a_worker_take_models_and_loras_and_let_them_go(
    sandbox: Sandbox, config: Path, before: str, changed: str
) -> None:
    async with (
        Member(sandbox.address, "Mina") as mina,
        running(config, role="worker", name="worker", program=SLOW_BOT) as worker,
        running(config, role="front", name="front") as front,
    ):
        await until(lambda: bool(sandbox.connected))
        await painted(mina)
        assert await offered(mina) == (set(), False)
        reload(config, changed, front, worker)  # the front first: it waits for the worker's offer

        async def are_offered() -> bool:
            return await offered(mina) == ({"tiny", "second"}, True)

        await until(are_offered)
        await painted(mina, lora="ink:0.5", model="tiny")
        await painted(mina, model="second")
        assert "OpenRAIL" in str(await mina.message_of(await mina.use("help", topic="models")))

        reload(config, "[queue]\nmax_waiting = 0\nlease = 1\n", front, worker)
        for bot in (front, worker):
            await until(partial(says, bot, STAYS))
        await painted(mina, lora="ink", model="tiny")

        waiting = [
            await mina.imagine(prompt="a blue star", model="second", steps=48, variants=9) for _ in range(4)
        ]
        for interaction in waiting:  # accepted now: the front refuses the model after the reload
            await mina.message_of(interaction)
        reload(config, before, front, worker)

        async def are_gone() -> bool:
            return await offered(mina) == (set(), False)

        await until(are_gone)
        await until(lambda: worker.err.read_text().count("the configuration was read again") == 2)
        await painted(mina)
        store = await Store.open(f"sqlite+aiosqlite:///{config.parent}/queue.sqlite3")

        async def second_waits() -> bool:  # the worker announces its lanes with its next heartbeat
            return {lane.partition(":")[0] for lane in await store.offers.unoffered()} == {"second"}

        try:
            await until(second_waits)
        finally:
            await store.close()
        assert not shows_result(await mina.message_of(waiting[-1]))
        for said in await stopped(front, worker):
            assert "queue.max_waiting" in said
            assert "queue.lease: there is no key of this name" in said
            assert said.count("these keys need a restart, and stay as they were: web.port") == 1


@pytest.mark.slow
async def test_the_whole_bot_takes_a_model_and_keeps_painting(
    sandbox: Sandbox, config: Path, changed: str
) -> None:
    async with Member(sandbox.address, "Mina") as mina, running(config, program=SLOW_BOT) as bot:
        await until(lambda: bool(sandbox.connected))
        await painted(mina)
        under_way = [await mina.imagine(prompt="a blue star", steps=24) for _ in range(3)]
        reload(config, changed.replace("loras =", "#"), bot)

        async def is_offered() -> bool:
            return await offered(mina) == ({"tiny", "second"}, False)

        await until(is_offered)
        await painted(mina, model="second")
        for interaction in under_way:
            await mina.message_of(interaction, shows_result, timeout=SECONDS)
        await stopped(bot)
