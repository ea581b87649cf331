"""Devices of the engine without arithmetic: a test decides what becomes of each of their calls.

They keep account of every seat, so that a picture comes out only where each of its evaluations was made once,
in order, after it was admitted; anything else is noted among the `mistakes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.lane.device_lane import Verdicts, Work
from sdjax_engine.model.prepare import Prepared, Text
from sdjax_engine.request import Lane, PromptFacts, Request, Sampler

LANE = Lane(model="scripted", height=8, width=8, guided=True)
TEXT = Text(read="")
FACTS = PromptFacts(tokens=3, limit=75)
NOTHING = np.zeros((1, 1), np.float32)
SHORTAGE = MemoryError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate.")


def prepared(
    *, seed: int = 1, evaluations: int = 4, prompt: str = "anything", second: int | None = None
) -> Prepared:
    """A request of so many evaluations, ready for the devices; `second` are those of its second pass."""
    request = Request(
        prompt=prompt,
        seed=seed,
        num_inference_steps=evaluations,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        height=LANE.height,
        width=LANE.width,
        model=LANE.model,
    )
    return Prepared(
        request=request,
        texts=(TEXT, TEXT),
        facts=(FACTS, FACTS),
        picture=None,
        rows=NOTHING,
        estimates=np.tile(np.array([0.0, 1.0], np.float32), (evaluations, 1)),
        evaluations=evaluations,
        init_noise_sigma=1.0,
        init_latent_scale=0.0,
        loras=(NOTHING, NOTHING),
        second=None if second is None else prepared(seed=seed, evaluations=second, prompt=f"{prompt} again"),
    )


@dataclass(kw_only=True)
class Script:
    """Calls `on_call` with the name of each call before the call does anything; `on_call` may raise.

    Pictures of the seeds in `not_numbers` come out as NaN when they are first decoded.
    """

    on_call: Callable[[str], None] = lambda _name: None
    not_numbers: frozenset[int] = frozenset()
    mistakes: list[str] = field(default_factory=list)
    admitted: Counter[Request] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class ScriptedRun:
    """Evaluations that are made once they are waited for."""

    script: Script
    ready: bool = False
    rows: int = 1

    def wait(self) -> None:
        """Return, unless the script raises."""
        self.script.on_call("wait")


@dataclass(frozen=True, kw_only=True)
class ScriptedPicture:
    """A picture whose pixels are its seed; a `broken` one came out as NaN."""

    script: Script
    seed: int
    broken: bool = False
    ready: bool = False

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Return the pixels, or None if broken, unless the script raises."""
        self.script.on_call("fetch")
        return None if self.broken else pixels_of(self.seed)

    def fetch_verdicts(self) -> Verdicts:
        """Return no verdicts, unless the script raises."""
        self.script.on_call("fetch verdicts")
        return None, None

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Return the latents, unless the script raises."""
        self.script.on_call("fetch latents")
        return latents_of(self.seed)


@dataclass(frozen=True, kw_only=True)
class ScriptedEstimates:
    """Latents that tell the seed of the request in each seat of `seeds`."""

    script: Script
    seats: int
    seeds: Mapping[int, int]
    ready: bool = False

    def fetch(self) -> npt.NDArray[np.float32]:
        """Return the latents, unless the script raises."""
        self.script.on_call("fetch estimates")
        return np.stack([latents_of(self.seeds.get(seat, 0)) for seat in range(self.seats)])


class ScriptedDevices:
    """The devices' side of a lane, with the interface of `DeviceLane`."""

    lane = LANE
    starts_from_pictures = False
    retries = True
    decodes_previews = False
    move_seconds = 0.0
    text_seconds = 0.0

    def __init__(self, script: Script, *, devices: int, seats_per_device: int) -> None:
        self.script = script
        self._devices = devices
        self.seats_per_device = seats_per_device
        self._seats: dict[int, tuple[Prepared, int]] | None = {}

    @property
    def seats(self) -> int:
        """How many seats there are."""
        return self._devices * self.seats_per_device

    def take_moves(self) -> tuple[()]:
        """Return that nothing moves: the model is always on the devices."""
        return ()

    def halve(self) -> bool:
        """Have half the seats on each device; False with one."""
        self.script.on_call("halve")
        if self.seats_per_device == 1:
            return False
        self.seats_per_device //= 2
        self._seats = {}
        return True

    def free(self) -> None:
        """Empty every seat, for good or until a reset."""
        self._seats = {}

    def reset(self) -> None:
        """Empty every seat."""
        self.script.on_call("reset")
        self._seats = {}

    def admit(
        self, newcomers: Mapping[int, Prepared], earlier: Sequence[Work], _waiting: Iterable[Prepared]
    ) -> bool:
        """Let newcomers into their seats."""
        self.script.on_call("admit")
        self.script.admitted.update(each.request for each in newcomers.values())
        for seat, newcomer in newcomers.items():
            self._expect(seat < self.seats, f"there is no seat {seat}")
            self._taken[seat] = newcomer, 0
        return self.has_done(earlier)

    def has_done(self, earlier: Sequence[Work]) -> bool:
        """Whether the earlier work is done."""
        return bool(earlier) and all(work.ready for work in earlier)

    def denoise(self, spans: Mapping[int, tuple[int, int]]) -> ScriptedRun:
        """Make evaluations."""
        self.script.on_call("denoise")
        for seat, (start, stop) in spans.items():
            if seat not in self._taken:
                self._expect(False, f"nobody was admitted to seat {seat}")
                continue
            sitting, done = self._taken[seat]
            self._expect(done == start, f"seat {seat} goes on at {start} instead of {done}")
            self._taken[seat] = sitting, stop
        return ScriptedRun(script=self.script)

    def estimate(self, weights: Mapping[int, tuple[float, float]]) -> ScriptedEstimates:
        """Estimate the latents of these seats, which must have some evaluations."""
        self.script.on_call("estimate")
        for seat in weights:
            self._expect(self._taken[seat][1] > 0, f"seat {seat} has nothing to show yet")
        seeds = {seat: self._taken[seat][0].request.seed for seat in weights}
        return ScriptedEstimates(script=self.script, seats=self.seats, seeds=seeds)

    def decode(self, seats: Sequence[int]) -> dict[int, ScriptedPicture]:
        """Decode the pictures in these seats."""
        self.script.on_call("decode")
        return {seat: self._picture(self._finished(seat)) for seat in seats}

    def decode_again(self, latents: npt.NDArray[np.float32]) -> ScriptedPicture | None:
        """Decode latents that came to no number at first."""
        self.script.on_call("decode again")
        return ScriptedPicture(script=self.script, seed=int(latents[0, 0, 0]))

    @property
    def _taken(self) -> dict[int, tuple[Prepared, int]]:
        self._expect(self._seats is not None, "the seats were not emptied before their use")
        self._seats = {} if self._seats is None else self._seats
        return self._seats

    def _finished(self, seat: int) -> int:
        sitting, done = self._taken[seat]
        self._expect(done == sitting.evaluations, f"seat {seat} is read after {done} evaluations")
        return sitting.request.seed

    def _picture(self, seed: int) -> ScriptedPicture:
        return ScriptedPicture(script=self.script, seed=seed, broken=seed in self.script.not_numbers)

    def _expect(self, right: bool, otherwise: str) -> None:
        if not right:
            self.script.mistakes.append(otherwise)


def pixels_of(seed: int) -> npt.NDArray[Any]:
    """What the picture of a seed looks like."""
    return np.full((1, 1, 3), seed, np.uint8)


def latents_of(seed: int) -> npt.NDArray[Any]:
    """What the picture of a seed is before it is decoded."""
    return np.full((1, 1, 4), seed, np.float32)
