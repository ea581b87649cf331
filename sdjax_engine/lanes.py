"""One lane on the devices: what its seats hold, and its three programs: admit, denoise, decode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx

from sdjax_engine import devices, painting
from sdjax_engine.loaded import LoadedModel, Prepared
from sdjax_engine.painting import Newcomer, SeatState
from sdjax_engine.programs import Compiler, Program
from sdjax_engine.request import Lane
from sdjax_engine.samplers import MAX_ROWS, ROW
from sdjax_engine.samplers.tables import HISTORY


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A picture on its way from the devices: row `device` of what they decoded together."""

    device: int
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        if not np.asarray(self.finite)[self.device]:
            return None
        return np.array(np.asarray(self.pixels)[self.device])


class Arrivals(NamedTuple):
    """`painting.Newcomer` on the host, one row for each device, to be filled in."""

    seat: npt.NDArray[np.int32]
    guidance_scale: npt.NDArray[np.float32]
    seed: npt.NDArray[np.uint32]
    init_noise_sigma: npt.NDArray[np.float32]
    rows: npt.NDArray[np.float32]


class DeviceLane:
    """The seats of one lane, spread over the devices, and the programs that work on them.

    No call waits for the devices: work is queued in the order of the calls, and an error of the
    devices shows where their results are read. After an error, `reset` before anything else.
    """

    def __init__(self, lane: Lane, model: LoadedModel, *, seats_per_device: int, compiler: Compiler) -> None:
        self.lane = lane
        self._model = model
        self._mesh = model.mesh
        self._devices = devices.device_count(model.mesh)
        self._seats_per_device = seats_per_device
        self._encodings = model.encode(model.no_token_ids())
        self.reset()
        self._admit = self._compile_admit(compiler)
        self._denoise = self._compile_denoise(compiler)
        self._decode = self._compile_decode(compiler)

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self._devices * self._seats_per_device

    def reset(self) -> None:
        """Empty every seat."""
        count, lane = self.seats, self.lane
        factor = self._model.vae_scale_factor
        latents = (lane.height // factor, lane.width // factor, self._model.latent_channels)
        halves = 2 if lane.guided else 1
        self._state = SeatState(
            x=self._zeros(count, *latents),
            r=self._zeros(count, *latents),
            history=self._zeros(count, HISTORY, *latents),
            context=self._zeros(count, halves, *self._encodings.shape[2:], dtype=self._encodings.dtype),
            guidance_scale=self._zeros(count),
            seed=self._zeros(count, dtype=np.uint32),
            rows=self._zeros(count, MAX_ROWS, ROW),
        )

    def admit(self, newcomers: Mapping[int, Prepared]) -> None:
        """Let newcomers into their seats: encode the prompts, draw the noise, write the tables."""
        for wave in self._waves(newcomers):
            token_ids, arrivals = self._model.no_token_ids(), self._nobody()
            for device, seat in wave.items():
                prepared = newcomers[seat]
                token_ids[device] = prepared.token_ids
                arrivals.seat[device] = seat % self._seats_per_device
                arrivals.guidance_scale[device] = prepared.request.guidance_scale
                arrivals.seed[device] = prepared.request.seed
                arrivals.init_noise_sigma[device] = prepared.init_noise_sigma
                arrivals.rows[device] = prepared.rows
            encodings = self._model.encode(token_ids)
            self._state = self._admit(self._state, encodings, self._newcomer(arrivals))

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> jax.Array:
        """Make the evaluations from start up to stop in each of these seats.

        Returns what is there as soon as the devices have done it.
        """
        start, stop = (np.zeros(self.seats, np.int32) for _ in range(2))
        for seat, span in spans.items():
            start[seat], stop[seat] = span
        parameters = self._model.unet.state
        spread = (devices.shard(evaluations, self._mesh) for evaluations in (start, stop))
        self._state, done = self._denoise(parameters, self._state, *spread)
        return cast("jax.Array", done)

    def decode(self, seats: Sequence[int]) -> dict[int, Picture]:
        """Decode the pictures in these seats and start their way to the host."""
        pictures = {}
        for wave in self._waves(seats):
            chosen = self._nobody().seat
            for device, seat in wave.items():
                chosen[device] = seat % self._seats_per_device
            pixels, finite = self._decode(
                self._model.vae.state, self._state.x, devices.shard(chosen, self._mesh)
            )
            pixels.copy_to_host_async()
            for device, seat in wave.items():
                pictures[seat] = Picture(device=device, pixels=pixels, finite=finite)
        return pictures

    def latents(self) -> npt.NDArray[np.float32]:
        """What the seats hold now, (seats, h, w, c); waits for the devices."""
        return np.asarray(self._state.x)

    def _zeros(self, *shape: int, dtype: npt.DTypeLike = np.float32) -> jax.Array:
        return devices.shard(np.zeros(shape, dtype), self._mesh)

    def _newcomer(self, arrivals: Arrivals) -> Newcomer:
        return Newcomer(*(devices.shard(rows, self._mesh) for rows in arrivals))

    def _waves(self, seats: Iterable[int]) -> list[dict[int, int]]:
        """Deal seats into waves of at most one for each device: device → seat."""
        waves: list[dict[int, int]] = []
        for seat in seats:
            device = seat // self._seats_per_device
            wave = next((wave for wave in waves if device not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[device] = seat
        return waves

    def _nobody(self) -> Arrivals:
        count = self._devices
        return Arrivals(
            seat=np.full(count, -1, np.int32),
            guidance_scale=np.zeros(count, np.float32),
            seed=np.zeros(count, np.uint32),
            init_noise_sigma=np.zeros(count, np.float32),
            rows=np.zeros((count, MAX_ROWS, ROW), np.float32),
        )

    def _compile_admit(self, compiler: Compiler) -> Program:
        specs = (devices.BY_SEAT,) * 3
        arguments = self._state, self._encodings, self._newcomer(self._nobody())
        return compiler.compile(f"{self.lane} admit", painting.admit, *arguments, specs=specs, donate=(0,))

    def _compile_denoise(self, compiler: Compiler) -> Program:
        graphdef, parameters = self._model.unet.graphdef, self._model.unet.state

        def denoise(
            parameters: Any, state: SeatState, start: jax.Array, stop: jax.Array
        ) -> tuple[SeatState, jax.Array]:
            return painting.denoise(nnx.merge(graphdef, parameters), state, start, stop)

        spans = self._zeros(self.seats, dtype=np.int32)
        return compiler.compile(
            f"{self.lane} denoise",
            denoise,
            *(parameters, self._state, spans, spans),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 3),
            donate=(1,),
        )

    def _compile_decode(self, compiler: Compiler) -> Program:
        graphdef, parameters = self._model.vae.graphdef, self._model.vae.state
        scaling_factor = self._model.scaling_factor

        def decode(parameters: Any, x: jax.Array, seat: jax.Array) -> tuple[jax.Array, jax.Array]:
            return painting.decode(nnx.merge(graphdef, parameters).decode, x, seat, scaling_factor)

        lane = self.lane
        return compiler.compile(
            f"{lane.model}:{lane.width}x{lane.height} decode",
            decode,
            *(parameters, self._state.x, devices.shard(self._nobody().seat, self._mesh)),
            specs=(devices.REPLICATED, devices.BY_SEAT, devices.BY_SEAT),
        )
