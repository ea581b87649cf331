"""The decoding of finished pictures: which of them share a call, and their way to the host.

A program decodes a fixed number of pictures of each device. At one place of one program the bits of a picture
do not depend on the other pictures. Other places and other programs may round its values differently.

XLA's client for the CPU runs the programs that one thread has queued one after the other on a device,
whatever they depend on, and those of different threads in parallel. Denoising and decoding each leave cores
idle: running them at the same time uses both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from sdjax_engine.compiling.compiler import Program
from sdjax_engine.compiling.per_device import Shares, call_on
from sdjax_engine.daemon_thread import DaemonThread
from sdjax_engine.denoising.traced import Decoded
from sdjax_engine.lane.rows import ALONE, DecoderPlace, SeatGrid
from sdjax_engine.lane.runs import are_ready
from sdjax_engine.lane.verdicts import Verdicts, read_safety_scores
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.model.picture_classifier import PictureClassifier
from sdjax_engine.request import Lane

TOGETHER = (2, 4)
"""The numbers of pictures that programs decode besides one."""

MOST_PIXELS = 1024 * 1024
"""The most pixels of a device that are decoded together in one call.

With more pixels a kernel takes much longer than its launch, so that fewer launches save little.
"""


Latents = jax.Array | npt.NDArray[np.float32]


def further_sizes(lane: Lane, seats_per_device: int) -> list[int]:
    """Return how many pictures the larger decoders of a lane take, the fewest first."""
    most = min(seats_per_device, MOST_PIXELS // (lane.height * lane.width))
    return [size for size in TOGETHER if size <= most]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Pictures that one call decodes: for each device `size` `seats`, one for each place of the program.

    `places` says from which place the picture of a seat is taken.
    """

    size: int
    seats: dict[int, list[int]] = field(default_factory=dict)
    places: dict[int, DecoderPlace] = field(default_factory=dict)


def groups_of(
    seats: Sequence[int], sizes: Collection[int], wanted: Mapping[int, DecoderPlace | None], grid: SeatGrid
) -> list[Group]:
    """Divide seats into groups of the given `sizes`, which include 1.

    A device's first group is decoded first, and each device gets as few groups as possible. A seat with a
    `wanted` place has a group of its own and repeats its picture in every place, so that it does not change
    the groups of other seats. If no decoder has that place, the group has size 1.
    """
    by_device: defaultdict[int, list[int]] = defaultdict(list)
    for seat in seats:
        by_device[grid.device_of(seat)].append(seat)
    found: dict[tuple[int, int], Group] = {}
    for device, own in by_device.items():
        for turn, (those, places) in enumerate(_of_one_device(own, sizes, wanted)):
            group = found.setdefault((turn, len(those)), Group(size=len(those)))
            group.seats[device] = those
            group.places.update(places)
    return [found[each] for each in sorted(found)]


def _of_one_device(
    seats: Sequence[int], sizes: Collection[int], wanted: Mapping[int, DecoderPlace | None]
) -> Iterator[tuple[list[int], dict[int, DecoderPlace]]]:
    """Yield the seats of each group, by place, and the place whose result each seat takes."""
    free = [seat for seat in seats if wanted.get(seat) is None]
    while free:
        size = max(size for size in sizes if size <= len(free))
        together, free = free[:size], free[size:]
        yield together, {seat: DecoderPlace(size, place) for place, seat in enumerate(together)}
    for seat in seats:
        if (place := wanted.get(seat)) is not None:
            there = place.pictures in sizes and 0 <= place.place < place.pictures
            own = place if there else ALONE
            yield [seat] * own.pictures, {seat: own}


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A decoded picture, being copied to the host; every array has one row, `latents` are (1, h, w, c).

    `probabilities` are those of the `classifier`; without one both are None. `programs` says which programs
    made its evaluations and decoded it, as `rows.as_text` does; it is empty where that is not known.
    """

    latents: Latents = field(repr=False)
    pixels: jax.Array = field(repr=False)
    finite: jax.Array = field(repr=False)
    scores: jax.Array = field(repr=False)
    probabilities: jax.Array | None = field(default=None, repr=False)
    classifier: PictureClassifier | None = field(default=None, repr=False)
    programs: str = ""

    @property
    def ready(self) -> bool:
        """Whether the devices have decoded and judged it."""
        return are_ready([self.pixels, self.finite, self.scores, self.probabilities])

    def fetch(self) -> npt.NDArray[np.uint8] | None:
        """Wait for the pixels, uint8 (height, width, 3); None where the picture is not finite."""
        return np.array(np.asarray(self.pixels)[0]) if np.asarray(self.finite)[0] else None

    def fetch_latents(self) -> npt.NDArray[np.float32]:
        """Wait for the latents that it was decoded from, (h, w, c)."""
        return np.array(np.asarray(self.latents)[0])

    def fetch_verdicts(self) -> Verdicts:
        """Wait for what the safety checker and the picture classifier say."""
        scores, classified = np.asarray(self.scores)[0], None
        if self.classifier is not None and self.probabilities is not None:
            classified = self.classifier.read(np.asarray(self.probabilities)[0])
        return Verdicts(safety=read_safety_scores(scores) if scores.size else None, classified=classified)


class DecodeThread:
    """Calls programs in a thread of its own, one after the other; the thread ends with this object."""

    def __init__(self) -> None:
        self._thread = DaemonThread("sdjax-decode")

    def __call__(self, program: Callable[..., Any], *arguments: Any) -> Any:
        """Call a program in the thread; returns its result or raises its error."""
        return self._thread.submit(program, *arguments).result()


def call_directly(program: Callable[..., Any], *arguments: Any) -> Any:
    """Queue a program from the caller's thread: an accelerator has one queue for all threads."""
    return program(*arguments)


@dataclass(kw_only=True, eq=False)
class DecodingQueue:
    """Queues the decoding of a model's pictures; on a CPU beside the other programs."""

    model: LoadedModel
    _call: Callable[..., Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the thread that decodes on a CPU."""
        self._call = DecodeThread() if self.in_parallel else call_directly

    @property
    def in_parallel(self) -> bool:
        """Whether a decoding runs at the same time as another program."""
        return devices.is_cpu(self.model.mesh)

    def restarted(self) -> DecodingQueue:
        """Return another, for a lane whose thread may be stuck."""
        return DecodingQueue(model=self.model)

    def queue(self, program: Program, latents: Mapping[int, Sequence[Latents]]) -> dict[int, list[Picture]]:
        """Decode each device's latents (1, h, w, c), one for each place, and start to copy the pictures.

        `programs` of the pictures is left empty.
        """
        [size] = {len(own) for own in latents.values()}
        places = [Shares({device: own[place] for device, own in latents.items()}) for place in range(size)]
        decoded: Mapping[int, Sequence[Decoded]] = self._call(
            call_on, program, list(latents), self.model.arrays.decoding, *places
        )
        judged = [
            self._judged({device: of[place] for device, of in decoded.items()}) for place in range(size)
        ]
        return {
            device: [
                self._picture(latents[device][place], one, judged[place].get(device))
                for place, one in enumerate(of)
            ]
            for device, of in decoded.items()
        }

    def _judged(self, decoded: Mapping[int, Decoded]) -> Shares:
        """Queue the picture classifier for one picture of each device."""
        if self.model.classifier is None:
            return Shares()
        seen = Shares({device: each.seen for device, each in decoded.items()})
        judged: Shares = self._call(self.model.classifier.queue, seen)
        return judged

    def _picture(self, latents: Latents, decoded: Decoded, probabilities: jax.Array | None) -> Picture:
        judged = {} if probabilities is None else {"probabilities": probabilities}
        return Picture(
            latents=latents,
            classifier=self.model.classifier,
            programs="",
            **copied_to_host(pixels=decoded.pixels, finite=decoded.finite, scores=decoded.scores, **judged),
        )


def copied_to_host(**arrays: jax.Array) -> dict[str, jax.Array]:
    """Return the arrays, whose copies to the host have begun."""
    for array in arrays.values():
        array.copy_to_host_async()
    return arrays
