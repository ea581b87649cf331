"""Newcomers of a lane: their rows for the devices, and their occupants for runs; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.denoising.state import Newcomer
from sdjax_engine.lane.rows import Occupant, SeatGrid, forms_of, place_of
from sdjax_engine.model.prepare import NOT_GUIDED, Prepared

Rows = Newcomer[npt.NDArray[Any]]


def rows_of(wave: Mapping[int, int], newcomers: Mapping[int, Prepared], nobody: Rows, grid: SeatGrid) -> Rows:
    """Return a row for each device: of the newcomer in the seat of the `wave`, or of `nobody`."""
    rows: Rows = jax.tree.map(np.copy, nobody)
    for device, seat in wave.items():
        one = newcomers[seat]
        rows.seat[device] = seat % grid.seats_per_device
        rows.seed[device] = one.request.seed
        for number, variation in enumerate(one.request.variations):
            rows.variation_seeds[device, number] = variation.seed
            rows.variation_strengths[device, number] = variation.strength
        rows.init_noise_sigma[device] = one.init_noise_sigma
        rows.init_latent_scale[device] = one.init_latent_scale
        rows.time_ids[device] = one.time_ids
        rows.lora_rows[device], rows.lora_scales[device] = one.loras
        rows.rows[device] = one.rows
    return rows


def occupant_of(one: Prepared, grid: SeatGrid) -> Occupant:
    """Return what runs must know of a newcomer; in a lane of one text no evaluation is guided."""
    guided = one.guided if grid.halves > 1 else NOT_GUIDED
    if one.programs is None:
        return Occupant(adapted=one.uses_loras, guided=guided)
    return Occupant(
        adapted=one.uses_loras,
        guided=guided,
        wanted=forms_of(one.programs, one.evaluations, grid.suits_all),
        place=place_of(one.programs),
    )
