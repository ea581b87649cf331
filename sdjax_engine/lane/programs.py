"""The compiled programs of one lane: their shapes, how arguments are spread and donated.

`denoising/traced.py` has the functions. They are compiled from shapes: until a program is called, a lane
needs no memory on the devices. The program `encode` belongs to the model (see `model/loaded.py`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import jax
import numpy as np

from sdjax_engine.compiling.compiler import Compiler, Program, code_memory, working_memory
from sdjax_engine.denoising import evaluations, traced
from sdjax_engine.denoising.traced import WithLoras
from sdjax_engine.lane.preview_program import PreviewProgram, compile_previews
from sdjax_engine.lane.rows import ProgramForm
from sdjax_engine.lane.shapes import LaneShapes
from sdjax_engine.memory import devices
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED
from sdjax_engine.memory.ledger import Need


@dataclass(frozen=True, kw_only=True)
class LanePrograms:
    """One lane's compiled programs for a number of seats; without `previews` it makes none."""

    empty: Program
    admit: Program
    denoise: Program
    take: Program
    decode: Program
    previews: PreviewProgram | None = None

    def need(
        self, *later: Program | None, seats: int, decode_in_float32: Program | None, decodes_in_parallel: bool
    ) -> Need:
        """Return the memory of each device for the seats, of so many bytes, and for all programs.

        One program runs at a time; with `decodes_in_parallel` a decoding runs at the same time as another
        program. The output of `empty` is the seats' own memory. `later` and `decode_in_float32` are programs
        that the lane got later.
        """
        previews = None if self.previews is None else self.previews.program
        decoding = loaded(self.decode, decode_in_float32)
        others = loaded(self.admit, self.denoise, self.take, previews, *later)
        most = [max(map(working_memory, programs)) for programs in (decoding, others)]
        code = sum(map(code_memory, {self.empty, *decoding, *others}))
        return Need(held=seats + code, working=sum(most) if decodes_in_parallel else max(most))


def loaded(*programs: Program | None) -> set[Program]:
    """Return those of the programs that there are."""
    return {program for program in programs if program is not None}


@dataclass(kw_only=True)
class LaterPrograms:
    """Programs that a lane may get while it serves requests.

    Without `begin` the lane's pictures start from noise only. `decode_in_float32` decodes a picture again
    whose values were not finite, where that makes a difference. `denoise` has the programs of further forms,
    by the number of seats of each device. No program is removed.
    """

    begin: Program | None = None
    decode_in_float32: Program | None = None
    denoise: dict[int, dict[ProgramForm, Program]] = field(default_factory=dict)


def compile_lane(
    shapes: LaneShapes,
    compiler: Compiler,
    later: LaterPrograms | None = None,
    *,
    previews: bool = False,
    decoded: bool = False,
) -> LanePrograms:
    """Compile the programs of a lane, the slowest to compile in a second thread.

    If `later` is given, its `begin` is compiled too. With `previews` the program of previews is compiled;
    with `decoded` it decodes them.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="compile") as pool:
        denoise = pool.submit(compile_denoise, shapes, compiler)
        if later is not None:
            later.begin = compile_begin(shapes, compiler)
        return LanePrograms(
            empty=compile_empty(shapes, compiler),
            admit=compile_admit(shapes, compiler),
            take=compile_take(shapes, compiler),
            decode=compile_decode(shapes, compiler),
            previews=compile_previews(shapes, compiler, decoded=decoded) if previews else None,
            denoise=denoise.result(),
        )


def compile_begin(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(autoencoder's parameters, pixels, mask, seed) → `StartPicture`."""
    model, lane = shapes.model, shapes.lane
    vae, _ = model.shapes.decoding
    pixels, mask = shapes.pictures
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} begin",
        partial(traced.begin, model.networks, (1, *shapes.latents)),
        *(vae, pixels, mask, shapes.newcomer.seed),
        specs=(REPLICATED, *[BY_SEAT] * 3),
        key=shapes.key,
        apart=True,
        retry_shortage=True,
    )


def compile_empty(shapes: LaneShapes, compiler: Compiler) -> Program:
    """() → `SeatState`."""
    state, seats = shapes.state, shapes.seats_per_device
    return compiler.compile(
        f"{shapes.lane} empty",
        partial(traced.empty, shapes.model.networks, state, seats),
        specs=(),
        key=[shapes.key, seats, [f"{leaf.dtype} {leaf.shape}" for leaf in jax.tree.leaves(state)]],
    )


def compile_admit(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(UNet's parameters, state, negative, positive, start, newcomer) → state."""
    model, encoding = shapes.model, shapes.model.encoding
    return compiler.compile(
        f"{shapes.lane} admit",
        partial(traced.admit, model.networks),
        *(model.shapes.unet, shapes.state, encoding, encoding),
        *(shapes.start(shapes.devices), shapes.newcomer),
        specs=(REPLICATED, *[BY_SEAT] * 5),
        donate=(1,),
        key=shapes.key,
        apart=True,
    )


def compile_denoise(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(UNet's parameters, sampler's state, seats' inputs, start, stop) → (sampler's state, evaluations made).

    The program computes every seat, and suits every run. Where the host counts, one call is one evaluation.
    """
    return compile_evaluations(shapes, compiler, "denoise", model_parameters(shapes), rows=None)


def compile_denoise_form(shapes: LaneShapes, compiler: Compiler, form: ProgramForm) -> Program:
    """Compile the program of a form of `SeatGrid.further_forms`.

    Its arguments are those of `denoise`; where it does not compute every row, the seats and rows of a
    `rows.Layout` come before start and stop.
    """
    unet, bank = model_parameters(shapes)
    rows = None if form.rows == shapes.grid.rows_per_device else form.rows
    parameters = unet, bank if form.loras else {}
    return compile_evaluations(shapes, compiler, f"denoise, {form}", parameters, rows=rows)


def compile_evaluations(
    shapes: LaneShapes, compiler: Compiler, name: str, parameters: WithLoras, *, rows: int | None
) -> Program:
    """Compile the evaluations of so many rows of each device, or of every row, with these parameters."""
    seats = min(rows or shapes.seats_per_device, shapes.seats_per_device)
    of_seats = shapes.rows(shapes.devices * seats, dtype=np.int32)
    which = () if rows is None else (of_seats, shapes.rows(shapes.devices * rows, dtype=np.int32))
    of_rows = (*which, of_seats, of_seats)
    function = evaluations.denoise if rows is None else evaluations.denoise_some
    return compiler.compile(
        f"{shapes.lane} {name}",
        partial(function, shapes.model.networks, counted_by_host=shapes.model.counted_by_host),
        *(parameters, *shapes.state, *of_rows),
        specs=(REPLICATED, *[BY_SEAT] * (2 + len(of_rows))),
        donate=(1,),
        key=shapes.key,
        options=devices.network_options(shapes.model.mesh),
    )


def model_parameters(shapes: LaneShapes) -> WithLoras:
    """Return the shapes of the UNet's parameters and of its LoRAs' rows."""
    parameters: WithLoras = shapes.model.shapes.unet
    return parameters


def compile_take(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(x, seat) → latents (devices, h, w, c)."""
    lane = shapes.lane
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} take",
        traced.take,
        *(shapes.state.sampler.x, shapes.newcomer.seat),
        specs=(BY_SEAT, BY_SEAT),
        key=shapes.key,
    )


def compile_decode(shapes: LaneShapes, compiler: Compiler, *, in_float32: bool = False) -> Program:
    """(parameters of autoencoder and safety checker, latents of a picture) → `Decoded`."""
    model, lane = shapes.model, shapes.lane
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} decode{' in float32' * in_float32}",
        partial(traced.decode, model.networks, in_float32=in_float32),
        *(model.shapes.decoding, shapes.rows(shapes.devices, *shapes.latents)),
        specs=(REPLICATED, BY_SEAT),
        key=shapes.key,
        apart=True,
        retry_shortage=True,
    )
