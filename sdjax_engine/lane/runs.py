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
    Occupants,
    ProgramForm,
    RowIndices,
    SeatGrid,
    Spans,
    Stretch,
    chosen,
    row_indices,
    stretches,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceGroup:
    """Devices that make the evaluations of a stretch with the same program."""

    program: Program
    form: ProgramForm
    devices: Collection[int]
    indices: RowIndices
    every_row: bool

    def arguments(self, parameters: WithLoras, turn: int) -> tuple[Any, ...]:
        """Return the arguments before and after the seats' state, for a turn of the host."""
        unet, bank = parameters
        seats, rows, start, stop = self.indices
        of_seats: tuple[Any, ...] = start + np.int32(turn), stop
        if not self.every_row:
            of_seats = seats, rows, *of_seats
        return (unet, bank if self.form.loras else {}), *of_seats


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """A stretch of a run, of `length` evaluations; each group of devices makes it for its own seats."""

    length: int
    groups: Sequence[DeviceGroup]

    @property
    def rows(self) -> int:
        """How many rows each device computes in an evaluation, at most."""
        return max(group.form.rows for group in self.groups)


def calls_of(
    spans: Spans, programs: Mapping[ProgramForm, Program], occupants: Occupants, grid: SeatGrid
) -> list[Call]:
    """Return the calls of a run in order."""
    adapted = {seat for seat, occupant in occupants.items() if occupant.adapted}
    divided = stretches(spans, occupants) if len(programs) > 1 else []
    return [
        Call(length=stretch.length, groups=groups_of(stretch, programs, adapted, grid))
        for stretch in divided or [Stretch(spans=spans, guided=frozenset(spans))]
    ]


def groups_of(
    stretch: Stretch, programs: Mapping[ProgramForm, Program], adapted: Collection[int], grid: SeatGrid
) -> list[DeviceGroup]:
    """Divide a stretch among the cheapest programs; `adapted` are the seats that use LoRAs."""
    apart = all(isinstance(program, PerDevice) for program in programs.values())
    groups = []
    for form, numbers in chosen(programs, stretch, adapted, grid, apart=apart).items():
        spans = {seat: span for seat, span in stretch.spans.items() if grid.device_of(seat) in numbers}
        groups.append(
            DeviceGroup(
                program=programs[form],
                form=form,
                devices=numbers,
                indices=row_indices(replace(stretch, spans=spans), form.rows, grid),
                every_row=form.rows == grid.rows_per_device,
            )
        )
    return groups


def make_turn(
    groups: Sequence[DeviceGroup], parameters: WithLoras, state: SeatState, turn: int, mesh: Mesh
) -> tuple[SamplerState, jax.Array]:
    """Queue the programs of all parts of a stretch for a turn of the host.

    Returns the sampler's state, which replaces that of `state`, and an array that is ready after the turn.
    """
    if len(groups) == 1:
        of_model, *of_rows = groups[0].arguments(parameters, turn)
        alone: tuple[SamplerState, jax.Array] = groups[0].program(of_model, *state, *of_rows)
        return alone
    shares, made = [Shares.of(tree, mesh) for tree in state], Shares()
    for group in groups:
        of_model, *of_rows = group.arguments(parameters, turn)
        assert isinstance(group.program, PerDevice), "only devices with programs of their own differ"
        made |= group.program.on(group.devices, of_model, *shares, *of_rows)
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
