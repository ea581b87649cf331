"""The devices' memory: its account, and the models whose parameters are on the devices.

Models are loaded for work, and evicted least recently used first. An evicted model is kept in the host's
memory, in pages that the devices read directly (`pinned_host`) where the backend has them. Parameters never
change, so a second eviction only frees the devices' memory. A queued program keeps its arguments alive.
Parameters are arguments of every call, so no move compiles anything.

    arrival → adopt → (bring → work → evicted by another model's bring, or by a claim)*

The account is in bytes of one device:

    budget = parameters of the resident models            evicted to the host, least recently used first
           + what arriving models, lanes, encodings hold  allocated all the time
           + the most that any program needs while it runs

Whatever changes what the devices hold is a chore of the thread that owns them: a claim of memory with the
evictions that it needs, seats that are allocated or freed, models that arrive or leave. Chores are done one
after another, between two runs. Compiling and reading files are no chores.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from sdjax_engine.errors import DevicesFailed, in_bytes
from sdjax_engine.memory import devices

Result = TypeVar("Result")


class Owner:
    """The owner of devices that only one thread uses, as before an engine is open: it does chores at once."""

    def do(self, chore: Callable[[], Result]) -> Result:
        """Return what a chore returns, or raise its error."""
        return chore()

    def submit(self, chore: Callable[[], object]) -> None:
        """Have a chore done, at once or later."""
        chore()

    def wait_for(self, fetch: Callable[[], Result]) -> Result:
        """Return what `fetch` returns, which waits for the devices' work and gives them none."""
        return fetch()


@dataclass(frozen=True, kw_only=True)
class Need:
    """What an owner needs besides the models' parameters: `held` all the time, `working` while it runs."""

    held: int = 0
    working: int = 0


Needs = dict[Hashable, Need]
"""The needs of all owners besides the models."""


class Ledger:
    """The models, the resident ones, and the other owners' needs; a `budget` of None is no limit.

    Each model fits into the budget when all others are evicted, and the host keeps `host` bytes of evicted
    models (None: no limit): where all models together are larger, all must fit into the budget at once.
    `enter` and `claim` refuse a model or a need that would break this rule. `bring` and `claim` return the
    models to evict before the memory is used.
    """

    def __init__(self, budget: int | None, host: int | None = None) -> None:
        self.budget = budget
        self.host = host
        self._sizes: dict[str, int] = {}
        self._resident: dict[str, None] = {}  # the least recently used first
        self._needs: Needs = {}
        self._too_much: set[frozenset[str]] = set()  # models for which there was too little memory together

    @property
    def models(self) -> tuple[str, ...]:
        """Every model, in the order of `enter`."""
        return tuple(self._sizes)

    @property
    def resident(self) -> tuple[str, ...]:
        """The models on the devices, the least recently used first."""
        return tuple(self._resident)

    @property
    def reserved(self) -> int:
        """The memory that is reserved besides the models."""
        return reserved(self._needs)

    @property
    def taken(self) -> int:
        """The memory that is in use, or may be at any moment; any thread may read this."""
        # The copy is made at once, and a model may leave before its size is read.
        return sum(self._sizes.get(name, 0) for name in tuple(self._resident)) + self.reserved

    @property
    def room(self) -> int | None:
        """The memory that is left without an eviction; None without a limit."""
        return None if self.budget is None else max(self.budget - self.taken, 0)

    def enter(self, name: str, size: int) -> bool:
        """Add a model, not yet resident; False where it never fits."""
        sizes = {**self._sizes, name: size}
        if self.budget is not None and self.most_at_once(sizes) + self.reserved > self.budget:
            return False
        self._sizes = sizes
        return True

    def claim(self, owner: Hashable, need: Need) -> list[str] | None:
        """Reserve what `owner` needs, in place of its earlier claim; None, and no change, without room.

        Returns the models that it displaces, to evict before the memory is used.
        """
        if self.lacking(owner, need):
            return None
        self._needs = self._needs | {owner: need}
        return self._displaced()

    def lacking(self, owner: Hashable, need: Need) -> int:
        """Return how many bytes are missing for what `owner` needs, in place of its earlier claim."""
        wanted = self.most_at_once(self._sizes) + reserved(self._needs | {owner: need})
        return 0 if self.budget is None else max(wanted - self.budget, 0)

    def need_of(self, owner: Hashable) -> Need:
        """Return what an owner has claimed."""
        return self._needs.get(owner, Need())

    def release(self, owner: Hashable, *, down_to: Need | None = None) -> None:
        """Give back the claim of `owner`, if any; of a larger claim keep `down_to`."""
        others = {other: need for other, need in self._needs.items() if other != owner}
        self._needs = others if down_to is None else others | {owner: down_to}

    def bring(self, name: str) -> list[str]:
        """Count a model as resident and the latest in use; return the models to evict before it is loaded."""
        self._resident.pop(name, None)
        self._resident[name] = None
        return self._displaced()

    def leave(self, name: str) -> None:
        """Forget a model; nothing for an unknown one."""
        self._sizes.pop(name, None)
        self._resident.pop(name, None)
        self._too_much = {models for models in self._too_much if name not in models}

    def lose(self, name: str) -> None:
        """Count a model as not resident."""
        self._resident.pop(name, None)

    def stay(self, names: Sequence[str]) -> None:
        """Count models as resident that could not be evicted, as the least recently used."""
        self._resident = dict.fromkeys(names) | self._resident

    def tighten(self, name: str) -> list[str]:
        """Learn that the resident models are too much: they are never all resident together again.

        Returns the models to evict so that `name` is alone; none where the host cannot keep them.
        """
        evicted = [other for other in self._resident if other != name]
        if not self._fits_host(self._sizes):
            return []
        if evicted:
            # A lower budget alone is not enough: it must hold the largest model, resident or not.
            self._too_much.add(frozenset(self._resident))
            self.budget = max(self.taken - 1, self.most_at_once(self._sizes) + self.reserved)
            self._resident = {name: None} if name in self._resident else {}
        return evicted

    def most_at_once(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes of the models that must fit at once: the largest, or all that no host can keep."""
        return max(sizes.values(), default=0) if self._fits_host(sizes) else sum(sizes.values())

    def _fits_host(self, sizes: Mapping[str, int]) -> bool:
        return self.host is None or sum(sizes.values()) <= self.host

    def _displaced(self) -> list[str]:
        """Count models as evicted, the least recently used first, while the others are too much."""
        evicted = []
        while len(self._resident) > 1 and self._exceeds():
            evicted.append(next(iter(self._resident)))
            del self._resident[evicted[-1]]
        return evicted

    def _exceeds(self) -> bool:
        """Whether the resident models need more than the budget, or were too much before."""
        over_budget = self.budget is not None and self.taken > self.budget
        return over_budget or any(models <= self._resident.keys() for models in self._too_much)


def reserved(needs: Needs) -> int:
    """Return the memory for these needs: all that is held, and the most that one uses while it works."""
    held = sum(need.held for need in needs.values())
    return held + max((need.working for need in needs.values()), default=0)


PINNED = "pinned_host"
KEPT_FREE = 0.06  # of a device's memory: for gaps between arrays, and for memory that is not counted
OLD_SHARE_OF_MEAN = 0.5  # how much of a model's moving mean of seconds remains after a move
HOST_SHARE = 0.75  # of the host's memory that evicted models may take


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
            None if is_placed else leaf for leaf, is_placed in zip(leaves, placed, strict=True)
        ]
        self._on_devices: list[Any] = [
            leaf if is_placed else None for leaf, is_placed in zip(leaves, placed, strict=True)
        ]
        self._arrays: Any = arrays if all(placed) else None

    @property
    def resident(self) -> bool:
        """Whether they are on the devices, or on their way."""
        return self._arrays is not None

    @property
    def takes_memory(self) -> bool:
        """Whether any of them is on the devices, as after an eviction that failed."""
        return any(leaf is not None for leaf in self._on_devices)

    @property
    def arrays(self) -> Any:
        """The parameters on the devices; RuntimeError where they are evicted."""
        if self._arrays is None:
            raise RuntimeError(f"the parameters of {self.name} are not on the devices")
        return self._arrays

    def load(self) -> None:
        """Start to copy the parameters to the devices; raises the devices' error."""
        self._copy_to_host()  # what an eviction that failed has left undone
        self._on_devices = [self._transport.to_devices(leaf) for leaf in self._on_host]
        self._arrays = self._structure.unflatten(self._on_devices)

    def evict(self) -> None:
        """Free the devices' memory once queued work has ended; the first time, copy to the host before."""
        self._arrays = None
        self._copy_to_host()

    def free(self) -> None:
        """Free the memory of the devices and the host, for good."""
        self._arrays = None
        for leaf in self._on_devices:
            if leaf is not None:
                leaf.delete()
        self._on_devices, self._on_host = [], []

    def wait(self) -> None:
        """Return once the parameters have arrived; at once where they are evicted."""
        jax.block_until_ready(self._arrays)  # type: ignore[no-untyped-call]

    def _copy_to_host(self) -> None:
        """Copy and free array by array: neither side ever holds all of it twice."""
        leaves = self._on_devices
        for index, leaf in enumerate(leaves):
            if leaf is None:
                continue
            if self._on_host[index] is None:
                self._on_host[index] = self._transport.to_host(leaf)
            leaf.delete()
            leaves[index] = None


class Arrival:
    """A model that is being read, in the account from its first byte: call `expect` before `put`.

    Its claim ends when the model is adopted, or with this object where that never happens.
    """

    def __init__(self, name: str, residency: Residency, transport: Transport) -> None:
        self.owner = f"arriving {name} {next(NUMBERS)}"
        self._residency = residency
        self._transport = transport
        self._has_room = False
        release = partial(residency.release, self.owner)
        weakref.finalize(self, lambda: residency.owner.submit(release)).atexit = False

    def expect(self, size: int) -> None:
        """Claim `size` bytes of each device, in place of an earlier claim, if that evicts no other model."""
        self._has_room = self._residency.owner.do(partial(self._residency.expect, self.owner, size))

    def put(self, array: npt.NDArray[Any]) -> Any:
        """Return the array on every device, or in the host's memory where the devices have no room."""
        if not self._has_room:
            return self._transport.to_host(array)
        placed: jax.Array = jax.device_put(array, self._transport.sharding)
        return placed


NUMBERS = itertools.count(1)


class Residency:
    """The models of an engine and the devices' memory; `budget` is in bytes of each device (None: no limit).

    Each device has `most` bytes (None: unknown); evicted models may take `host` bytes of the host's memory.
    Every method is called by the thread that owns the devices: other threads have `owner` do it.
    """

    def __init__(
        self,
        mesh: Mesh,
        budget: int | None = None,
        *,
        most: int | None = None,
        host: int | None = None,
        pinned: bool | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.owner = Owner()
        self._transport = Transport(mesh, pinned=pinned)
        self._ledger = Ledger(budget, host)
        self._configured = budget
        self._most = most
        self._models: dict[str, ModelParameters] = {}
        self._seconds: dict[str, float] = {}
        self._clock = clock

    @property
    def budget(self) -> int | None:
        """How many bytes of each device may be used; None without a limit."""
        return self._ledger.budget

    def or_raise_it(self, lacking: int) -> str:
        """Return the end of a sentence about too little memory; empty where a larger budget does not help."""
        wanted = (self.budget or 0) + lacking
        # A shortage lowers the ledger's budget below the given one, and would lower a larger one too.
        too_small = self._configured is not None and self._configured < wanted
        possible = self._most is None or wanted <= self._most
        return ", or raise device_memory_gib" if too_small and possible else ""

    @property
    def taken(self) -> int:
        """How many bytes of each device are in use, or may be at any moment; any thread may read this."""
        return self._ledger.taken

    def arrival(self, name: str) -> Arrival:
        """Return where to put the parameters of a model while it is read; any thread may call this."""
        return Arrival(name, self, self._transport)

    def expect(self, owner: Hashable, size: int) -> bool:
        """Claim `size` bytes for an arriving model; False, and no change, if that would evict a model."""
        room = self._ledger.room
        fits = room is None or size <= room + self._ledger.need_of(owner).held
        if fits:
            self.claim(owner, Need(held=size))
        return fits

    def adopt(self, name: str, arrays: Any, *, arrival: Hashable = None) -> ModelParameters:
        """Add a model's parameters in place of the claim of its `arrival`.

        They go to the devices if there is room without an eviction. Frees them and raises DevicesFailed if
        they never fit.
        """
        parameters = ModelParameters(name, arrays, self._transport)
        self.release(arrival)
        if not self._ledger.enter(name, parameters.size):
            parameters.free()  # at once: the error may keep the arrays, and no account has them
            raise DevicesFailed(self._too_large(name, parameters.size))
        self._models[name] = parameters
        try:
            if self._ledger.room is None or parameters.size <= self._ledger.room:
                self.bring(name)
            else:
                parameters.evict()
        except Exception:
            self.drop(name)
            raise
        return parameters

    def _too_large(self, name: str, size: int) -> str:
        """Return the sentence about a model that never fits."""
        needed, budget = self._ledger.reserved, self._ledger.budget or 0
        if size + needed <= budget:
            return (
                f"The devices cannot hold {name}, {in_bytes(size)}, beside all other models, and the host's "
                f"memory has {in_bytes(self._ledger.host or 0)} for models in turn: offer fewer models."
            )
        beside = f" beside {in_bytes(needed)} for the work on it" if needed else ""
        lacking = size + needed - budget
        return (
            f"The parameters of {name} take {in_bytes(size)}{beside}, and a device has {in_bytes(budget)}, "
            f"{in_bytes(lacking)} too little: offer a smaller model{self.or_raise_it(lacking)}."
        )

    def drop(self, name: str) -> None:
        """Forget a model, and free its parameters once queued work has ended; nothing for an unknown one."""
        self._ledger.leave(name)
        self._seconds.pop(name, None)
        if (parameters := self._models.pop(name, None)) is not None:
            parameters.free()

    def claim(self, owner: Hashable, need: Need) -> bool:
        """Reserve memory besides the models, after evicting those that it displaces.

        False, and no change, where the largest model would not fit any more.
        """
        before = self._ledger.need_of(owner)
        displaced = self._ledger.claim(owner, need)
        try:
            self._evict(displaced or ())
        except Exception:
            self._ledger.release(owner, down_to=before)
            raise
        return displaced is not None

    def lacking(self, owner: Hashable, need: Need) -> int:
        """Return how many bytes of each device are too few for a claim, beside the largest model."""
        return self._ledger.lacking(owner, need)

    def release(self, owner: Hashable) -> None:
        """Give back the claim of `owner`, if any."""
        self._ledger.release(owner)

    def bring(self, name: str) -> bool:
        """Load a model's parameters if they are evicted, after evicting others, and return whether they were.

        Raises the devices' error.
        """
        parameters = self._models[name]
        try:
            self._evict(self._ledger.bring(name))
            if parameters.resident:
                return False
            parameters.load()
        except Exception:
            if not parameters.takes_memory:
                self._ledger.lose(name)
            raise
        return True

    def settle(self) -> None:
        """Return once everything on its way has arrived."""
        for parameters in self._models.values():
            parameters.wait()

    def leave_alone(self, name: str) -> bool:
        """Evict all other models, and never load all of these together again; returns whether any was."""
        displaced = self._ledger.tighten(name)
        self._evict(displaced)
        return bool(displaced)

    def finish_move(self, name: str, since: float) -> None:
        """Wait until the parameters that `bring` loads have arrived; raises the devices' error.

        The devices have waited for them `since` that time of the clock.
        """
        self._models[name].wait()
        if self._models[name].resident:  # not evicted again meanwhile
            seconds = self._clock() - since
            before = self._seconds.get(name, seconds)
            self._seconds[name] = OLD_SHARE_OF_MEAN * before + (1 - OLD_SHARE_OF_MEAN) * seconds

    def move_seconds(self, name: str) -> float:
        """How long loading this model takes, a moving mean; 0 where it is resident or was never moved."""
        return 0.0 if self._models[name].resident else self._seconds.get(name, 0.0)

    def lines(self) -> list[str]:
        """Return the lines for the start-up: none where there is room for everything."""
        models, resident = self._ledger.models, self._ledger.resident
        if len(resident) == len(models):
            return []
        count = "1 model" if len(resident) == 1 else f"{len(resident)} models"
        verb = "is" if len(resident) == 1 else "are"
        away = ", ".join(name for name in models if name not in resident)
        line = f"{count} of {len(models)} {verb} on the devices: {', '.join(resident) or 'none'}"
        return [f"{line}; in the host's memory until used: {away}"]

    def _evict(self, names: Sequence[str]) -> None:
        """Evict models that the account has left out; those that an error leaves on the devices are in it."""
        for index, name in enumerate(names):
            try:
                self._models[name].evict()
            except Exception:
                self._ledger.stay(names[index:])
                raise


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


def host_memory_for_models(mesh: Mesh, budget: int | None) -> int:
    """Return how many bytes of the host's memory evicted models may take.

    It is three quarters of what the host has, on the CPU of what the `budget` of its devices leaves.
    """
    memory = devices.host_memory()
    if devices.is_cpu(mesh):
        memory = max(0, memory - (budget or 0) * devices.device_count(mesh))
    return int(memory * HOST_SHARE)
