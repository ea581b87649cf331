"""The devices' memory: the models' parameters that are on the devices, and those in the host's memory.

A model's parameters are moved in groups: its text encoders, its denoiser, its autoencoder. A group is loaded
for each program that needs it, and evicted least recently used first. An evicted group is kept in the host's
memory, in pages that the devices read directly (`pinned_host`) where the backend has them. Parameters never
change, so a second eviction only frees the devices' memory. A queued program keeps its arguments alive.
Parameters are arguments of every call, so no move compiles anything.

    arrival → adopt → (bring → work → evicted by another group's bring, or by a claim)*

Whatever changes what the devices hold is a chore of the thread that owns them: a claim of memory with the
evictions that it needs, seats that are allocated or freed, models that arrive or leave. Chores are done one
after another, between two runs. Compiling and reading files are no chores.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

from sdjax_engine.errors import DevicesFailed, in_bytes
from sdjax_engine.memory import devices
from sdjax_engine.memory.ledger import Group, Ledger, Need, sizes_of

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


PINNED = "pinned_host"
KEPT_FREE = 0.06  # of a device's memory: for gaps between arrays, and for memory that is not counted
OLD_SHARE = 0.5  # of the seconds and bytes of earlier moves, which remains after another
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


class ParameterGroup:
    """Parameters that are moved together, a tree of arrays, on the devices or in the host's memory."""

    def __init__(self, key: Group, arrays: Any, transport: Transport) -> None:
        self.key = key
        self._transport = transport
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(arrays)
        self._structure = structure
        self.size: int = sum(leaf.nbytes for leaf in leaves)
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
            raise RuntimeError(f"{self.key} are not on the devices")
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

    @property
    def is_lost(self) -> bool:
        """Whether a queued move of theirs has failed, after waiting for it, and the host has a copy."""
        try:
            self.wait()
        except RuntimeError:  # the devices' error, which every use of the arrays would raise again
            return all(leaf is not None for leaf in self._on_host)
        return False

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


class ModelParameters:
    """One model's parameters, as groups by their names; `together` are groups that one program needs.

    `at_once` is the size of the most that one program needs.
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, Any],
        transport: Transport,
        together: Collection[Collection[str]] = (),
    ) -> None:
        self.name = name
        self.groups = {
            group: ParameterGroup(Group(name, group), each, transport) for group, each in arrays.items()
        }
        self.sizes = {group: each.size for group, each in self.groups.items()}
        self.size, self.at_once = sizes_of(self.sizes, together)

    @property
    def resident(self) -> bool:
        """Whether all of them are on the devices, or on their way."""
        return all(group.resident for group in self.groups.values())

    @property
    def shapes(self) -> Mapping[str, Any]:
        """The shapes of each group, known wherever it is."""
        return {name: group.shapes for name, group in self.groups.items()}

    def of(self, names: Collection[str]) -> list[ParameterGroup]:
        """Return these groups; all where none is named."""
        return [self.groups[name] for name in names or self.groups]

    def free(self) -> None:
        """Free the memory of the devices and the host, for good."""
        for group in self.groups.values():
            group.free()


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
        self._moved: list[ParameterGroup] = []
        self._move_sums = (0.0, 0.0)  # seconds of moves and their bytes, of which older ones fade
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
        """Claim `size` bytes for an arriving model; False, and no change, if that would evict parameters.

        It is refused too where a program's groups, which may be away now, would not fit beside it.
        """
        room = self._ledger.room
        fits = room is None or size <= room + self._ledger.need_of(owner).held
        return fits and self.claim(owner, Need(held=size))

    def adopt(
        self,
        name: str,
        arrays: Mapping[str, Any],
        *,
        together: Collection[Collection[str]] = (),
        arrival: Hashable = None,
    ) -> ModelParameters:
        """Add a model's parameters, by group, in place of the claim of its `arrival`.

        One program needs all groups of each collection in `together`. Groups go to the devices while there is
        room without an eviction, the first before the others. Frees them and raises DevicesFailed if they
        never fit.
        """
        parameters = ModelParameters(name, arrays, self._transport, together)
        self.release(arrival)
        if not self._ledger.enter(name, parameters.sizes, parameters.at_once):
            parameters.free()  # at once: the error may keep the arrays, and no account has them
            raise DevicesFailed(self._too_large(parameters))
        self._models[name] = parameters
        try:
            there, room = list[str](), self._ledger.room
            for group, each in parameters.groups.items():
                if room is None or each.size <= room:
                    there.append(group)
                    room = None if room is None else room - each.size
                else:
                    each.evict()  # before others are loaded: its arrays may be on the devices
            for group in there:
                self.bring(name, group)
        except Exception:
            self.drop(name)
            raise
        # The first groups are the last to be evicted.
        self._ledger.bring([each.key for each in reversed(parameters.of(())) if each.resident])
        self._moved.clear()
        return parameters

    def _too_large(self, parameters: ModelParameters) -> str:
        """Return the sentence about a model that never fits."""
        name, at_once = parameters.name, parameters.at_once
        needed, budget, size = self._ledger.reserved, self._ledger.budget or 0, in_bytes(parameters.size)
        if at_once + needed <= budget:
            beside, fewer = (
                ("beside all other models", "fewer models") if self._models else ("at once", "less")
            )
            return (
                f"The devices cannot hold {name}, {size}, {beside}, and the host's memory has "
                f"{in_bytes(self._ledger.host or 0)} for what takes turns there: offer {fewer}."
            )
        part = f", {in_bytes(at_once)} of them at once" if at_once < parameters.size else ""
        beside = f" beside {in_bytes(needed)} for the work on it" if needed else ""
        lacking = at_once + needed - budget
        return (
            f"The parameters of {name} take {size}{part}{beside}, and a device has {in_bytes(budget)}, "
            f"{in_bytes(lacking)} too little: offer a smaller model{self.or_raise_it(lacking)}."
        )

    def drop(self, name: str) -> None:
        """Forget a model, and free its parameters once queued work has ended; nothing for an unknown one."""
        self._ledger.leave(name)
        if (parameters := self._models.pop(name, None)) is not None:
            parameters.free()

    def claim(self, owner: Hashable, need: Need, *, optional: bool = False) -> bool:
        """Reserve memory besides the models, after evicting the groups that it displaces.

        False, and no change, where what a program needs at once would not fit any more; with `optional`, also
        where groups of one model would have to take turns for it.
        """
        if optional and self._ledger.splits(owner, need):
            return False
        before = self._ledger.need_of(owner)
        displaced = self._ledger.claim(owner, need)
        try:
            self._evict(displaced or ())
        except Exception:
            self._ledger.release(owner, down_to=before)
            raise
        return displaced is not None

    def lacking(self, owner: Hashable, need: Need) -> int:
        """Return how many bytes of each device are too few for a claim, beside what a program needs."""
        return self._ledger.lacking(owner, need)

    def should_halve(self, owner: Hashable, need: Need, seats: int) -> bool:
        """Whether the groups of one model would take turns for so many seats, and need not for fewer."""
        one = Need(held=need.held // seats, working=need.working // seats)
        return self._ledger.splits(owner, need) and not self._ledger.splits(owner, one)

    def release(self, owner: Hashable) -> None:
        """Give back the claim of `owner`, if any."""
        self._ledger.release(owner)

    def bring(self, name: str, *groups: str) -> bool:
        """Load the groups of one program, after evicting others, and return whether any was evicted.

        They are all of the model's groups where none is named. Raises the devices' error.
        """
        wanted = self._models[name].of(groups)
        try:
            self._evict(self._ledger.bring([each.key for each in wanted]))
            away = [each for each in wanted if not each.resident]
            for each in away:
                each.load()
                self._moved.append(each)
        except Exception:
            self._ledger.lose([each.key for each in wanted if not each.takes_memory])
            raise
        return bool(away)

    def evict_lost(self, name: str) -> None:
        """Evict the groups of a model whose move to the devices has failed: the next use loads them again."""
        lost = [each for each in self._models[name].of(()) if each.is_lost]
        self._ledger.lose([each.key for each in lost])
        for each in lost:
            each.evict()

    def has(self, name: str, *groups: str) -> bool:
        """Whether these groups are on the devices, or on their way."""
        return all(each.resident for each in self._models[name].of(groups))

    def settle(self) -> None:
        """Return once everything on its way has arrived."""
        for parameters in self._models.values():
            for group in parameters.groups.values():
                group.wait()

    def leave_alone(self, name: str, *groups: str) -> bool:
        """Evict all other groups, and never load all of these together again; returns whether any was."""
        displaced = self._ledger.tighten([each.key for each in self._models[name].of(groups)])
        self._evict(displaced)
        return bool(displaced)

    def take_moves(self) -> tuple[ParameterGroup, ...]:
        """Return the groups that `bring` has loaded since the last call."""
        moved, self._moved = tuple(self._moved), []
        return moved

    def finish_moves(self, moves: Collection[ParameterGroup], since: float) -> None:
        """Wait until the groups of `take_moves` have arrived; raises the devices' error.

        The devices have waited for them `since` that time of the clock.
        """
        arrived = [group for group in moves if group.resident]  # not evicted again meanwhile
        for group in arrived:
            group.wait()
        if arrived:
            seconds, size = self._move_sums
            self._move_sums = (
                OLD_SHARE * seconds + self._clock() - since,
                OLD_SHARE * size + sum(group.size for group in moves),
            )

    @property
    def _seconds_per_byte(self) -> float:
        """Seconds of moves by their bytes: a small move, which may wait for other work, says little."""
        seconds, size = self._move_sums
        return seconds / size if size else 0.0

    def move_seconds(self, name: str, *groups: str) -> float:
        """How long loading these groups takes; 0 where they are resident, and before the first move."""
        size = sum(each.size for each in self._models[name].of(groups) if not each.resident)
        return size * self._seconds_per_byte

    def turn_seconds(self, name: str, group: str, other: str) -> float:
        """How long loading a group takes, and the `other` again where it makes room; 0 if it is resident."""
        one, displaced = self._models[name].of((group, other))
        if one.resident:
            return 0.0
        size = one.size if self._ledger.fit((one.key, displaced.key)) else one.size + displaced.size
        return size * self._seconds_per_byte

    def lines(self) -> list[str]:
        """Return the lines for the start-up: none where there is room for everything."""
        there, away = list[str](), list[str]()
        for name, parameters in self._models.items():
            groups = parameters.groups.values()
            if parameters.resident or not any(group.resident for group in groups):
                (there if parameters.resident else away).append(name)
            else:
                for group in groups:
                    (there if group.resident else away).append(str(group.key))
        if not away:
            return []
        listed = ", ".join(there) or "no model"
        return [f"on the devices: {listed}; in the host's memory until used: {', '.join(away)}"]

    def _evict(self, groups: Sequence[Group]) -> None:
        """Evict groups that the account has left out; those that an error leaves on the devices are in it."""
        for index, group in enumerate(groups):
            try:
                self._models[group.model].groups[group.name].evict()
            except Exception:
                self._ledger.stay(groups[index:])
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
