"""A tiny checkpoint, its engine, its compiled programs, and a bot that paints with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from checkpoints import make_tiny_checkpoint
from engines import SMALLEST
from serving import Served, serving

from bot.config import Config, ModelConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.worker.worker import Worker
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.request import Offer, Sampler

OFFER = Offer(
    model="tiny", sizes=((64, 64),), num_inference_steps=4, guidance_scale=5.0, sampler=Sampler.DDIM
)


SMALL = SMALLEST | {"vae": {"block_out_channels": (4,) * 4, "norm_num_groups": 2}}
"""Networks that compile quickly, and whose latents have an eighth of a picture's sides."""


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALL)


@pytest.fixture(scope="session")
def compile_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled programs, shared by all test processes of the run and all processes that they start."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if hasattr(request.config, "workerinput") else mine) / "programs"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def tiny_engine(tiny_checkpoint: Path, compile_cache: Path) -> Iterator[Engine]:
    spec = ModelSpec(offer=OFFER, source=str(tiny_checkpoint))
    config = EngineConfig(models=(spec,), seats_per_device=2, cpu_devices=2, cache_dir=compile_cache)
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        yield engine


@pytest.fixture
async def painting(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, tiny_engine: Engine, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot on the sandbox, and a worker with its engine."""
    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0)
    config = Config(models=(ModelConfig(name="tiny", sizes=("64x64",), num_inference_steps=2),))
    async with serving(sandbox, store, artifacts, config) as served:
        working = asyncio.create_task(worker.run())
        yield served
        worker.drain()
        async with asyncio.timeout(60.0):
            await working
