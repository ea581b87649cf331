"""An offer that no request could be within is refused where it is made."""

from __future__ import annotations

import dataclasses

import pytest
from engines import TINY

from sdjax_engine.request import MAX_STEPS


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": ()},
        {"num_inference_steps": 0},
        {"num_inference_steps": 20, "max_steps": 10},
        {"max_steps": MAX_STEPS + 1},
    ],
)
def test_an_impossible_offer_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^tiny "):
        dataclasses.replace(TINY, **changes)
