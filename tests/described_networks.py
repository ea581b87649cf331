"""Networks described once in a process: tests load checkpoints of few forms many times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import jax.numpy as jnp
from jax.typing import DTypeLike

from sdjax_engine.weights import networks


@contextmanager
def networks_described_once() -> Iterator[None]:
    """Let checkpoints of one class, configuration and dtype share the description of their network.

    A description has no memory for parameters, and nothing but the guide's pipelines changes it. Making one
    takes most of the time in which a tiny checkpoint loads.
    """
    describe = networks.described
    known: dict[tuple[str, str, str], Any] = {}

    def described(model: str, config: Mapping[str, Any], dtype: DTypeLike) -> Any:
        key = model, json.dumps(config, sort_keys=True), str(jnp.dtype(dtype))
        if key not in known:
            known[key] = describe(model, config, dtype)
        return known[key]

    with patch.object(networks, "described", described):
        yield
