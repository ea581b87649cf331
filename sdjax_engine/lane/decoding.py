"""The decoding of finished pictures: which of them share a call, and their way to the host.

A program decodes a fixed number of pictures of each device. A picture has the same bits in any place and
company within one program, and is the same but for rounding in programs of other numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sdjax_engine.compiling.compiler import Program
from sdjax_engine.compiling.decode_thread import DecodeThread, call_directly
from sdjax_engine.compiling.per_device import Shares, call_on
from sdjax_engine.denoising.traced import Decoded
from sdjax_engine.lane.results import Latents, Picture, copied_to_host
from sdjax_engine.lane.rows import SeatGrid
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel

TOGETHER = (2, 4)
"""The numbers of pictures that programs decode besides one."""


def further_sizes(seats_per_device: int) -> list[int]:
    """Return how many pictures the decoders of fitted programs take, the fewest first."""
    return [size for size in TOGETHER if size <= seats_per_device]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Pictures that are decoded by one call: on each device those in its `seats`, at most `size`."""

    size: int
    seats: Mapping[int, Sequence[int]]


def groups_of(
    seats: Sequence[int], sizes: Collection[int], wanted: Mapping[int, int | None], grid: SeatGrid
) -> list[Group]:
    """Divide seats into groups of these sizes, of which 1 is one; a device's first group is decoded first.

    The pictures of a device have as few groups as they fill. A seat with a `wanted` size has it where it is
    there, else 1, and never shares its group with seats that want no size: their groups are the same
    whatever it wants.
    """
    by_device: defaultdict[int, list[int]] = defaultdict(list)
    for seat in seats:
        by_device[grid.device_of(seat)].append(seat)
    found: defaultdict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    for device, own in by_device.items():
        for turn, (size, those) in enumerate(_of_one_device(own, sizes, wanted)):
            found[turn, size][device] = those
    return [Group(size=size, seats=found[turn, size]) for turn, size in sorted(found)]


def _of_one_device(
    seats: Sequence[int], sizes: Collection[int], wanted: Mapping[int, int | None]
) -> Iterator[tuple[int, list[int]]]:
    free = [seat for seat in seats if wanted.get(seat) is None]
    while free:
        size = max(size for size in sizes if size <= len(free))
        yield size, free[:size]
        free = free[size:]
    for seat in seats:
        if (size := wanted.get(seat)) is not None:
            yield size if size in sizes else 1, [seat]


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

    def queue(
        self, program: Program, size: int, latents: Mapping[int, Sequence[Latents]]
    ) -> dict[int, list[Picture]]:
        """Decode latents (1, h, w, c), at most `size` of each device, and start to copy the pictures.

        Places that are left over repeat the device's last picture.
        """
        parameters = self.model.arrays.decoding
        repeated = {device: [*own, *own[-1:] * size][:size] for device, own in latents.items()}
        places = [Shares({device: own[place] for device, own in repeated.items()}) for place in range(size)]
        decoded: Mapping[int, Sequence[Decoded]] = self._call(
            call_on, program, list(latents), parameters, *places
        )
        judged = [self._judged(decoded, latents, place) for place in range(size)]
        return {
            device: [
                self._picture(one, decoded[device][place], judged[place].get(device))
                for place, one in enumerate(own)
            ]
            for device, own in latents.items()
        }

    def _judged(
        self,
        decoded: Mapping[int, Sequence[Decoded]],
        latents: Mapping[int, Sequence[Latents]],
        place: int,
    ) -> Shares:
        """Queue what the picture classifier says of the pictures at a place, by device."""
        classifier = self.model.classifier
        seen = Shares(
            {device: decoded[device][place].seen for device in latents if place < len(latents[device])}
        )
        return Shares() if classifier is None or not seen else classifier.queue(self._call, seen)

    def _picture(self, latents: Latents, decoded: Decoded, probabilities: Any) -> Picture:
        judged = {} if probabilities is None else {"probabilities": probabilities}
        return Picture(
            latents=latents,
            classifier=self.model.classifier,
            **copied_to_host(pixels=decoded.pixels, finite=decoded.finite, scores=decoded.scores, **judged),
        )
