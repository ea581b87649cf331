"""The ends of images: the stored failure, the source of the person's sentence, and those of the last hour."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bot.delivery.result import FAILURES
from bot.domain.errors import MissingArtifact, StoreUnavailable
from bot.store.rows.device_time import Spent
from bot.telemetry.metrics import Metrics
from bot.telemetry.tracing import NO_TRACING
from bot.worker.ends import Ends, failure_of
from bot.worker.held_image import HeldImage
from sdjax_engine.errors import InvalidRequest, PaintingFailed
from sdjax_engine.request import Sampler


def test_an_unsuited_sampler_is_stored_with_the_samplers_that_suit() -> None:
    error = InvalidRequest("unsuited_sampler", value=Sampler.PNDM, model="demo", choices="ddim, euler")
    assert failure_of(error) == "unsuited_sampler: ddim, euler"


@pytest.mark.parametrize("problem", ["lora", "no_loras"])
def test_a_lora_that_is_gone_has_a_failure_of_its_own(problem: str) -> None:
    error = InvalidRequest(problem, value="ink", choices="fog", model="demo")
    assert failure_of(error) == "lora_not_offered"


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("steps", value=200, limit=150),
        InvalidRequest("unsuited_sampler", value=Sampler.PNDM, model="demo", choices="ddim, euler"),
        StoreUnavailable("The disk is full."),
        MissingArtifact("The file to start from is gone."),
        InvalidRequest("lora", value="ink", choices=""),
        InvalidRequest("no_loras", model="demo"),
        PaintingFailed("The devices failed."),
        RuntimeError("unexpected"),
    ],
)
def test_every_failure_has_a_sentence(error: Exception) -> None:
    assert failure_of(error).partition(": ")[0] in FAILURES


def test_a_refused_setting_is_named_to_the_person() -> None:
    failure = failure_of(InvalidRequest("steps", value=60, limit=50))
    assert failure == 'invalid_request: {"problem": "steps", "value": 60, "limit": 50}'


async def test_a_picture_counts_as_one_of_the_last_hour_for_an_hour() -> None:
    now = 0.0
    store: Any = None
    options: Any = {"retry_seconds": 1.0, "accelerator": "cpu", "clock": lambda: now}
    ends = Ends(store, Metrics().worker, NO_TRACING, **options)
    claim: Any = SimpleNamespace(request=SimpleNamespace(model="demo"))

    async def stored(_spent: Spent) -> None:
        """The queue takes every end."""

    counts = []
    for at, event in ((0.0, "painted"), (1800.0, "painted"), (3000.0, "failed"), (3700.0, "painted")):
        now = at
        await ends.record(HeldImage(claim=claim), stored, event)
        counts.append(ends.hourly)
    assert counts == [1, 2, 2, 2]
    now = 9000.0
    assert ends.hourly == 0
