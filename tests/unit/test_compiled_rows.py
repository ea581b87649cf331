"""The table of `benchmarks/compiled.py`: what fits, which seats a start chooses, rows of earlier runs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from compiled_flop import flop_of
from compiled_hlo import Kind, Profile
from compiled_rows import Compiled, Figures, Row, chosen, line_of, usable
from compiled_targets import GIB, TARGETS

SHORTAGE = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm."
GROUP = ("v2", "sd15", 512, True)


def row(seats: int, needed: int, **changes: Any) -> Row:
    """A row for a core of a TPU v2, whose evaluation of all seats lasts 0.1 s and decoding 0.5 s."""
    both = (("sd15:512x512:guided denoise", 0.1), ("sd15:512x512 decode", 0.5))
    programs = tuple(
        Compiled(
            name=name,
            seconds=300.0,
            arguments=GIB,
            temporaries=0,
            outputs=0,
            aliased=0,
            profile=Profile(kinds={"product": Kind(kernels=3, traffic=1e9, flop=2e12)}, seconds=seconds),
        )
        for name, seconds in both
    )
    of_row = Row(
        target="v2",
        checkpoint="sd15",
        size=512,
        guided=True,
        seats=seats,
        steps=5,
        kernel="",
        needed=needed,
        network_flop=1.15e12,
        programs=programs,
    )
    return dataclasses.replace(of_row, **changes)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((row(1, GIB), row(2, 7 * GIB), row(4, 8 * GIB)), {GROUP: 2}),
        ((row(1, GIB), row(2, 2 * GIB), row(4, 3 * GIB)), {GROUP: 4}),
        ((row(1, 8 * GIB), row(2, 9 * GIB), row(4, 0, error=SHORTAGE)), {GROUP: 0}),
        ((row(1, GIB), row(4, 8 * GIB)), {}),
        ((row(4, GIB, whole=False),), {}),
        ((row(4, 0, error="INTERNAL: no such kernel"),), {}),
    ],
    ids=["two fit", "all fit", "none fits", "one is missing", "compiled in part", "not compiled"],
)
def test_a_start_chooses_the_most_seats_that_fit_of_those_it_tries(
    rows: tuple[Row, ...], expected: dict[object, int]
) -> None:
    assert chosen(rows) == expected


def test_a_device_keeps_some_memory_free() -> None:
    limit = usable(TARGETS["v2"])
    assert limit == int(0.94 * 8 * GIB)
    assert (row(1, limit).spare, row(1, limit + GIB).spare) == (0, -GIB)


def test_a_line_has_the_bound_of_a_chip_and_the_share_of_the_network_s_own_operations() -> None:
    """A chip of a v2 has two cores; 1.15 TFLOP in 0.1 s are half of a core's 23 TFLOP/s."""
    cells = line_of(row(1, GIB), 1).split(" | ")
    assert cells[-2:] == ["50%", f"{2 / (5 * 0.1 + 0.5):.2f} |"]
    assert cells[5] == "6.52 left, chosen"


def test_rows_of_earlier_runs_are_kept_and_replaced_by_their_like(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    Figures(file=file).add(row(1, GIB))
    Figures(file=file).add(row(2, GIB))
    Figures(file=file).add(row(1, 3 * GIB))
    assert list(Figures(file=file).rows.values()) == [row(1, 3 * GIB), row(2, GIB)]


def test_the_network_s_operations_are_those_of_its_x() -> None:
    def network(x: jax.Array, y: jax.Array, picture: jax.Array, kernel: jax.Array) -> Any:
        x, _ = jax.lax.scan(lambda each, _: (each @ y, None), x, length=4)
        x = jax.lax.platform_dependent(x, cpu=lambda each: each @ y, default=lambda each: each @ y)
        return x, jax.jit(lambda: jax.lax.conv(picture, kernel, (1, 1), "SAME"))()

    arrays = jnp.ones((8, 16)), jnp.ones((16, 16)), jnp.ones((1, 3, 10, 10)), jnp.ones((6, 3, 3, 3))
    products, convolution = (4 + 1) * 2 * 8 * 16 * 16, 2 * 6 * 10 * 10 * 3 * 3 * 3
    assert flop_of(jax.make_jaxpr(network)(*arrays).jaxpr) == products + convolution
