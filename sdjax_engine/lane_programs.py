"""The programs of one lane: how they are traced and compiled; `lanes.py` calls them.

begin    a start picture of each device's newcomer → what it starts from
admit    a newcomer of each device → its seat
denoise  the evaluations of a run
take     the latents of one seat of each device, out of the seats
decode   such latents → pixels, whether they are finite, what the safety checker says
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine import devices, painting
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.models.lora_bank import Bank
from sdjax_engine.painting import Decoded
from sdjax_engine.programs import Compiler, Program, working_memory
from sdjax_engine.request import Lane
from sdjax_engine.samplers import MAX_ROWS, ROW
from sdjax_engine.samplers.tables import HISTORY
from sdjax_engine.starting import start_picture
from sdjax_engine.state import Conditioning, KeysValues, Newcomer, SeatState, StartPicture


@dataclass(kw_only=True)
class LanePrograms:
    """One lane's compiled programs, of which two may come later.

    Without `begin` its pictures start from noise only; `decode_in_float32` decodes once more what came out
    as no picture, where that makes a difference.
    """

    admit: Program
    denoise: Program
    take: Program
    decode: Program
    begin: Program | None = None
    decode_in_float32: Program | None = None

    def working(self, *, decoding_beside: bool) -> int:
        """What each device needs while any of them runs, beside what they are given, in bytes.

        One runs at a time, and `decoding_beside` the others.
        """
        decoding = max(map(working_memory, _those(self.decode, self.decode_in_float32)))
        others = max(map(working_memory, _those(self.admit, self.denoise, self.take, self.begin)))
        return decoding + others if decoding_beside else max(decoding, others)


def _those(*programs: Program | None) -> list[Program]:
    return [program for program in programs if program is not None]


@dataclass(frozen=True, kw_only=True)
class LaneShapes:
    """What fixes the arrays of a lane: a model, a size, guided or not, and the seats of each device."""

    lane: Lane
    model: LoadedModel
    seats_per_device: int

    @property
    def facts(self) -> object:
        """All that the programs depend on beside their arguments."""
        return [self.lane.height, self.lane.width, self.model.facts]

    @property
    def devices(self) -> int:
        """How many devices the lane is spread over."""
        return devices.device_count(self.model.mesh)

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self.devices * self.seats_per_device

    @property
    def latents(self) -> tuple[int, int, int]:
        """Height, width and channels of a latent picture."""
        factor = self.model.vae_scale_factor
        return self.lane.height // factor, self.lane.width // factor, self.model.latent_channels

    def empty_seats(self) -> SeatState:
        """Return the seats as they are before anybody has come."""
        count, model = self.seats, self.model
        halves, encoding = model.halves(self.lane), model.encoding
        return SeatState(
            x=self.zeros(count, *self.latents),
            r=self.zeros(count, *self.latents),
            history=self.zeros(count, HISTORY, *self.latents),
            noise=self.zeros(count, *self.latents),
            start=self.from_noise(count),
            conditioning=Conditioning(
                keys_values=self.no_keys_values(count),
                lengths=self.zeros(count, halves, dtype=np.int32),
                text_embeds=self.zeros(
                    count, halves, *encoding.pooled.shape[1:], dtype=encoding.pooled.dtype
                ),
                time_ids=self.zeros(count, self.sizes_told),
                lora_rows=self.zeros(count, model.loras.rank, dtype=np.int32),
                lora_scales=self.zeros(count, model.loras.rank),
            ),
            guidance_scale=self.zeros(count),
            seed=self.zeros(count, dtype=np.uint32),
            rows=self.zeros(count, MAX_ROWS, ROW),
        )

    def no_keys_values(self, count: int) -> KeysValues:
        """Return keys and values for so many seats, all zeros."""
        hidden = self.model.encoding.hidden
        halves, tokens = self.model.halves(self.lane), hidden.shape[1]
        return {
            place: (
                self.zeros(count, halves, tokens, width, dtype=hidden.dtype),
                self.zeros(count, halves, tokens, width, dtype=hidden.dtype),
            )
            for place, width in self.model.widths_of_keys_values.items()
        }

    def from_noise(self, count: int) -> StartPicture:
        """Return what pictures start from that start from noise alone."""
        height, width, _ = self.latents
        return StartPicture(
            latents=self.zeros(count, *self.latents),
            mask=self.spread(np.ones((count, height, width, 1), np.float32)),
            channels=self.zeros(count, height, width, self.model.further_channels),
        )

    def nobody(self) -> Newcomer[npt.NDArray[Any]]:
        """Return what the devices are told of newcomers, on the host, to be filled in: nobody comes."""
        count, rank = self.devices, self.model.loras.rank
        return Newcomer(
            seat=np.full(count, -1, np.int32),
            guidance_scale=np.zeros(count, np.float32),
            seed=np.zeros(count, np.uint32),
            init_noise_sigma=np.zeros(count, np.float32),
            init_latent_scale=np.zeros(count, np.float32),
            time_ids=np.zeros((count, self.sizes_told), np.float32),
            lora_rows=np.zeros((count, rank), np.int32),
            lora_scales=np.zeros((count, rank), np.float32),
            rows=np.zeros((count, MAX_ROWS, ROW), np.float32),
        )

    def no_pictures(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return pixels, mask and whether there is one, a row for each device; without a mask all is new."""
        count, height, width = self.devices, self.lane.height, self.lane.width
        pixels = np.zeros((count, height, width, 3), np.uint8)
        return pixels, np.ones((count, height, width), np.bool_), np.zeros(count, np.bool_)

    @property
    def sizes_told(self) -> int:
        """How many sizes the network is told of a picture."""
        return len(self.model.time_ids(self.lane.height, self.lane.width))

    def zeros(self, *shape: int, dtype: npt.DTypeLike = np.float32) -> jax.Array:
        """Return zeros spread over the devices along their first axis."""
        return self.spread(np.zeros(shape, dtype))

    def spread(self, rows: npt.NDArray[Any]) -> jax.Array:
        """Spread `rows` over the devices along their first axis."""
        return devices.shard(rows, self.model.mesh)


def compile_lane(shapes: LaneShapes, compiler: Compiler, *, start_pictures: bool) -> LanePrograms:
    """Compile every program of a lane, the longest beside the others."""
    wanted = start_pictures or bool(shapes.model.further_channels)
    state = shapes.empty_seats()
    with ThreadPoolExecutor(1, thread_name_prefix="compile") as pool:
        denoise = pool.submit(compile_denoise, shapes, compiler, state)
        return LanePrograms(
            admit=compile_admit(shapes, compiler, state),
            take=compile_take(shapes, compiler, state),
            decode=compile_decode(shapes, compiler),
            begin=compile_begin(shapes, compiler) if wanted else None,
            denoise=denoise.result(),
        )


def compile_admit(shapes: LaneShapes, compiler: Compiler, state: SeatState) -> Program:
    """(network's arrays, state, negative, positive, start, newcomer) → state."""
    model, encoding = shapes.model, shapes.model.encoding

    def admit(arrays: tuple[Any, Bank], *arguments: Any) -> SeatState:
        return painting.admit(model.project(arrays), *arguments)

    newcomer = Newcomer(*map(shapes.spread, shapes.nobody()))
    return compiler.compile(
        f"{shapes.lane} admit",
        admit,
        *(model.shapes.of_network, state, encoding, encoding, shapes.from_noise(shapes.devices), newcomer),
        specs=(devices.REPLICATED, *[devices.BY_SEAT] * 5),
        donate=(1,),
        facts=shapes.facts,
    )


def compile_denoise(shapes: LaneShapes, compiler: Compiler, state: SeatState) -> Program:
    """(network's arrays, state, start, stop) → (state, what is there once it is done)."""
    model = shapes.model

    def denoise(
        arrays: tuple[Any, Bank], state: SeatState, start: jax.Array, stop: jax.Array
    ) -> tuple[SeatState, jax.Array]:
        return painting.denoise(model.network(arrays), state, start, stop)

    spans = shapes.zeros(shapes.seats, dtype=np.int32)
    return compiler.compile(
        f"{shapes.lane} denoise",
        denoise,
        *(model.shapes.of_network, state, spans, spans),
        specs=(devices.REPLICATED, *[devices.BY_SEAT] * 3),
        donate=(1,),
        facts=shapes.facts,
        options=devices.network_options(),
    )


def compile_take(shapes: LaneShapes, compiler: Compiler, state: SeatState) -> Program:
    """(x, seat) → latents (devices, h, w, c)."""
    lane = shapes.lane
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} take",
        painting.take,
        *(state.x, shapes.spread(shapes.nobody().seat)),
        specs=(devices.BY_SEAT,) * 2,
        facts=shapes.facts,
    )


def compile_decode(shapes: LaneShapes, compiler: Compiler, *, in_float32: bool = False) -> Program:
    """(parameters, latents, present) → `Decoded`."""
    model, lane = shapes.model, shapes.lane

    def decode(parameters: Any, latents: jax.Array, present: jax.Array) -> Decoded:
        decoder, judge = model.decoder(parameters, in_float32=in_float32)
        return painting.decode(decoder, judge, latents, present, model.scaling_factor)

    latents = shapes.zeros(shapes.devices, *shapes.latents)
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} decode" + in_float32 * " in float32",
        decode,
        *(model.shapes.of_decoding, latents, shapes.zeros(shapes.devices, dtype=np.bool_)),
        specs=(devices.REPLICATED, devices.BY_SEAT, devices.BY_SEAT),
        facts=shapes.facts,
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

    pixels, mask, present = shapes.no_pictures()
    return compiler.compile(
        f"{lane.model}:{lane.width}x{lane.height} begin",
        begin,
        *(model.shapes.vae, *map(shapes.spread, (pixels, mask, shapes.nobody().seed, present))),
        specs=(devices.REPLICATED, *[devices.BY_SEAT] * 4),
        facts=shapes.facts,
    )
