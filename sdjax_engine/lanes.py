"""One lane on the devices: its seats, and the programs for them: begin, admit, denoise, decode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx

from sdjax_engine import devices, painting
from sdjax_engine.loaded import LoadedModel, Prepared, safety_scores
from sdjax_engine.models.lora import Bank
from sdjax_engine.painting import Decoded
from sdjax_engine.programs import Compiler, Program
from sdjax_engine.request import Lane, SafetyScores
from sdjax_engine.samplers import MAX_ROWS, ROW
from sdjax_engine.samplers.tables import HISTORY
from sdjax_engine.starting import start_picture
from sdjax_engine.state import Conditioning, Newcomer, SeatState, StartPicture


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A picture on its way from the devices: row `device` of what they decoded together."""

    device: int
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)
    scores: jax.Array = field(repr=False)

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        if not np.asarray(self.finite)[self.device]:
            return None
        return np.array(np.asarray(self.pixels)[self.device])

    def fetch_safety(self) -> SafetyScores | None:
        """Wait for what the safety checker says; None where the checkpoint has none."""
        scores = np.asarray(self.scores)[self.device]
        return safety_scores(scores) if scores.size else None


class Arrivals(NamedTuple):
    """`state.Newcomer` on the host, one row for each device, to be filled in."""

    seat: npt.NDArray[np.int32]
    guidance_scale: npt.NDArray[np.float32]
    seed: npt.NDArray[np.uint32]
    init_noise_sigma: npt.NDArray[np.float32]
    init_latent_scale: npt.NDArray[np.float32]
    time_ids: npt.NDArray[np.float32]
    lora_rows: npt.NDArray[np.int32]
    lora_scales: npt.NDArray[np.float32]
    rows: npt.NDArray[np.float32]


class DeviceLane:
    """The seats of one lane, spread over the devices, and the programs that work on them.

    No call waits for the devices: work is queued in the order of the calls, and an error of the
    devices shows where their results are read. After an error, `reset` before anything else.
    """

    def __init__(
        self,
        lane: Lane,
        model: LoadedModel,
        *,
        seats_per_device: int,
        compiler: Compiler,
        start_pictures: bool = True,
    ) -> None:
        self.lane = lane
        self._model = model
        self._mesh = model.mesh
        self._devices = devices.device_count(model.mesh)
        self._seats_per_device = seats_per_device
        self._halves = model.halves(lane)
        factor = model.vae_scale_factor
        self._latents = (lane.height // factor, lane.width // factor, model.latent_channels)
        self._from_noise = self._zero_start(self._devices)
        self.reset()
        self._admit = self._compile_admit(compiler)
        self._denoise = self._compile_denoise(compiler)
        self._decode = self._compile_decode(compiler)
        wanted = start_pictures or model.further_channels
        self._begin = self._compile_begin(compiler) if wanted else None

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self._devices * self._seats_per_device

    @property
    def starts_from_pictures(self) -> bool:
        """Whether an image may start from a picture here."""
        return self._begin is not None

    def reset(self) -> None:
        """Empty every seat."""
        count, model = self.seats, self._model
        encoding = model.no_encodings
        self._state = SeatState(
            x=self._zeros(count, *self._latents),
            r=self._zeros(count, *self._latents),
            history=self._zeros(count, HISTORY, *self._latents),
            noise=self._zeros(count, *self._latents),
            start=self._zero_start(count),
            conditioning=Conditioning(
                context=self._zeros(
                    count, self._halves, *encoding.hidden.shape[1:], dtype=encoding.hidden.dtype
                ),
                lengths=self._zeros(count, self._halves, dtype=np.int32),
                text_embeds=self._zeros(
                    count, self._halves, *encoding.pooled.shape[1:], dtype=encoding.pooled.dtype
                ),
                time_ids=self._zeros(count, self._sizes_told),
                lora_rows=self._zeros(count, model.loras.rank, dtype=np.int32),
                lora_scales=self._zeros(count, model.loras.rank),
            ),
            guidance_scale=self._zeros(count),
            seed=self._zeros(count, dtype=np.uint32),
            rows=self._zeros(count, MAX_ROWS, ROW),
        )

    def admit(self, newcomers: Mapping[int, Prepared]) -> None:
        """Let newcomers into their seats: encode the texts, draw the noise, write the tables."""
        for wave in self._waves(newcomers):
            prepared = {device: newcomers[seat] for device, seat in wave.items()}
            arrivals = self._nobody()
            for device, seat in wave.items():
                one = prepared[device]
                arrivals.seat[device] = seat % self._seats_per_device
                arrivals.guidance_scale[device] = one.request.guidance_scale
                arrivals.seed[device] = one.request.seed
                arrivals.init_noise_sigma[device] = one.init_noise_sigma
                arrivals.init_latent_scale[device] = one.init_latent_scale
                arrivals.time_ids[device] = one.time_ids
                arrivals.lora_rows[device], arrivals.lora_scales[device] = one.loras
                arrivals.rows[device] = one.rows
            texts = [
                prepared[device].texts if device in prepared else (self._model.no_text,) * 2
                for device in range(self._devices)
            ]
            negative, positive = (self._model.encodings.gather(half) for half in zip(*texts, strict=True))
            start, newcomer = self._start(prepared, arrivals.seed), self._newcomer(arrivals)
            self._state = self._admit(self._state, negative, positive, start, newcomer)

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> jax.Array:
        """Make the evaluations from start up to stop in each of these seats.

        Returns what is there as soon as the devices have done it.
        """
        start, stop = (np.zeros(self.seats, np.int32) for _ in range(2))
        for seat, span in spans.items():
            start[seat], stop[seat] = span
        arrays = self._model.network_arrays
        spread = (devices.shard(evaluations, self._mesh) for evaluations in (start, stop))
        self._state, done = self._denoise(arrays, self._state, *spread)
        return cast("jax.Array", done)

    def decode(self, seats: Sequence[int]) -> dict[int, Picture]:
        """Decode the pictures in these seats and start their way to the host."""
        pictures = {}
        for wave in self._waves(seats):
            chosen = self._nobody().seat
            for device, seat in wave.items():
                chosen[device] = seat % self._seats_per_device
            parameters, x = self._model.decoding, self._state.x
            decoded = cast("Decoded", self._decode(parameters, x, devices.shard(chosen, self._mesh)))
            for rows in decoded:
                rows.copy_to_host_async()
            for device, seat in wave.items():
                pictures[seat] = Picture(device=device, **decoded._asdict())
        return pictures

    def latents(self) -> npt.NDArray[np.float32]:
        """What the seats hold now, (seats, h, w, c); waits for the devices."""
        return np.asarray(self._state.x)

    def _start(self, prepared: Mapping[int, Prepared], seeds: npt.NDArray[np.uint32]) -> StartPicture:
        """What the newcomer of each device starts from."""
        pictures = {device: one.picture for device, one in prepared.items() if one.picture is not None}
        if self._begin is None or not (pictures or self._model.further_channels):
            return self._from_noise
        pixels, mask, present = self._no_pictures()
        present[list(prepared)] = True
        for device, picture in pictures.items():
            pixels[device], mask[device] = picture.pixels, picture.mask
        spread = (devices.shard(rows, self._mesh) for rows in (pixels, mask, seeds, present))
        return cast("StartPicture", self._begin(self._model.vae.state, *spread))

    @property
    def _sizes_told(self) -> int:
        return len(self._model.time_ids(self.lane.height, self.lane.width))

    def _zero_start(self, count: int) -> StartPicture:
        """What pictures start from that start from noise alone."""
        height, width, _ = self._latents
        return StartPicture(
            latents=self._zeros(count, *self._latents),
            mask=devices.shard(np.ones((count, height, width, 1), np.float32), self._mesh),
            channels=self._zeros(count, height, width, self._model.further_channels),
        )

    def _no_pictures(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Pixels, mask and whether there is one, a row for each device; without a mask all is new."""
        count, height, width = self._devices, self.lane.height, self.lane.width
        pixels = np.zeros((count, height, width, 3), np.uint8)
        return pixels, np.ones((count, height, width), np.bool_), np.zeros(count, np.bool_)

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
            init_latent_scale=np.zeros(count, np.float32),
            time_ids=np.zeros((count, self._sizes_told), np.float32),
            lora_rows=np.zeros((count, self._model.loras.rank), np.int32),
            lora_scales=np.zeros((count, self._model.loras.rank), np.float32),
            rows=np.zeros((count, MAX_ROWS, ROW), np.float32),
        )

    def _compile_admit(self, compiler: Compiler) -> Program:
        specs = (devices.BY_SEAT,) * 5
        encoding = self._model.no_encodings
        arguments = self._state, encoding, encoding, self._from_noise, self._newcomer(self._nobody())
        return compiler.compile(f"{self.lane} admit", painting.admit, *arguments, specs=specs, donate=(0,))

    def _compile_denoise(self, compiler: Compiler) -> Program:
        arrays = self._model.network_arrays

        def denoise(
            arrays: tuple[Any, Bank], state: SeatState, start: jax.Array, stop: jax.Array
        ) -> tuple[SeatState, jax.Array]:
            return painting.denoise(self._model.network(arrays), state, start, stop)

        spans = self._zeros(self.seats, dtype=np.int32)
        return compiler.compile(
            f"{self.lane} denoise",
            denoise,
            *(arrays, self._state, spans, spans),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 3),
            donate=(1,),
        )

    def _compile_decode(self, compiler: Compiler) -> Program:
        model, lane = self._model, self.lane

        def decode(parameters: Any, x: jax.Array, seat: jax.Array) -> Decoded:
            decoder, judge = model.decoder(parameters)
            return painting.decode(decoder, judge, x, seat, model.scaling_factor)

        return compiler.compile(
            f"{lane.model}:{lane.width}x{lane.height} decode",
            decode,
            *(model.decoding, self._state.x, devices.shard(self._nobody().seat, self._mesh)),
            specs=(devices.REPLICATED, devices.BY_SEAT, devices.BY_SEAT),
        )

    def _compile_begin(self, compiler: Compiler) -> Program:
        graphdef, parameters = self._model.vae.graphdef, self._model.vae.state
        latents, channels = (1, *self._latents), self._model.further_channels
        scaling_factor = self._model.scaling_factor

        def begin(
            parameters: Any, pixels: jax.Array, mask: jax.Array, seed: jax.Array, present: jax.Array
        ) -> StartPicture:
            return start_picture(
                nnx.merge(graphdef, parameters).encode,
                *(pixels, mask, seed, present),
                scaling_factor=scaling_factor,
                latents=latents,
                channels=channels,
            )

        lane, (pixels, mask, present) = self.lane, self._no_pictures()
        spread = (devices.shard(rows, self._mesh) for rows in (pixels, mask, self._nobody().seed, present))
        return compiler.compile(
            f"{lane.model}:{lane.width}x{lane.height} begin",
            begin,
            *(parameters, *spread),
            specs=(devices.REPLICATED, *[devices.BY_SEAT] * 4),
        )
