"""Which models' parameters lie on the devices: brought there for work, moved out least recently used first.

What a model moved out is kept in the host's memory from then on, in pages that the devices read directly
(`pinned_host`) where the backend has such: parameters never change, so that moving it out again only frees
its memory. A program that has been queued keeps its arguments alive by itself. Programs are given the
parameters with every call, so that no move compiles anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Ledger, Need
from sdjax_engine.request import DevicesFailed
from sdjax_engine.wording import in_bytes

PINNED = "pinned_host"
KEPT_FREE = 0.06  # of what a device says it has: lost between arrays, and to what nobody counts
MEMORY_OF_MEAN = 0.5  # how much of the moving mean of a model's seconds a move leaves as it was

Clock = Callable[[], float]


class Transport:
    """Copies arrays that every device holds alike to the host's memory and back.

    One copy is kept on the host, whatever the number of devices: it goes to the first device, and from
    there to the others.
    """

    def __init__(self, mesh: Mesh, *, pinned: bool | None = None) -> None:
        self.sharding = NamedSharding(mesh, devices.REPLICATED)
        first = mesh.devices.flat[0]
        kinds = {memory.kind for memory in first.addressable_memories()}
        self._pinned = PINNED in kinds if pinned is None else pinned
        self._first = SingleDeviceSharding(first)
        self._host = SingleDeviceSharding(first, memory_kind=PINNED) if self._pinned else None

    def keep(self, array: npt.NDArray[Any] | jax.Array) -> Any:
        """Return an array of the host or the devices in the host's memory; the copy is under way."""
        if isinstance(array, jax.Array) and len(array.sharding.device_set) > 1:
            array = array.addressable_shards[0].data
        return np.array(array) if self._host is None else jax.device_put(array, self._host)

    def place(self, kept: Any) -> jax.Array:
        """Return what was kept on every device; the copy is under way."""
        first = kept if self._host is None else jax.device_put(kept, self._first)
        placed: jax.Array = jax.device_put(first, self.sharding)
        return placed


class Held:
    """One model's parameters, a tree of arrays, on the devices or in the host's memory."""

    def __init__(self, name: str, arrays: Any, transport: Transport) -> None:
        self.name = name
        self._transport = transport
        leaves: list[Any] = jax.tree.leaves(arrays)
        self.size = sum(leaf.nbytes for leaf in leaves)
        sharding = transport.sharding
        self.shapes: Any = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),  # type: ignore[no-untyped-call]
            arrays,
        )
        whole = all(isinstance(leaf, jax.Array) and leaf.sharding == sharding for leaf in leaves)
        self._kept: Any = None if whole else self._moved_off(arrays)
        self._arrays: Any = arrays if whole else None

    @property
    def there(self) -> bool:
        """Whether they are on the devices, or on their way."""
        return self._arrays is not None

    @property
    def arrays(self) -> Any:
        """The parameters on the devices; RuntimeError where they were moved out."""
        if self._arrays is None:
            raise RuntimeError(f"the parameters of {self.name} are not on the devices")
        return self._arrays

    def come(self) -> None:
        """Start on the way to the devices; raises what they say."""
        self._arrays = jax.tree.map(self._transport.place, self._kept)

    def go(self) -> None:
        """Free the devices' memory, once what is queued is done with it; the first time, copy first."""
        if self._arrays is None:
            return
        arrays, self._arrays = self._arrays, None
        if self._kept is None:
            self._kept = self._moved_off(arrays)
        else:
            for leaf in jax.tree.leaves(arrays):
                leaf.delete()

    def _moved_off(self, arrays: Any) -> Any:
        """Copy to the host and delete, array by array: neither side ever holds all of it twice."""

        def move(leaf: Any) -> Any:
            kept = leaf
            if isinstance(leaf, jax.Array) and leaf.sharding == self._transport.sharding:
                kept = self._transport.keep(leaf)
                leaf.delete()
            return kept

        return jax.tree.map(move, arrays)


class Arrivals:
    """Places the parameters of a model that is being read: on the devices, as long as they have room."""

    def __init__(self, transport: Transport, room: int | None) -> None:
        self._transport = transport
        self._room = room

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Return the array on every device, or, once one found no room, in the host's memory."""
        if self._room is not None:
            self._room -= array.nbytes
            if self._room < 0:
                return self._transport.keep(array)
        placed: jax.Array = jax.device_put(array, self._transport.sharding)
        return placed


class Residency:
    """The models of an engine and the devices' memory; `budget` is in bytes of each device (None: no limit).

    `bring` and `leave_alone` belong to the one thread that gives the devices work.
    """

    def __init__(
        self,
        mesh: Mesh,
        budget: int | None = None,
        *,
        pinned: bool | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._transport = Transport(mesh, pinned=pinned)
        self._ledger = Ledger(budget)
        self._held: dict[str, Held] = {}
        self._seconds: dict[str, float] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._learning: list[threading.Thread] = []

    @property
    def budget(self) -> int | None:
        """How many bytes of each device may be used; None without a limit."""
        return self._ledger.budget

    @property
    def taken(self) -> int:
        """How many bytes of each device are in use, or may be at any moment."""
        with self._lock:
            return self._ledger.taken

    def arrivals(self) -> Arrivals:
        """Where to put the parameters of the next model while it is read."""
        with self._lock:
            return Arrivals(self._transport, self._ledger.room)

    def adopt(self, name: str, arrays: Any) -> Held:
        """Take over a model's parameters; they go to the devices if there is room without moving anything.

        Raises DevicesFailed if there never can be.
        """
        held = Held(name, arrays, self._transport)
        with self._lock:
            if not self._ledger.enter(name, held.size):
                raise DevicesFailed(too_large(name, held.size, self._ledger))
            self._held[name] = held
            fits = self._ledger.room is None or held.size <= self._ledger.room
        if fits:
            self.bring(name)
        else:
            held.go()
        return held

    def claim(self, who: Hashable, need: Need) -> bool:
        """Reserve memory beside the models; False where the largest of them would not fit any more."""
        with self._lock:
            return self._ledger.claim(who, need)

    def release(self, who: Hashable) -> None:
        """Give back what `who` has claimed, if anything."""
        with self._lock:
            self._ledger.release(who)

    def bring(self, name: str) -> None:
        """Make a model's parameters be there, others being moved out first; raises what the devices say."""
        held = self._held[name]
        with self._lock:
            gone = self._ledger.bring(name)
        for other in gone:
            self._held[other].go()
        if held.there:
            return
        started = self._clock()
        try:
            held.come()
        except Exception:
            with self._lock:
                self._ledger.lose(name)
            raise
        self._watch(held, self._clock() - started)

    def settle(self) -> None:
        """Return once everything on its way has arrived and no thread waits for it."""
        with self._lock:
            learning, self._learning = self._learning, []
        for each in learning:
            each.join()

    def leave_alone(self, name: str) -> bool:
        """Move out every other model, and never again have as much there; whether there was any."""
        with self._lock:
            gone = self._ledger.tighten(name)
        for other in gone:
            self._held[other].go()
        return bool(gone)

    def move_seconds(self, name: str) -> float:
        """How long bringing this model takes, a moving mean; 0 where it is there or was never moved."""
        return 0.0 if self._held[name].there else self._seconds.get(name, 0.0)

    def lines(self) -> list[str]:
        """What is to be said of it at the start: nothing where there is room for everything."""
        with self._lock:
            models, there = self._ledger.models, self._ledger.there
        if len(there) == len(models):
            return []
        count = "1 model" if len(there) == 1 else f"{len(there)} models"
        verb = "is" if len(there) == 1 else "are"
        away = ", ".join(name for name in models if name not in there)
        line = f"{count} of {len(models)} {verb} on the devices: {', '.join(there) or 'none'}"
        return [f"{line}; in the host's memory until used: {away}"]

    def _watch(self, held: Held, queueing: float) -> None:
        """Learn, aside, how long the parameters take: from the first one's arrival to the last one's.

        What the devices did before the first was not the move's time, the queueing was.
        """
        leaves = jax.tree.leaves(held.arrays)
        learning = threading.Thread(
            target=self._learn, args=(held.name, leaves, queueing), name="sdjax-moving", daemon=True
        )
        learning.start()
        with self._lock:
            self._learning = [*(each for each in self._learning if each.is_alive()), learning]

    def _learn(self, name: str, leaves: Iterable[jax.Array], queueing: float) -> None:
        first, *others = leaves
        try:
            first.block_until_ready()
            begun = self._clock()
            jax.block_until_ready(others)  # type: ignore[no-untyped-call]
        except RuntimeError:  # moved out again meanwhile, or failed: whoever uses them is told
            return
        seconds = queueing + self._clock() - begun
        before = self._seconds.get(name, seconds)
        self._seconds[name] = MEMORY_OF_MEAN * before + (1 - MEMORY_OF_MEAN) * seconds


def usable_memory(mesh: Mesh, configured: int) -> int | None:
    """How many bytes of each device may be used: as configured, or what they say; None: they say nothing."""
    if configured:
        return configured
    stats = [each.memory_stats() or {} for each in mesh.devices.flat]
    limits = [int(each["bytes_limit"]) for each in stats if "bytes_limit" in each]
    return int(min(limits) * (1 - KEPT_FREE)) if limits else None


def too_large(name: str, size: int, ledger: Ledger) -> str:
    """The sentence about a model that can never be there."""
    beside = f" beside {in_bytes(ledger.beside)} for the work on it" if ledger.beside else ""
    return (
        f"The parameters of {name} take {in_bytes(size)}{beside}, and a device has "
        f"{in_bytes(ledger.budget or 0)}: offer a smaller model, or raise device_memory."
    )
