"""A tiny checkpoint, its engine, its compiled programs, and a bot that paints with it."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkpoints import make_tiny_checkpoint
from engines import SMALLEST
from processes import write_config
from serving import Served, serving, working
from slow_devices import slow_devices

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


SMALL = SMALLEST | {
    "vae": {"block_out_channels": (4,) * 4, "norm_num_groups": 2, "mid_block_add_attention": False}
}
"""Networks that compile quickly, and whose latents have an eighth of a picture's sides."""


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", **SMALL)


@pytest.fixture(scope="session")
def program_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled programs, shared by all test processes of the run."""
    mine = tmp_path_factory.getbasetemp()
    folder = (mine.parent if hasattr(request.config, "workerinput") else mine) / "programs"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def compile_cache(program_folder: Path, tiny_checkpoint: Path) -> Path:
    """The folder with the programs of the tiny checkpoint, which one of the test processes has compiled."""
    with (program_folder.parent / "programs.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the other test processes wait, and load the programs
        file.seek(0)
        if not file.read():
            with tiny(tiny_checkpoint, program_folder):
                file.write("compiled")
    return program_folder


@pytest.fixture(scope="session")
def tiny_engine(tiny_checkpoint: Path, compile_cache: Path) -> Iterator[Engine]:
    with tiny(tiny_checkpoint, compile_cache) as engine:
        yield engine


@pytest.fixture(name="slow_devices")
def _slow_devices() -> Iterator[None]:
    with slow_devices(0.1):
        yield


@contextmanager
def tiny(checkpoint: Path, cache: Path) -> Iterator[Engine]:
    """The engine of the tiny checkpoint, ready."""
    spec = ModelSpec(offer=OFFER, source=str(checkpoint))
    config = EngineConfig(models=(spec,), seats_per_device=2, cpu_devices=2, cache_dir=cache)
    with Engine.open(config, report=lambda _line: None) as engine:
        engine.wait_until_ready()
        yield engine


@pytest.fixture
async def painting(
    sandbox: Sandbox, store: Store, artifacts: Artifacts, tiny_engine: Engine, discord_address: object
) -> AsyncIterator[Served]:
    """The shipped bot on the sandbox, and a worker with its engine."""
    config = Config(models=(ModelConfig(name="tiny", sizes=("64x64",), num_inference_steps=2),))
    worker = Worker(tiny_engine, store, artifacts, name="worker", lease_seconds=30.0)
    async with serving(sandbox, store, artifacts, config) as served, working(worker):
        yield served


@pytest.fixture
def config(sandbox: Sandbox, tmp_path: Path, tiny_checkpoint: Path, compile_cache: Path) -> Path:
    """The file of the configuration of shipped processes."""
    return write_config(
        tmp_path,
        api_url=sandbox.api_url,
        gateway_url=sandbox.gateway_url,
        checkpoint=tiny_checkpoint,
        cache=compile_cache,
    )
