"""The equations of a traced function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.extend.core import jaxprs_in_params


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation, those of loops and branches included."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)
