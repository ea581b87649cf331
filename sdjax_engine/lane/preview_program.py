"""The previews of a lane: the program that estimates the finished pictures of its seats, and the results."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler, CompilingStopped, Program
from sdjax_engine.denoising import estimates
from sdjax_engine.denoising.state import SeatState
from sdjax_engine.lane.runs import are_ready
from sdjax_engine.lane.shapes import LaneShapes
from sdjax_engine.memory.devices import BY_SEAT, REPLICATED
from sdjax_engine.weights import Component, Parameters
from sdjax_engine.wording import first_line

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Estimates of the finished pictures of all seats, being copied to the host."""

    rows: jax.Array = field(repr=False)

    @property
    def ready(self) -> bool:
        """Whether the devices have made them."""
        return are_ready([self.rows])

    def fetch(self) -> npt.NDArray[Any]:
        """Wait for the estimates; raises the devices' error.

        They are latents (seats, h, w, c) float32, or previews (seats, h, w, 3) uint8 where the lane has a
        decoder.
        """
        return np.asarray(self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreviewProgram:
    """The compiled program; with the parameters of a `decoder` the estimates are decoded."""

    program: Program
    decoder: Parameters | None = field(default=None, repr=False)

    @property
    def decodes(self) -> bool:
        """Whether the estimates are pixels."""
        return self.decoder is not None

    def queue(self, state: SeatState, weights: Mapping[int, tuple[float, float]]) -> Estimates:
        """Estimate the finished pictures of the seats in `weights`, and start to copy them to the host."""
        x, _, history = state.sampler
        by_seat = np.zeros((x.shape[0], 2), np.float32)
        for seat, each in weights.items():
            by_seat[seat] = each
        arguments = (x, history, state.inputs.start, by_seat)
        rows = self.program(*arguments) if self.decoder is None else self.program(self.decoder, *arguments)
        rows.copy_to_host_async()
        return Estimates(rows=rows)


def compile_previews(shapes: LaneShapes, compiler: Compiler, *, decoded: bool) -> PreviewProgram:
    """Compile the program of previews: with the model's decoder if `decoded`, unless compiling that fails."""
    decoder = shapes.model.preview_decoder
    if decoded and decoder is not None:
        try:
            program = compile_decoded_estimate(shapes, compiler, decoder)
            return PreviewProgram(program=program, decoder=decoder.parameters)
        except CompilingStopped:
            raise
        except Exception as error:
            logger.exception("the preview decoder of %s cannot be compiled", shapes.lane)
            compiler.tell(f"{shapes.lane} makes coarse previews without its decoder: {first_line(error)}")
    return PreviewProgram(program=compile_estimate(shapes, compiler))


def compile_estimate(shapes: LaneShapes, compiler: Compiler) -> Program:
    """(x, history, start, weights) → estimates of the finished latents (seats, h, w, c)."""
    return compiler.compile(
        f"{shapes.lane} estimate",
        estimates.estimate,
        *arguments_of(shapes),
        specs=(BY_SEAT,) * 4,
        key=shapes.key,
    )


def compile_decoded_estimate(shapes: LaneShapes, compiler: Compiler, decoder: Component) -> Program:
    """(decoder's parameters, x, history, start, weights) → previews (seats, h, w, 3)."""
    decode = partial(
        estimates.decoded_estimate,
        decoder.blueprint,
        float(decoder.config["scaling_factor"]),
        counted_by_host=shapes.model.counted_by_host,
    )
    return compiler.compile(
        f"{shapes.lane} preview",
        decode,
        decoder.parameters,
        *arguments_of(shapes),
        specs=(REPLICATED, *[BY_SEAT] * 4),
        key=[shapes.key, decoder.config],
        retry_shortage=True,
    )


def arguments_of(shapes: LaneShapes) -> tuple[Any, ...]:
    """Return the shapes of x, history, start and weights."""
    state = shapes.state
    return state.sampler.x, state.sampler.history, state.inputs.start, shapes.rows(shapes.seats, 2)
