"""How devices are called: a program for each device, and calls beside others in threads of their own.

XLA's client for the CPU runs one program at a time that is spread over several devices: a device that has
finished waits for the slowest one. A program of one device waits for its arguments only. On accelerators only
programs that few devices need at a time are compiled this way. A program is compiled for one device and
loaded on the others. No operation joins rows of different devices.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding
from jax.stages import Compiled

from sdjax_engine.memory.devices import BY_SEAT, spread_shape

Result = TypeVar("Result")
Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThread:
    """Makes calls in a daemon thread called `name`, one after the other; the thread ends with this object.

    The threads of `concurrent.futures` are joined when the interpreter ends, however long their calls take.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=make_calls, args=(self._calls,), name=name, daemon=True)
        self._thread.start()
        weakref.finalize(self, self._calls.put, None)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Make a call after those before it, and return the future of its result or error."""
        future: Future[Any] = Future()
        self._calls.put((future, partial(function, *arguments)))
        return future

    def close(self) -> None:
        """Make the calls that were submitted, and return when the thread has ended."""
        self._calls.put(None)
        self._thread.join()


def make_calls(calls: queue.SimpleQueue[Call | None]) -> None:
    """Make each call of a queue until None comes."""
    while (call := calls.get()) is not None:
        fulfil(*call)
        del call  # nothing is held while the thread waits


def fulfil(future: Future[Result], call: Callable[[], Result]) -> None:
    """Make a call, unless its future is cancelled, and give the future the result or the error."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - passed on to the future
            future.set_exception(error)


SpreadArray = jax.Array | npt.NDArray[Any]


class Shares(dict[int, Any]):
    """The shares of a tree that is spread over the devices, by the device's number in the mesh."""

    @classmethod
    def of(cls, tree: Any, mesh: Mesh) -> Shares:
        """Divide a tree of spread arrays; the arrays themselves are not to be used afterwards."""
        devices = list(mesh.devices.flat)
        if len(devices) == 1:
            return cls({0: tree})
        leaves: list[SpreadArray]
        structure: Any
        leaves, structure = jax.tree.flatten(tree)
        parts = [shares_of(leaf, devices) for leaf in leaves]
        return cls({k: structure.unflatten([part[k] for part in parts]) for k in range(len(devices))})

    def together(self, mesh: Mesh) -> Any:
        """Return the shares of all devices as one tree of spread arrays."""
        if mesh.devices.size == 1:
            return self[0]
        sharding = NamedSharding(mesh, BY_SEAT)
        each = [self[k] for k in range(mesh.devices.size)]
        return jax.tree.map(lambda *parts: joined(parts, sharding), *each)


class PerDevice:
    """One program on every device of a mesh, called like a program that is spread over them.

    An argument may be an array of the host, whose rows are divided among the devices in order, or `Shares`.
    `each` is the program of each device; every result is spread by seat.
    """

    def __init__(self, each: Sequence[Compiled], mesh: Mesh) -> None:
        self._each = tuple(each)
        self._mesh = mesh
        self._analysis: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Queue the work of every device; raises the first error of any of them."""
        return self.on(range(len(self._each)), *arguments).together(self._mesh)

    def on(self, numbers: Collection[int], *arguments: Any) -> Shares:
        """Queue the work of the devices of these numbers, and return their results."""
        shares = [tree if isinstance(tree, Shares) else Shares.of(tree, self._mesh) for tree in arguments]
        return Shares({k: self._each[k](*(share[k] for share in shares)) for k in numbers})

    @property
    def out_info(self) -> Any:
        """The results of all devices together, as shapes."""
        count = len(self._each)

        def together(leaf: Any) -> jax.ShapeDtypeStruct:
            return spread_shape((leaf.shape[0] * count, *leaf.shape[1:]), leaf.dtype, self._mesh)

        return jax.tree.map(together, self._each[0].out_info)

    def memory_analysis(self) -> Any:
        """Return XLA's analysis of the memory that each device needs.

        The first answer is kept: another takes 1.5 ms, and each claim of memory asks all programs of a lane.
        """
        if self._analysis is None:
            self._analysis = self._each[0].memory_analysis()
        return self._analysis


def call_on(program: Any, numbers: Collection[int], *arguments: Any) -> Shares:
    """Queue a program's work on the devices of these numbers; any but a `PerDevice` runs on device 0."""
    if isinstance(program, PerDevice):
        return program.on(numbers, *arguments)
    arguments_of_first = (argument[0] if isinstance(argument, Shares) else argument for argument in arguments)
    return Shares({0: program(*arguments_of_first)})


def shares_of(array: SpreadArray, devices: Sequence[jax.Device]) -> Sequence[SpreadArray]:
    """Return the share of each device of an array of the host or the devices."""
    if isinstance(array, np.ndarray):
        return np.split(array, len(devices))
    parts = {shard.device: shard.data for shard in array.addressable_shards}
    return [parts[device] for device in devices]


def joined(parts: Sequence[jax.Array], sharding: NamedSharding) -> jax.Array:
    """Return one spread array from the devices' parts, concatenated in the order of the devices."""
    shape = (len(parts) * parts[0].shape[0], *parts[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, list(parts))
