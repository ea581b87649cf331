"""One lane on the devices: its seats, and what is done with them; `lane_programs.py` has the programs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Compiler, Program
from sdjax_engine.compiling.decode_thread import Beside, at_once
from sdjax_engine.denoising.arithmetic import Decoded
from sdjax_engine.denoising.state import Newcomer, SeatState, StartPicture
from sdjax_engine.lane.programs import LaterPrograms, compile_begin, compile_decode, compile_lane
from sdjax_engine.lane.shapes import LaneShapes
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Need
from sdjax_engine.model.loaded import LoadedModel, safety_scores
from sdjax_engine.model.prepared import Prepared
from sdjax_engine.request import DevicesFailed, Lane, SafetyScores


@dataclass(frozen=True, kw_only=True, eq=False)
class Latents:
    """A picture before it is decoded, on its way from the devices: row `device` of theirs."""

    device: int
    rows: jax.Array = field(repr=False)

    def fetch(self) -> npt.NDArray[np.float32]:
        """Wait for them, (h, w, c)."""
        return np.array(np.asarray(self.rows)[self.device])


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A picture on its way from the devices: row `device` of what they decoded together."""

    device: int
    latents: jax.Array = field(repr=False)
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)
    scores: jax.Array = field(repr=False)

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        if not np.asarray(self.finite)[self.device]:
            return None
        return np.array(np.asarray(self.pixels)[self.device])

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Wait for what it was decoded from, (h, w, c)."""
        return np.array(np.asarray(self.latents)[self.device])

    def fetch_safety(self) -> SafetyScores | None:
        """Wait for what the safety checker says; None where the checkpoint has none."""
        scores = np.asarray(self.scores)[self.device]
        return safety_scores(scores) if scores.size else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Evaluations that the devices have been given."""

    done: jax.Array = field(repr=False)

    @property
    def ready(self) -> bool:
        """Whether the devices have made them, so that nobody would wait."""
        done = cast("Any", self.done)  # jax.Array's stub leaves `is_ready` out
        return bool(done.is_deleted() or done.is_ready())

    def wait(self) -> None:
        """Return when the devices have made them; raises what broke them."""
        np.asarray(self.done)


def why_no_picture(latents: npt.NDArray[np.float32]) -> str:
    """The reason, as a sentence, why latents (h, w, c) made a picture that is not finite."""
    if not np.isfinite(latents).all():
        return (
            "The steps of this picture came to values that are no numbers: "
            "another seed, sampler or guidance may work."
        )
    return "The picture decoder made values that are no numbers, in float32 too: another seed may work."


class DeviceLane:
    """The seats of one lane, spread over the devices, and the programs that work on them.

    A new lane has its programs compiled and nothing on the devices: claim what it needs, then `reset`, which
    allocates the seats. No call waits for the devices: work is queued in the order of the calls, and an error
    of the devices shows where their results are read. After an error, `reset` before anything else. Programs
    are called with the host's arrays as they are: to put each on the devices first takes ten times as long.
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
        self._compiler = compiler
        self._queue_decoding = self._decoding_queue()
        self._later = LaterPrograms()
        self._shapes = LaneShapes(lane=lane, model=model, seats_per_device=seats_per_device)
        with_begin = start_pictures or bool(model.further_channels)
        self._programs = compile_lane(self._shapes, compiler, self._later if with_begin else None)
        self._from_noise = self._shapes.from_noise_alone()
        self._state: SeatState | None = None

    @property
    def seats(self) -> int:
        """How many seats there are on all devices."""
        return self._shapes.seats

    @property
    def seats_per_device(self) -> int:
        """How many seats there are on each device."""
        return self._shapes.seats_per_device

    @property
    def need(self) -> Need:
        """What the seats hold of each device's memory, and what the programs need while they run."""
        return self._need_with()

    @property
    def retries(self) -> bool:
        """Whether `decode_again` can make more of latents than `decode` did."""
        return self._later.decode_in_float32 is not None

    @property
    def move_seconds(self) -> float:
        """How long `bring` takes the devices, as measured; 0 where there is nothing to move."""
        return self._model.residency.move_seconds(self.lane.model)

    def bring(self) -> None:
        """Make the model's parameters be on the devices, which must come before any work on them."""
        self._model.bring()

    def prepare_retry(self) -> None:
        """Compile what decodes again in float32, where that makes a difference and there is memory for it."""
        if self._model.decodes_in_float32:
            return
        decode = compile_decode(self._shapes, self._compiler, in_float32=True)
        with self._later.changing:
            if self._model.residency.claim(self.lane, self._need_with(decode_in_float32=decode)):
                self._later.decode_in_float32 = decode

    def halve(self) -> bool:
        """Make do with less memory, after the devices had not enough; False where that cannot be.

        Other models are moved out, for good with this one there, and half of the seats given up. Every seat
        is empty afterwards. What half as many seats need is compiled, unless it was before. Where that fails
        the lane has its programs and the number of its seats as before, and needs a `reset`.
        """
        moved = self._model.residency.leave_alone(self.lane.model)
        fewer = self.seats_per_device // 2
        if not (moved or fewer):
            return False
        if not fewer:
            self.reset()
            return True
        self._free()
        shapes = replace(self._shapes, seats_per_device=fewer)
        programs = compile_lane(shapes, self._compiler)
        state = programs.empty()
        with self._later.changing:
            self._shapes, self._programs, self._state = shapes, programs, state
            self._model.residency.claim(self.lane, self.need)
        return True

    @property
    def starts_from_pictures(self) -> bool:
        """Whether an image may start from a picture here."""
        return self._later.begin is not None

    def prepare_pictures(self) -> None:
        """Compile what encodes start pictures: from then on images may start from one, after `anew` too.

        Raises DevicesFailed where there is no memory for it.
        """
        begin = compile_begin(self._shapes, self._compiler)
        with self._later.changing:
            if not self._model.residency.claim(self.lane, self._need_with(begin=begin)):
                raise DevicesFailed(f"The devices have no memory for start pictures of {self.lane}.")
            self._later.begin = begin

    def reset(self) -> None:
        """Empty every seat: free the devices' memory of all seats, then allocate it anew."""
        self._free()
        self._state = self._programs.empty()

    def anew(self) -> DeviceLane:
        """Return another with the same programs, which needs a reset and shares no seats."""
        other = copy.copy(self)
        other._state = None
        other._queue_decoding = self._decoding_queue()  # the thread of this one may be stuck
        return other

    def admit(self, newcomers: Mapping[int, Prepared]) -> None:
        """Let newcomers into their seats: encode the texts, draw the noise, write the tables."""
        for wave in self._waves(newcomers):
            prepared = {device: newcomers[seat] for device, seat in wave.items()}
            told = self._told(wave, prepared)
            texts = [
                prepared[device].texts if device in prepared else (self._model.no_text,) * 2
                for device in range(self._shapes.devices)
            ]
            negative, positive = (self._model.encodings.gather(half) for half in zip(*texts, strict=True))
            start = self._start(prepared, told.seed)
            self._state = self._programs.admit(
                self._model.arrays.of_network, self._seated, negative, positive, start, told
            )

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> Run:
        """Make the evaluations from start up to stop in each of these seats."""
        start, stop = (np.zeros(self.seats, np.int32) for _ in range(2))
        for seat, span in spans.items():
            start[seat], stop[seat] = span
        self._state, done = self._programs.denoise(self._model.arrays.of_network, self._seated, start, stop)
        return Run(done=done)

    def take(self, seats: Sequence[int]) -> dict[int, Latents]:
        """Start the latents in these seats on their way to the host."""
        latents: dict[int, Latents] = {}
        for wave in self._waves(seats):
            rows = self._taken(wave)
            rows.copy_to_host_async()
            latents |= {seat: Latents(device=device, rows=rows) for device, seat in wave.items()}
        return latents

    def decode(self, seats: Sequence[int]) -> dict[int, Picture]:
        """Decode the pictures in these seats and start their way to the host."""
        pictures: dict[int, Picture] = {}
        for wave in self._waves(seats):
            decoded = self._decoded(self._taken(wave), list(wave))
            pictures |= {seat: decoded[device] for device, seat in wave.items()}
        return pictures

    def decode_latents(self, latents: Sequence[npt.NDArray[np.float32]]) -> list[Picture]:
        """Decode latents (h, w, c) that were taken before; the same pictures to the bit as at once."""
        pictures: list[Picture] = []
        count = self._shapes.devices
        for first in range(0, len(latents), count):
            some = latents[first : first + count]
            rows = np.zeros((count, *self._shapes.latents), np.float32)
            rows[: len(some)] = some
            decoded = self._decoded(self._shapes.spread(rows), range(len(some)))
            pictures += [decoded[device] for device in range(len(some))]
        return pictures

    def decode_again(self, latents: npt.NDArray[np.float32]) -> Picture | None:
        """Decode latents (h, w, c) in float32, where `retries`; None where that would change nothing."""
        program = self._later.decode_in_float32
        if program is None:
            return None
        rows = np.zeros((self._shapes.devices, *self._shapes.latents), np.float32)
        rows[0] = latents
        return self._decoded(self._shapes.spread(rows), [0], program=program)[0]

    def latents(self) -> npt.NDArray[np.float32]:
        """What the seats hold now, (seats, h, w, c); waits for the devices."""
        return np.asarray(self._seated.x)

    @property
    def _seated(self) -> SeatState:
        """What the seats hold; RuntimeError before a `reset`."""
        if self._state is None:
            raise RuntimeError(f"the seats of {self.lane} are not on the devices: they need a reset")
        return self._state

    def _free(self) -> None:
        """Free what the seats hold of the devices' memory."""
        for leaf in jax.tree.leaves(self._state):
            leaf.delete()
        self._state = None

    def _need_with(self, *, begin: Program | None = None, decode_in_float32: Program | None = None) -> Need:
        """What the lane needs, with programs that it may get."""
        working = self._programs.working(
            begin or self._later.begin,
            decode_in_float32 or self._later.decode_in_float32,
            beside=self._decodes_beside,
        )
        return Need(held=self._shapes.held, working=working)

    @property
    def _decodes_beside(self) -> bool:
        return devices.is_cpu(self._model.mesh)

    def _decoding_queue(self) -> Callable[..., Any]:
        return Beside() if self._decodes_beside else at_once

    def _told(self, wave: Mapping[int, int], prepared: Mapping[int, Prepared]) -> Newcomer[npt.NDArray[Any]]:
        """What the devices are told of a wave of newcomers, on the host."""
        told = self._shapes.nobody()
        for device, seat in wave.items():
            one = prepared[device]
            told.seat[device] = seat % self._shapes.seats_per_device
            told.guidance_scale[device] = one.request.guidance_scale
            told.seed[device] = one.request.seed
            told.init_noise_sigma[device] = one.init_noise_sigma
            told.init_latent_scale[device] = one.init_latent_scale
            told.time_ids[device] = one.time_ids
            told.lora_rows[device], told.lora_scales[device] = one.loras
            told.rows[device] = one.rows
        return told

    def _start(self, prepared: Mapping[int, Prepared], seeds: npt.NDArray[np.uint32]) -> StartPicture:
        """What the newcomer of each device starts from."""
        pictures = {device: one.picture for device, one in prepared.items() if one.picture is not None}
        if not (pictures or self._model.further_channels):
            return self._from_noise
        if (begin := self._later.begin) is None:
            raise DevicesFailed(f"{self.lane} cannot start from pictures: what encodes them is not ready.")
        pixels, mask, present = self._shapes.no_pictures()
        present[list(prepared)] = True
        for device, picture in pictures.items():
            pixels[device], mask[device] = picture.pixels, picture.mask
        return cast("StartPicture", begin(self._model.arrays.vae, pixels, mask, seeds, present))

    def _taken(self, wave: Mapping[int, int]) -> jax.Array:
        chosen = self._shapes.nobody().seat
        for device, seat in wave.items():
            chosen[device] = seat % self._shapes.seats_per_device
        return cast("jax.Array", self._programs.take(self._seated.x, chosen))

    def _decoded(
        self, latents: jax.Array, devices_asked: Iterable[int], *, program: Program | None = None
    ) -> dict[int, Picture]:
        """The pictures of latents (devices, h, w, c), by device."""
        asked = list(devices_asked)
        present = np.zeros(self._shapes.devices, np.bool_)
        present[asked] = True
        decode = program or self._programs.decode
        parameters = self._model.arrays.of_decoding
        decoded = cast("Decoded", self._queue_decoding(decode, parameters, latents, present))
        for rows in decoded:
            rows.copy_to_host_async()
        return {device: Picture(device=device, latents=latents, **decoded._asdict()) for device in asked}

    def _waves(self, seats: Iterable[int]) -> list[dict[int, int]]:
        """Deal seats into waves of at most one for each device: device → seat."""
        waves: list[dict[int, int]] = []
        for seat in seats:
            device = seat // self._shapes.seats_per_device
            wave = next((wave for wave in waves if device not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[device] = seat
        return waves
