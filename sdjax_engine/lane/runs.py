"""The calls of a run's programs: each device's own rows, evaluation by evaluation where the host counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Program
from sdjax_engine.compiling.per_device import PerDevice, Shares
from sdjax_engine.denoising.state import SamplerState, SeatState
from sdjax_engine.denoising.traced import WithLoras
from sdjax_engine.lane.rows import ProgramForm, Rows, Spans, chosen, lay_out
from sdjax_engine.memory import devices


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Devices that make a run's evaluations with the same program."""

    program: Program
    form: ProgramForm
    devices: Collection[int]
    rows: Rows
    every_seat: bool

    def arguments(self, parameters: WithLoras, turn: int) -> tuple[Any, ...]:
        """Return the parameters, and the arguments behind the seats' state, for a turn of the host."""
        unet, bank = parameters
        seats, start, stop = self.rows
        of_rows: tuple[Any, ...] = start + np.int32(turn), stop
        if not self.every_seat:
            of_rows = seats, *of_rows
        return (unet, bank if self.form.loras else {}), *of_rows


def parts_of(
    spans: Spans,
    programs: Mapping[ProgramForm, Program],
    adapted: Collection[int],
    *,
    mesh: Mesh,
    seats_per_device: int,
) -> list[Part]:
    """Divide a run of these spans among the cheapest programs; `adapted` are the seats that use LoRAs."""
    count = devices.device_count(mesh)
    forms = chosen(
        *(programs, spans, adapted),
        devices=count,
        seats_per_device=seats_per_device,
        apart=all(isinstance(program, PerDevice) for program in programs.values()),
    )
    parts = []
    for form, numbers in forms.items():
        own = {seat: span for seat, span in spans.items() if seat // seats_per_device in numbers}
        parts.append(
            Part(
                program=programs[form],
                form=form,
                devices=numbers,
                rows=lay_out(own, rows=form.rows, devices=count, seats_per_device=seats_per_device),
                every_seat=form.rows == seats_per_device,
            )
        )
    return parts


def make_turn(
    parts: list[Part], parameters: WithLoras, state: SeatState, turn: int, mesh: Mesh
) -> tuple[SamplerState, jax.Array]:
    """Queue the programs of every part for a turn of the host.

    Returns the sampler's state, which replaces that of `state`, and what ends with the turn.
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
