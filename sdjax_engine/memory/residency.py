"""The models whose parameters are on the devices: loaded for work, evicted least recently used first.

An evicted model is kept in the host's memory, in pages that the devices read directly (`pinned_host`) where
the backend has them. Parameters never change, so a second eviction only frees the devices' memory. A queued
program keeps its arguments alive. Parameters are arguments of every call, so no move compiles anything.

    adopt → (bring → work → evicted by another model's bring)*

A thread that hangs in a move may be abandoned, and another continues with the same residency. Moves therefore
change the state in single steps under the lock, which no call of the devices holds, and a step that comes
too late changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from sdjax_engine.errors import DevicesFailed
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Ledger, Need
from sdjax_engine.wording import in_bytes

PINNED = "pinned_host"
KEPT_FREE = 0.06  # of a device's memory: for gaps between arrays, and for memory that is not counted
OLD_SHARE_OF_MEAN = 0.5  # how much of a model's moving mean of seconds remains after a move
POLL_SECONDS = 0.002  # between two looks whether parameters have arrived


class Transport:
    """Copies arrays that every device holds alike to the host's memory and back.

    The host keeps one copy for any number of devices: it is copied to the first device, and from there to the
    others.
    """

    def __init__(self, mesh: Mesh, *, pinned: bool | None = None) -> None:
        self.sharding = NamedSharding(mesh, devices.REPLICATED)
        first = mesh.devices.flat[0]
        kinds = {memory.kind for memory in first.addressable_memories()}
        self._pinned = PINNED in kinds if pinned is None else pinned
        self._first = SingleDeviceSharding(first)
        self._host = SingleDeviceSharding(first, memory_kind=PINNED) if self._pinned else None

    def to_host(self, array: npt.NDArray[Any] | jax.Array) -> Any:
        """Start to copy an array of the host or the devices to the host's memory."""
        if isinstance(array, jax.Array) and len(array.sharding.device_set) > 1:
            array = array.addressable_shards[0].data
        return np.array(array) if self._host is None else jax.device_put(array, self._host)

    def to_devices(self, on_host: Any) -> jax.Array:
        """Start to copy an array of `to_host` to every device."""
        first = on_host if self._host is None else jax.device_put(on_host, self._first)
        placed: jax.Array = jax.device_put(first, self.sharding)
        return placed


class ModelParameters:
    """One model's parameters, a tree of arrays, on the devices or in the host's memory."""

    def __init__(self, name: str, arrays: Any, transport: Transport) -> None:
        self.name = name
        self._transport = transport
        self._deleting = threading.Lock()
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(arrays)
        self._structure = structure
        self.size = sum(leaf.nbytes for leaf in leaves)
        sharding = transport.sharding
        self.shapes: Any = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),  # type: ignore[no-untyped-call]
            arrays,
        )
        placed = [isinstance(leaf, jax.Array) and leaf.sharding == sharding for leaf in leaves]
        # A leaf is None on the host until its first eviction.
        self._on_host: list[Any] = [
            None if there else leaf for leaf, there in zip(leaves, placed, strict=True)
        ]
        self._on_devices: list[Any] = [
            leaf if there else None for leaf, there in zip(leaves, placed, strict=True)
        ]
        self._arrays: Any = arrays if all(placed) else None

    @property
    def resident(self) -> bool:
        """Whether they are on the devices, or on their way."""
        return self._arrays is not None

    @property
    def arrays(self) -> Any:
        """The parameters on the devices; RuntimeError where they are evicted."""
        if self._arrays is None:
            raise RuntimeError(f"the parameters of {self.name} are not on the devices")
        return self._arrays

    def copied_to_devices(self) -> list[jax.Array]:
        """Start to copy the parameters to the devices; raises the devices' error."""
        self._copy_to_host()  # whatever an abandoned thread left undone
        return [self._transport.to_devices(leaf) for leaf in self._on_host]

    def use(self, leaves: list[jax.Array]) -> None:
        """Take copies of `copied_to_devices` as the parameters."""
        self._on_devices = list(leaves)
        self._arrays = self._structure.unflatten(leaves)

    def evict(self) -> None:
        """Free the devices' memory once queued work has ended; the first time, copy to the host before."""
        self._arrays = None
        self._copy_to_host()

    def free(self) -> None:
        """Free the memory of the devices and the host, for good."""
        self._arrays = None
        for leaf in self._on_devices:
            if leaf is not None:
                self._delete(leaf)
        self._on_devices, self._on_host = [], []

    def is_on_its_way(self, leaf: Any) -> bool:
        """Whether one of the parameters has neither arrived nor been evicted again.

        JAX 0.10.2 crashes if it is asked about a deleted array, or if an array is deleted while another
        thread waits for it. Callers therefore poll, under the lock that `_delete` takes.
        """
        with self._deleting:
            return not (leaf.is_deleted() or leaf.is_ready())

    def _delete(self, leaf: jax.Array) -> None:
        with self._deleting:
            leaf.delete()

    def _copy_to_host(self) -> None:
        """Copy and free array by array: neither side ever holds all of it twice."""
        leaves = self._on_devices
        for index, leaf in enumerate(leaves):
            if leaf is None:
                continue
            if self._on_host[index] is None:
                self._on_host[index] = self._transport.to_host(leaf)
            self._delete(leaf)
            leaves[index] = None


class Arrivals:
    """Places the parameters of a model while it is read: on the devices as long as they have room."""

    def __init__(self, transport: Transport, room: int | None) -> None:
        self._transport = transport
        self._room = room

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Return the array on every device, or in the host's memory once the devices' room is used up."""
        if self._room is not None:
            self._room -= array.nbytes
            if self._room < 0:
                return self._transport.to_host(array)
        placed: jax.Array = jax.device_put(array, self._transport.sharding)
        return placed


class Residency:
    """The models of an engine and the devices' memory; `budget` is in bytes of each device (None: no limit).

    Each device has `most` bytes (None: unknown). `bring` and `leave_alone` are called by the thread that
    queues the devices' work.
    """

    def __init__(
        self,
        mesh: Mesh,
        budget: int | None = None,
        *,
        most: int | None = None,
        pinned: bool | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._transport = Transport(mesh, pinned=pinned)
        self._ledger = Ledger(budget)
        self._given = budget
        self._most = most
        self._models: dict[str, ModelParameters] = {}
        self._latest: str | None = None  # the model of the last `bring`, unless the ledger changed since
        self._seconds: dict[str, float] = {}
        self._clock = clock
        self._lock = threading.Lock()
        self._measuring: list[threading.Thread] = []

    @property
    def budget(self) -> int | None:
        """How many bytes of each device may be used; None without a limit."""
        return self._ledger.budget

    def or_raise_it(self, lacking: int) -> str:
        """Return the end of a sentence about too little memory; empty where a larger budget does not help."""
        wanted = (self.budget or 0) + lacking
        # A shortage lowers the ledger's budget below the given one, and would lower a larger one too.
        too_small = self._given is not None and self._given < wanted
        there = self._most is None or wanted <= self._most
        return ", or raise device_memory_gib" if too_small and there else ""

    @property
    def taken(self) -> int:
        """How many bytes of each device are in use, or may be at any moment."""
        with self._lock:
            return self._ledger.taken

    def arrivals(self) -> Arrivals:
        """Return where to put the parameters of the next model while it is read."""
        with self._lock:
            return Arrivals(self._transport, self._ledger.room)

    def adopt(self, name: str, arrays: Any) -> ModelParameters:
        """Add a model's parameters; they go to the devices if there is room without an eviction.

        Raises DevicesFailed if they never fit.
        """
        parameters = ModelParameters(name, arrays, self._transport)
        with self._lock:
            if not self._ledger.enter(name, parameters.size):
                raise DevicesFailed(self._too_large(name, parameters.size))
            self._models[name] = parameters
            fits = self._ledger.room is None or parameters.size <= self._ledger.room
        if fits:
            self.bring(name)
        else:
            parameters.evict()
        return parameters

    def _too_large(self, name: str, size: int) -> str:
        """Return the sentence about a model that never fits."""
        needed, budget = self._ledger.reserved, self._ledger.budget or 0
        beside = f" beside {in_bytes(needed)} for the work on it" if needed else ""
        lacking = size + needed - budget
        return (
            f"The parameters of {name} take {in_bytes(size)}{beside}, and a device has {in_bytes(budget)}, "
            f"{in_bytes(lacking)} too little: offer a smaller model{self.or_raise_it(lacking)}."
        )

    def drop(self, name: str) -> None:
        """Forget a model, and free its parameters once queued work has ended; nothing for an unknown one."""
        with self._lock:
            parameters = self._models.pop(name, None)
            self._ledger.leave(name)
            self._latest = None
            self._seconds.pop(name, None)
        if parameters is not None:
            parameters.free()

    def claim(self, owner: Hashable, need: Need) -> bool:
        """Reserve memory besides the models; False where the largest of them would not fit any more."""
        with self._lock:
            self._latest = None
            return self._ledger.claim(owner, need)

    def lacking(self, owner: Hashable, need: Need) -> int:
        """Return how many bytes of each device are too few for a claim, beside the largest model."""
        with self._lock:
            return self._ledger.lacking(owner, need)

    def release(self, owner: Hashable) -> None:
        """Give back the claim of `owner`, if any."""
        with self._lock:
            self._ledger.release(owner)

    def bring(self, name: str) -> None:
        """Load a model's parameters if they are evicted, after evicting others; raises the devices' error."""
        parameters = self._models[name]
        if self._latest == name and parameters.resident:
            return
        with self._lock:
            evicted = self._ledger.bring(name)
            self._latest = name
        for other in evicted:
            self._models[other].evict()
        if parameters.resident:
            return
        started = self._clock()
        try:
            leaves = parameters.copied_to_devices()
        except Exception:
            with self._lock:
                if not parameters.resident:
                    self._ledger.lose(name)
            raise
        with self._lock:
            # An abandoned thread comes here late: its successor has loaded the model, or evicted it again.
            if parameters.resident or name not in self._ledger.resident:
                return
            parameters.use(leaves)
        self._measure(parameters, self._clock() - started)

    def settle(self) -> None:
        """Return once everything on its way has arrived and no thread waits for it."""
        with self._lock:
            measuring, self._measuring = self._measuring, []
        for each in measuring:
            each.join()

    def leave_alone(self, name: str) -> bool:
        """Evict all other models, and never load all of these together again; returns whether any was."""
        with self._lock:
            evicted = self._ledger.tighten(name)
            self._latest = None
        for other in evicted:
            self._models[other].evict()
        return bool(evicted)

    def move_seconds(self, name: str) -> float:
        """How long loading this model takes, a moving mean; 0 where it is resident or was never moved."""
        return 0.0 if self._models[name].resident else self._seconds.get(name, 0.0)

    def lines(self) -> list[str]:
        """Return the lines for the start-up: none where there is room for everything."""
        with self._lock:
            models, resident = self._ledger.models, self._ledger.resident
        if len(resident) == len(models):
            return []
        count = "1 model" if len(resident) == 1 else f"{len(resident)} models"
        verb = "is" if len(resident) == 1 else "are"
        away = ", ".join(name for name in models if name not in resident)
        line = f"{count} of {len(models)} {verb} on the devices: {', '.join(resident) or 'none'}"
        return [f"{line}; in the host's memory until used: {away}"]

    def _measure(self, parameters: ModelParameters, queueing: float) -> None:
        """Measure, in a thread, how long the parameters take: from the first array's arrival to the last's.

        The time before the first array's arrival belongs to earlier work, except for the queueing.
        """
        leaves = jax.tree.leaves(parameters.arrays)
        thread = threading.Thread(
            target=self._learn, args=(parameters, leaves, queueing), name="sdjax-moving", daemon=True
        )
        thread.start()
        with self._lock:
            self._measuring = [*(each for each in self._measuring if each.is_alive()), thread]

    def _learn(self, parameters: ModelParameters, leaves: Sequence[jax.Array], queueing: float) -> None:
        begun: float | None = None
        for leaf in leaves:
            while parameters.is_on_its_way(leaf):
                time.sleep(POLL_SECONDS)
            begun = self._clock() if begun is None else begun
        if begun is None or any(leaf.is_deleted() for leaf in leaves):  # evicted again meanwhile
            return
        seconds = queueing + self._clock() - begun
        name = parameters.name
        before = self._seconds.get(name, seconds)
        self._seconds[name] = OLD_SHARE_OF_MEAN * before + (1 - OLD_SHARE_OF_MEAN) * seconds


def usable_memory(mesh: Mesh, configured: int) -> int | None:
    """Return how many bytes of each device may be used; None where neither configured nor known."""
    return configured or reported_memory(mesh)


def reported_memory(mesh: Mesh) -> int | None:
    """Return how many bytes of each device may be used by what the devices report; None where they do not.

    A GPU reports the share of its memory that JAX takes: three quarters, unless the environment variable
    XLA_PYTHON_CLIENT_MEM_FRACTION names another.
    """
    stats = [each.memory_stats() or {} for each in mesh.devices.flat]
    limits = [int(each["bytes_limit"]) for each in stats if "bytes_limit" in each]
    return int(min(limits) * (1 - KEPT_FREE)) if limits else None


def most_memory(mesh: Mesh) -> int | None:
    """Return how many bytes each device has, on the CPU its part of the host's memory; None where unknown."""
    if not devices.is_cpu(mesh):
        return reported_memory(mesh)
    return devices.host_memory() // devices.device_count(mesh)
