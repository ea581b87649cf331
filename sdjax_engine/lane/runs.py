"""Runs: the calls of their programs, evaluation by evaluation where the host counts, and their end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Program
from sdjax_engine.compiling.per_device import PerDevice, Shares
from sdjax_engine.denoising.state import SamplerState, SeatState
from sdjax_engine.denoising.traced import WithLoras
from sdjax_engine.lane.rows import (
    Layout,
    Occupants,
    ProgramForm,
    SeatGrid,
    Spans,
    Stretch,
    chosen,
    lay_out,
    stretches,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Devices that make the evaluations of a stretch with the same program."""

    program: Program
    form: ProgramForm
    devices: Collection[int]
    layout: Layout
    every_row: bool

    def arguments(self, parameters: WithLoras, turn: int) -> tuple[Any, ...]:
        """Return the arguments before and after the seats' state, for a turn of the host."""
        unet, bank = parameters
        seats, rows, start, stop = self.layout
        of_seats: tuple[Any, ...] = start + np.int32(turn), stop
        if not self.every_row:
            of_seats = seats, rows, *of_seats
        return (unet, bank if self.form.loras else {}), *of_seats


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """A stretch of a run, of `length` evaluations, and the parts that make it at the same time."""

    length: int
    parts: Sequence[Part]

    @property
    def rows(self) -> int:
        """How many rows each device computes in an evaluation, at most."""
        return max(part.form.rows for part in self.parts)


def calls_of(
    spans: Spans, programs: Mapping[ProgramForm, Program], occupants: Occupants, grid: SeatGrid
) -> list[Call]:
    """Return the calls of a run in order."""
    adapted = {seat for seat, occupant in occupants.items() if occupant.adapted}
    divided = stretches(spans, occupants) if len(programs) > 1 else []
    return [
        Call(length=stretch.length, parts=parts_of(stretch, programs, adapted, grid))
        for stretch in divided or [Stretch(spans=spans, guided=frozenset(spans))]
    ]


def parts_of(
    stretch: Stretch, programs: Mapping[ProgramForm, Program], adapted: Collection[int], grid: SeatGrid
) -> list[Part]:
    """Divide a stretch among the cheapest programs; `adapted` are the seats that use LoRAs."""
    apart = all(isinstance(program, PerDevice) for program in programs.values())
    parts = []
    for form, numbers in chosen(programs, stretch, adapted, grid, apart=apart).items():
        own = {seat: span for seat, span in stretch.spans.items() if grid.device_of(seat) in numbers}
        parts.append(
            Part(
                program=programs[form],
                form=form,
                devices=numbers,
                layout=lay_out(replace(stretch, spans=own), form.rows, grid),
                every_row=form.rows == grid.rows_per_device,
            )
        )
    return parts


def make_turn(
    parts: Sequence[Part], parameters: WithLoras, state: SeatState, turn: int, mesh: Mesh
) -> tuple[SamplerState, jax.Array]:
    """Queue the programs of all parts of a stretch for a turn of the host.

    Returns the sampler's state, which replaces that of `state`, and an array that is ready after the turn.
    """
    if len(parts) == 1:
        of_model, *of_rows = parts[0].arguments(parameters, turn)
        alone: tuple[SamplerState, jax.Array] = parts[0].program(of_model, *state, *of_rows)
        return alone
    shares, made = [Shares.of(tree, mesh) for tree in state], Shares()
    for part in parts:
        of_model, *of_rows = part.arguments(parameters, turn)
        assert isinstance(part.program, PerDevice), "only devices with programs of their own differ"
        made |= part.program.on(part.devices, of_model, *shares, *of_rows)
    together: tuple[SamplerState, jax.Array] = made.together(mesh)
    return together


def are_ready(arrays: Iterable[jax.Array | None]) -> bool:
    """Whether the devices have made these arrays, so that reading them waits for nothing.

    None and deleted arrays count as ready. JAX 0.10.2 crashes if `is_ready` of a deleted array is called.
    """
    known: list[Any] = [each for each in arrays if each is not None]  # the stub leaves `is_ready` out
    return all(each.is_deleted() or each.is_ready() for each in known)


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run that was queued on the devices, with programs of at most so many `rows` on each."""

    done: jax.Array = field(repr=False)
    rows: int

    @property
    def ready(self) -> bool:
        """Whether the devices have finished it, so that `wait` returns at once."""
        return are_ready([self.done])

    def wait(self) -> None:
        """Return when the devices have finished it; raises their error."""
        np.asarray(self.done)
