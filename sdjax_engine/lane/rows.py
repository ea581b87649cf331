"""Which rows a run computes on each device, and which of a lane's programs computes them; pure policy.

A program computes a fixed number of rows, and is told the seats of its rows. On a device with fewer pictures
than rows, the rows that are left over are those of other seats, which stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Spans = Mapping[int, tuple[int, int]]
"""The evaluations of a run, from start up to, not including, stop, by seat."""


@dataclass(frozen=True, kw_only=True, order=True)
class ProgramForm:
    """How many rows a program computes on each device, and whether its pictures may use LoRAs.

    Forms are ordered by their cost.
    """

    rows: int
    loras: bool

    def __str__(self) -> str:
        """Return the form for the report: "1 row", "4 rows without LoRAs"."""
        return f"{'1 row' if self.rows == 1 else f'{self.rows} rows'}{'' if self.loras else ' without LoRAs'}"


class Rows(NamedTuple):
    """The rows of all devices: each row's seat, counted from its device's first seat, and its evaluations."""

    seats: npt.NDArray[np.int32]  # (devices · rows,), ascending on each device
    start: npt.NDArray[np.int32]  # (devices · rows,)
    stop: npt.NDArray[np.int32]  # (devices · rows,)


def further_forms(seats: int, *, loras: bool) -> list[ProgramForm]:
    """Return the forms of a lane with so many seats on each device, the cheapest first.

    They are powers of two and the number of seats, with and without LoRAs where `loras` adapt the UNet. The
    form that suits every run is left out.
    """
    sizes = [2**power for power in range(seats.bit_length()) if 2**power < seats] + [seats]
    forms = [
        ProgramForm(rows=rows, loras=each) for rows in sizes for each in ((False, True) if loras else (True,))
    ]
    return forms[:-1]


def chosen(
    ready: Collection[ProgramForm],
    seats: Iterable[int],
    adapted: Collection[int],
    *,
    devices: int,
    seats_per_device: int,
    apart: bool,
) -> dict[ProgramForm, list[int]]:
    """Return the cheapest forms for a run of these seats, and the devices of each form.

    The pictures in the seats `adapted` use LoRAs. Devices that are not `apart` share one program.
    """
    own = list(seats)
    counts = Counter(seat // seats_per_device for seat in own)
    with_loras = {seat // seats_per_device for seat in own if seat in adapted}
    found: dict[ProgramForm, list[int]] = {}
    for group in [[device] for device in range(devices)] if apart else [list(range(devices))]:
        rows, loras = max(counts[device] for device in group), not with_loras.isdisjoint(group)
        form = min(form for form in ready if form.rows >= rows and form.loras >= loras)
        found.setdefault(form, []).extend(group)
    return found


def lay_out(spans: Spans, *, rows: int, devices: int, seats_per_device: int) -> Rows:
    """Return the rows of a program of so many rows for these spans.

    A device with more spans than rows has its first ones, a device with fewer has rows of its first other
    seats, which make no evaluations.
    """
    start, stop = (np.zeros(devices * seats_per_device, np.int32) for _ in range(2))
    idle = np.ones(devices * seats_per_device, np.bool_)
    for seat, span in spans.items():
        (start[seat], stop[seat]), idle[seat] = span, False
    order = np.argsort(idle.reshape(devices, seats_per_device), axis=1, kind="stable")
    seats = np.sort(order[:, :rows], axis=1).astype(np.int32)
    of_all = (seats + np.arange(devices)[:, None] * seats_per_device).reshape(-1)
    return Rows(seats=seats.reshape(-1), start=start[of_all], stop=stop[of_all])
