"""A tiny checkpoint, its engine, and its compiled programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from checkpoints import make_tiny_checkpoint

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.request import Offer, Sampler

OFFER = Offer(
    model="tiny", sizes=((64, 64),), num_inference_steps=4, guidance_scale=5.0, sampler=Sampler.DDIM
)


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled programs, shared by all processes that the tests start."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def tiny_engine(tiny_checkpoint: Path, compile_cache: Path) -> Iterator[Engine]:
    spec = ModelSpec(offer=OFFER, source=str(tiny_checkpoint))
    config = EngineConfig(models=(spec,), seats_per_device=2, cpu_devices=2, cache_dir=compile_cache)
    with Engine.open(config, report=lambda _line: None) as engine:
        yield engine
