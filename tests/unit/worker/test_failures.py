"""The stored failure of an image, the source of the person's sentence."""

from __future__ import annotations

import pytest

from bot.delivery.result import FAILURES
from bot.domain.errors import MissingArtifact, StoreUnavailable
from bot.worker.ends import failure_of
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
