"""Runs: which rows they compute on each device and by which program, the calls of the programs, their end.

A row is one text of one seat, and costs one evaluation of the network: a picture whose evaluation is guided
has two, another picture one. A program computes a fixed number of rows, and is told which. Its spare rows
repeat another row. It works on a fixed number of seats; its spare seats stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Program
from sdjax_engine.compiling.per_device import PerDevice, Shares
from sdjax_engine.denoising.evaluations import OfEvaluations
from sdjax_engine.denoising.state import Newcomer, SamplerState, SeatState
from sdjax_engine.model.prepare import NOT_GUIDED, Prepared

Newcomers = Newcomer[npt.NDArray[Any]]
"""The inputs of one newcomer for each device."""

Spans = Mapping[int, tuple[int, int]]
"""The evaluations of a run, from start up to, not including, stop, by seat."""


@dataclass(frozen=True, kw_only=True, order=True)
class ProgramForm:
    """How many rows a program computes on each device, and whether its pictures may use LoRAs.

    With `control` all its pictures have control pictures of one ControlNet, without it none has; `image` says
    the same of image prompts. Forms are ordered by their cost.
    """

    rows: int
    loras: bool
    control: bool = False
    image: bool = False

    def __str__(self) -> str:
        """Return the form for the report, as "1 row" or "4 rows without LoRAs"."""
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{rows}{'' if self.loras else ' without LoRAs'}{self.given}"

    @property
    def given(self) -> str:
        """The pictures that its pictures are given, for the report."""
        kinds = ["a control picture"] * self.control + ["an image prompt"] * self.image
        return f" with {' and '.join(kinds)}" if kinds else ""


class RowIndices(NamedTuple):
    """The rows of all devices and the seats of these rows; both are counted from the device's first."""

    seats: npt.NDArray[np.int32]  # (devices · seats,), ascending on each device
    rows: npt.NDArray[np.int32]  # (devices · rows,), each seat · halves + half
    start: npt.NDArray[np.int32]  # (devices · seats,)
    stop: npt.NDArray[np.int32]  # (devices · seats,)


@dataclass(frozen=True, kw_only=True)
class SeatGrid:
    """The seats of a lane: how many devices, seats on each device, and texts of each seat."""

    devices: int
    seats_per_device: int
    halves: int

    @property
    def rows_per_device(self) -> int:
        """How many rows all seats of a device have together."""
        return self.seats_per_device * self.halves

    def device_of(self, seat: int) -> int:
        """Return the device that a seat is on."""
        return seat // self.seats_per_device

    def waves(self, seats: Iterable[int]) -> list[dict[int, int]]:
        """Divide seats into waves of at most one for each device: device → seat."""
        waves: list[dict[int, int]] = []
        for seat in seats:
            device = self.device_of(seat)
            wave = next((wave for wave in waves if device not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[device] = seat
        return waves

    def suits_all(self, *, control: bool = False, image: bool = False) -> ProgramForm:
        """Return the form that suits every run without given pictures.

        With `control` it suits runs with those of one ControlNet, with `image` runs with image prompts.
        """
        return ProgramForm(rows=self.rows_per_device, loras=True, control=control, image=image)

    def all_suits(self, *, control: bool, image: bool) -> list[ProgramForm]:
        """Return the forms of `suits_all` of a model with ControlNets (`control`) and image prompts."""
        return [
            self.suits_all(control=with_control, image=with_image)
            for with_control in ((False, True) if control else (False,))
            for with_image in ((False, True) if image else (False,))
        ]

    def further_forms(self, *, loras: bool, control: bool = False, image: bool = False) -> list[ProgramForm]:
        """Return the other forms, the cheapest first.

        Their numbers of rows are the powers of two and all rows, with and without LoRAs if `loras` adapt the
        denoiser. If the model has ControlNets, those with `control` follow, then those with an `image`
        prompt, all of them with LoRAs. Pictures with both have one program, which suits all.
        """
        most = self.rows_per_device
        sizes = [2**power for power in range(most.bit_length()) if 2**power < most] + [most]
        with_or_without = (False, True) if loras else (True,)
        plain = [ProgramForm(rows=rows, loras=each) for rows in sizes for each in with_or_without][:-1]
        with_control = [ProgramForm(rows=rows, loras=True, control=True) for rows in sizes if control][:-1]
        with_image = [ProgramForm(rows=rows, loras=True, image=True) for rows in sizes if image][:-1]
        return [*plain, *with_control, *with_image]


@dataclass(frozen=True, kw_only=True, eq=False)
class Occupant:
    """What runs must know of the picture in a seat.

    `adapted` says that it uses LoRAs, `guided` of each evaluation whether it is guided; later evaluations are
    not. The ControlNet called `controlnet` holds it from the first up to, not including, the second of the
    evaluations `controlled`. `prompted` says that a picture is its prompt, in all evaluations.
    """

    adapted: bool = False
    prompted: bool = False
    controlnet: str = ""
    controlled: tuple[int, int] = (0, 0)
    guided: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def is_guided(self, evaluation: int) -> bool:
        """Whether an evaluation needs the row of the negative prompt."""
        return evaluation < len(self.guided) and bool(self.guided[evaluation])


NOBODY = Occupant()
Occupants = Mapping[int, Occupant]
"""The pictures by their seats."""


def newcomers_by_device(
    wave: Mapping[int, int], newcomers: Mapping[int, Prepared], nobody: Newcomers, grid: SeatGrid
) -> Newcomers:
    """Return the inputs of each device: of the newcomer in the seat of the `wave`, or of `nobody`."""
    inputs: Newcomers = jax.tree.map(np.copy, nobody)
    for device, seat in wave.items():
        one = newcomers[seat]
        inputs.seat[device] = seat % grid.seats_per_device
        inputs.seed[device] = one.request.seed
        for number, variation in enumerate(one.request.variations):
            inputs.variation_seeds[device, number] = variation.seed
            inputs.variation_strengths[device, number] = variation.strength
        inputs.init_noise_sigma[device] = one.init_noise_sigma
        inputs.init_latent_scale[device] = one.init_latent_scale
        for rows, of_one in zip(inputs.loras, one.loras, strict=True):
            rows[device] = of_one
        inputs.rows[device] = one.rows
    return inputs


def occupant_of(one: Prepared, grid: SeatGrid) -> Occupant:
    """Return what runs must know of a newcomer; in a lane of one text no evaluation is guided."""
    _, lora_scales = one.loras
    control = one.control
    return Occupant(
        adapted=bool(lora_scales.any()),
        guided=one.guided if grid.halves > 1 else NOT_GUIDED,
        controlnet="" if control is None else control.controlnet,
        controlled=(0, 0) if control is None else (control.first, control.end),
        prompted=one.image_prompt is not None,
    )


class Given(NamedTuple):
    """The pictures that evaluations are given: of which ControlNet, "" for none, and whether one prompts."""

    controlnet: str = ""
    image: bool = False


def phases(spans: Spans, occupants: Occupants) -> list[tuple[Given, Spans]]:
    """Divide a run by the given pictures: which, and the evaluations of each seat, in order.

    A seat makes its evaluations before, with and after its control picture in this order. Seats of different
    ControlNets, and seats with and without an image prompt, are never computed together.
    """
    found: dict[tuple[int, Given], dict[int, tuple[int, int]]] = {}
    for seat, (start, stop) in spans.items():
        occupant = occupants.get(seat, NOBODY)
        first, end = occupant.controlled if occupant.controlnet else (stop, stop)
        parts = (
            ("", start, min(stop, first)),
            (occupant.controlnet, max(start, first), min(stop, end)),
            ("", max(start, end), stop),
        )
        for place, (net, begin, until) in enumerate(parts):
            if begin < until:
                found.setdefault((place, Given(net, occupant.prompted)), {})[seat] = begin, until
    ordered = sorted(found.items(), key=lambda each: each[0][0])
    return [(given, part) for (_, given), part in ordered]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Consecutive evaluations of a run during which the same seats are `guided`."""

    spans: Spans
    guided: frozenset[int] = frozenset()

    @property
    def length(self) -> int:
        """How many evaluations the longest span has."""
        return max((stop - start for start, stop in self.spans.values()), default=0)

    def rows_of(self, seat: int, halves: int) -> range:
        """Return the rows of a seat, each seat · halves + half."""
        end = (seat + 1) * halves
        return range(end - (halves if seat in self.guided else 1), end)


def stretches(spans: Spans, occupants: Occupants) -> list[Stretch]:
    """Divide a run into stretches, one after another: one ends where a seat ends or its guidance changes."""
    longest = max((stop - start for start, stop in spans.values()), default=0)
    found = []
    for guidance, alike in groupby(range(longest), lambda offset: guidance_at(offset, spans, occupants)):
        offsets = list(alike)
        parts = {
            seat: (spans[seat][0] + offsets[0], min(spans[seat][1], spans[seat][0] + offsets[-1] + 1))
            for seat in guidance
        }
        found.append(
            Stretch(spans=parts, guided=frozenset(seat for seat, guided in guidance.items() if guided))
        )
    return found


def guidance_at(offset: int, spans: Spans, occupants: Occupants) -> dict[int, bool]:
    """Return the seats that make an evaluation at this offset of a run, and whether it is guided."""
    return {
        seat: seat in occupants and occupants[seat].is_guided(start + offset)
        for seat, (start, stop) in spans.items()
        if start + offset < stop
    }


def chosen(
    ready: Collection[ProgramForm], stretch: Stretch, adapted: Collection[int], grid: SeatGrid, *, apart: bool
) -> dict[ProgramForm, list[int]]:
    """Return the devices of each form: the cheapest form that suits them.

    The pictures in the seats `adapted` use LoRAs. Devices that are not `apart` share one program.
    """
    counts: Counter[int] = Counter()
    for seat in stretch.spans:
        counts[grid.device_of(seat)] += len(stretch.rows_of(seat, grid.halves))
    with_loras = {grid.device_of(seat) for seat in stretch.spans if seat in adapted}
    found: dict[ProgramForm, list[int]] = {}
    for group in [[device] for device in range(grid.devices)] if apart else [list(range(grid.devices))]:
        rows, loras = max(counts[device] for device in group), not with_loras.isdisjoint(group)
        form = min(form for form in ready if form.rows >= rows and form.loras >= loras)
        found.setdefault(form, []).extend(group)
    return found


def row_indices(stretch: Stretch, rows: int, grid: SeatGrid) -> RowIndices:
    """Return the layout of a program of so many rows on each device.

    Of each device it has as many seats as rows, at most all seats: those of the stretch, then the first other
    seats, which make no evaluations. Spare rows repeat the last text of the first of these seats. If a device
    has more rows in the stretch, only the first ones are laid out.
    """
    count = min(rows, grid.seats_per_device)
    seats, texts = [], []
    for device in range(grid.devices):
        first = device * grid.seats_per_device
        running = sorted(seat for seat in stretch.spans if grid.device_of(seat) == device)[:count]
        others = (seat for seat in range(first, first + grid.seats_per_device) if seat not in running)
        computed = sorted([*running, *islice(others, count - len(running))])
        needed = [row for seat in running for row in stretch.rows_of(seat, grid.halves)][:rows]
        spare = (computed[0] + 1) * grid.halves - 1
        seats.append(computed)
        texts.append([row - first * grid.halves for row in (*needed, *[spare] * (rows - len(needed)))])
    of_all = np.array(seats, np.int32)
    spans = np.array([[stretch.spans.get(seat, (0, 0)) for seat in computed] for computed in seats], np.int32)
    return RowIndices(
        seats=(of_all - np.arange(grid.devices, dtype=np.int32)[:, None] * grid.seats_per_device).ravel(),
        rows=np.array(texts, np.int32).ravel(),
        start=spans[..., 0].ravel(),
        stop=spans[..., 1].ravel(),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class DeviceGroup:
    """Devices that make the evaluations of a stretch with the same program."""

    program: Program
    form: ProgramForm
    devices: Collection[int]
    indices: RowIndices
    every_row: bool

    def arguments(self, parameters: OfEvaluations, turn: int) -> tuple[Any, ...]:
        """Return the arguments before and after the seats' state, for a turn of the host."""
        network, bank = parameters.denoiser
        seats, rows, start, stop = self.indices
        of_seats: tuple[Any, ...] = start + np.int32(turn), stop
        if not self.every_row:
            of_seats = seats, rows, *of_seats
        return parameters._replace(denoiser=(network, bank if self.form.loras else {})), *of_seats


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """A stretch of a run, of `length` evaluations; each group of devices makes it for its own seats.

    All its evaluations have the same `given` pictures.
    """

    length: int
    given: Given
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
    found = []
    for given, part in phases(spans, occupants) or [(Given(), spans)]:
        wanted = bool(given.controlnet), given.image
        suited = {form: each for form, each in programs.items() if (form.control, form.image) == wanted}
        divided = stretches(part, occupants) if len(suited) > 1 else []
        found += [
            Call(length=stretch.length, given=given, groups=groups_of(stretch, suited, adapted, grid))
            for stretch in divided or [Stretch(spans=part, guided=frozenset(part))]
        ]
    return found


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
    groups: Sequence[DeviceGroup], parameters: OfEvaluations, state: SeatState, turn: int, mesh: Mesh
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
