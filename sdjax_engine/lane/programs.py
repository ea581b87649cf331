"""The programs of one lane: how they are traced and compiled; `lanes.py` calls them.

empty    the seats before anybody has come
begin    a start picture of each device's newcomer → what it starts from
admit    a newcomer of each device → its seat
denoise  the evaluations of a run
take     the latents of one seat of each device, out of the seats
decode   such latents → pixels, whether they are finite, what the safety checker says

They are compiled for the shapes in `lane_shapes.py`: until a program is called, the devices hold nothing of a
lane.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from sdjax_engine.compiling.compiler import Compiler, Program, working_memory
from sdjax_engine.denoising import arithmetic as painting
from sdjax_engine.denoising.arithmetic import Decoded
from sdjax_engine.denoising.start_picture import nothing, start_picture
from sdjax_engine.denoising.state import SeatState, StartPicture
from sdjax_engine.lane.shapes import LaneShapes
from sdjax_engine.memory import devices
from sdjax_engine.models.lora_bank import Bank


@dataclass(frozen=True, kw_only=True)
class LanePrograms:
    """One lane's compiled programs for a number of seats."""

    empty: Program
    admit: Program
    denoise: Program
    take: Program
    decode: Program

    def working(self, begin: Program | None, decode_in_float32: Program | None, *, beside: bool) -> int:
        """What each device needs while any of them or of these runs, beside their arguments, in bytes.

        One runs at a time, and with `beside` a decoding at the same time. What `empty` makes is what the
        seats hold.
        """
        decoding = max(map(working_memory, _those(self.decode, decode_in_float32)))
        others = max(map(working_memory, _those(self.admit, self.denoise, self.take, begin)))
        return decoding + others if beside else max(decoding, others)


def _those(*programs: Program | None) -> list[Program]:
    return [program for program in programs if program is not None]


@dataclass(kw_only=True)
class LaterPrograms:
    """The programs that a lane may get while it works, whatever the number of its seats.

    Without `begin` its pictures start from noise only; `decode_in_float32` decodes once more what came out
    as no picture, where that makes a difference. A program that is here stays: whoever has seen it may rely
    on it. `changing` is held by whoever changes a lane's programs and claims the memory for them.
    """

    begin: Program | None = None
    decode_in_float32: Program | None = None
    changing: threading.Lock = field(default_factory=threading.Lock, repr=False)


def compile_lane(shapes: LaneShapes, compiler: Compiler, later: LaterPrograms | None = None) -> LanePrograms:
    """Compile the programs of a lane, the longest beside the others, and `begin` for `later` if given."""
    with ThreadPoolExecutor(1, thread_name_prefix="compile") as pool:
        denoise = pool.submit(compile_denoise, shapes, compiler)
        if later is not None:
            later.begin = compile_begin(shapes, compiler)
        return LanePrograms(
            empty=compile_empty(shapes, compiler),
            admit=compile_admit(shapes, compiler),
            take=compile_take(shapes, compiler),
            decode=compile_decode(shapes, compiler),
            denoise=denoise.result(),
        )


def compile_empty(shapes: LaneShapes, compiler: Compiler) -> Program:
    """() → the seats before anybody has come."""
    state, seats = shapes.state, shapes.seats_per_device

    def empty() -> SeatState:
        zeros = jax.tree.map(lambda leaf: jnp.zeros((seats, *leaf.shape[1:]), leaf.dtype), state)
        start = nothing((seats, *shapes.latents), shapes.model.further_channels)
        return cast("SeatState", zeros._replace(start=start))

    return compiler.compile(
        f"{shapes.lane} empty",
        empty,
        specs=(),
        facts=[shapes.facts, seats, [f"{leaf.dtype} {leaf.shape}" for leaf in jax.tree.leaves(state)]],
    )


def compile_admit(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(network's arrays, state, negative, positive, start, newcomer) → state."""
    model, encoding = shapes.model, shapes.model.encoding

    def admit(arrays: tuple[Any, Bank], *arguments: Any) -> SeatState:
        return painting.admit(model.project(arrays), *arguments)

    newcomer = jax.tree.map(shapes.like, shapes.nobody())
    return compiler.compile(
        f"{shapes.lane} admit",
        admit,
        *(model.shapes.of_network, shapes.state, encoding, encoding),
        *(shapes.start(shapes.devices), newcomer),
        specs=(devices.REPLICATED, *[devices.BY_SEAT] * 5),
        donate=(1,),
        facts=shapes.facts,
    )


def compile_denoise(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(network's arrays, state, start, stop) → (state, what is there once it is done)."""
    model = shapes.model

    def denoise(
        arrays: tuple[Any, Bank], state: SeatState, start: jax.Array, stop: jax.Array
    ) -> tuple[SeatState, jax.Array]:
        return painting.denoise(model.network(arrays), state, start, stop)

    spans = shapes.rows(shapes.seats, dtype=np.int32)
    return compiler.compile(
        f"{shapes.lane} denoise",
        denoise,
        *(model.shapes.of_network, shapes.state, spans, spans),
        specs=(devices.REPLICATED, *[devices.BY_SEAT] * 3),
        donate=(1,),
        facts=shapes.facts,
        options=devices.network_options(),
    )


def compile_take(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(x, seat) → latents (devices, h, w, c)."""
    lane = shapes.lane
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} take",
        painting.take,
        *(shapes.state.x, shapes.like(shapes.nobody().seat)),
        specs=(devices.BY_SEAT,) * 2,
        facts=shapes.facts,
    )


def compile_decode(shapes: LaneShapes, compiler: Compiler, *, in_float32: bool = False) -> Program:
    """(parameters, latents, present) → `Decoded`."""
    model, lane = shapes.model, shapes.lane

    def decode(parameters: Any, latents: jax.Array, present: jax.Array) -> Decoded:
        decoder, judge = model.decoder(parameters, in_float32=in_float32)
        return painting.decode(decoder, judge, latents, present, model.scaling_factor)

    latents = shapes.rows(shapes.devices, *shapes.latents)
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} decode" + in_float32 * " in float32",
        decode,
        *(model.shapes.of_decoding, latents, shapes.rows(shapes.devices, dtype=np.bool_)),
        specs=(devices.REPLICATED, devices.BY_SEAT, devices.BY_SEAT),
        facts=shapes.facts,
        retry_shortage=True,
    )


def compile_begin(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(parameters, pixels, mask, seed, present) → `StartPicture`."""
    model, lane = shapes.model, shapes.lane

    def begin(
        parameters: Any, pixels: jax.Array, mask: jax.Array, seed: jax.Array, present: jax.Array
    ) -> StartPicture:
        return start_picture(
            model.vae.module(parameters).encode,
            *(pixels, mask, seed, present),
            scaling_factor=model.scaling_factor,
            latents=(1, *shapes.latents),
            channels=model.further_channels,
        )

    pixels, mask, present = map(shapes.like, shapes.no_pictures())
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} begin",
        begin,
        *(model.shapes.vae, pixels, mask, shapes.like(shapes.nobody().seed), present),
        specs=(devices.REPLICATED, *[devices.BY_SEAT] * 4),
        facts=shapes.facts,
        retry_shortage=True,
    )
