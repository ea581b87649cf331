"""The trace of a job, from the command to the delivery, at a collector."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from collector import CollectedSpan, Collector, collecting
from results import shows_result
from serving import serving, until, working

from bot.config import Config, ModelConfig
from bot.files.artifacts import Artifacts
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox
from bot.store import Store
from bot.telemetry.otlp import OtlpTracing
from bot.worker.worker import Worker
from sdjax_engine.engine import Engine

PROMPT = "a secret red circle"
SECONDS = 60.0
CONFIG = Config(models=(ModelConfig(name="tiny", sizes=("64x64",), num_inference_steps=2),))
PAINTED = ["prepare", "admit", "denoise", "decode", "judge", "encode", "keep", "record"]


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    async with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield collector


@pytest.fixture
async def worker(
    collector: Collector, store: Store, artifacts: Artifacts, tiny_engine: Engine
) -> AsyncIterator[Worker]:
    """A worker with traces."""
    tracing = OtlpTracing(name="the-worker", role="worker", version="1")
    worker = Worker(tiny_engine, store, artifacts, name="the-worker", lease_seconds=30.0, tracing=tracing)
    async with working(worker):
        yield worker
    await tracing.close()


@pytest.fixture
async def front(
    collector: Collector, sandbox: Sandbox, store: Store, artifacts: Artifacts
) -> AsyncIterator[None]:
    """A front with traces."""
    tracing = OtlpTracing(name="the-front", role="front", version="1")
    async with serving(sandbox, store, artifacts, CONFIG, name="the-front", tracing=tracing):
        yield
    await tracing.close()


@pytest.fixture
async def spans(front: None, worker: Worker, mina: Member, collector: Collector) -> list[CollectedSpan]:
    """All spans of a job of two images, in the order of their beginnings."""
    asked = await mina.imagine(prompt=PROMPT, variants=2)
    await mina.message_of(asked, shows_result, timeout=SECONDS)

    async def arrived() -> bool:
        names = [span.name for span in collector.spans]
        return names.count("paint") == 2 and {"imagine", "deliver"} <= set(names)

    await until(arrived)
    (trace,) = collector.traces().values()
    return trace


def inside(spans: list[CollectedSpan], parent: CollectedSpan) -> list[str]:
    return [span.name for span in spans if span.parent == parent.id]


async def test_a_job_has_one_trace_from_the_command_to_the_delivery(spans: list[CollectedSpan]) -> None:
    (root,) = [span for span in spans if not span.parent]
    (deliver,) = [span for span in spans if span.name == "deliver"]
    assert [root.name, root.process, deliver.process] == ["imagine", "the-front", "the-front"]
    of_front = ["acknowledge", "check", "enqueue", "announce", "deliver"]
    assert sorted(inside(spans, root)) == sorted([*of_front, "queue", "queue", "paint", "paint"])
    assert inside(spans, deliver) == ["files", "send", "record"]
    for paint in [span for span in spans if span.name == "paint"]:
        assert paint.process == "the-worker"
        assert inside(spans, paint) == PAINTED
    assert all(span.began <= span.ended for span in spans)


async def test_a_trace_says_what_was_painted_and_nothing_of_its_person(
    spans: list[CollectedSpan], collector: Collector
) -> None:
    job = {span.attributes["sdjax.job"] for span in spans if "sdjax.job" in span.attributes}
    assert len(job) == 1
    paint = next(span for span in spans if span.name == "paint")
    said = {"lane": "tiny:64x64:guided", "model": "tiny", "steps": 2, "seats": 4, "end": "painted"}
    assert {f"sdjax.{name}": value for name, value in said.items()}.items() <= paint.attributes.items()
    sent = b"".join(collector.bodies)
    assert not [words for words in (PROMPT, "Mina", "a-token") if words.encode() in sent]
