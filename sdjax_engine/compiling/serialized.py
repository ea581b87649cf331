"""Compiled programs as bytes, which can be kept on disk, and loaded on the same or an equal device.

JAX's interfaces for this are private or experimental: they are imported where they are used, and every
error in them becomes NotSerialized.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.stages import Compiled


class NotSerialized(Exception):
    """A program could not be serialized, or loaded from bytes; the message says why."""


class Serialized(NamedTuple):
    """A compiled program as bytes, and the trees of its arguments and results."""

    executable: bytes
    in_tree: Any
    out_tree: Any

    @classmethod
    def of(cls, program: Compiled) -> Serialized:
        """Serialize a program; raises NotSerialized."""
        try:
            from jax.experimental import serialize_executable  # noqa: PLC0415

            return cls(*serialize_executable.serialize(program))
        except Exception as error:
            raise NotSerialized(f"{type(error).__name__}: {error}") from error

    def on(self, mesh: Mesh) -> Compiled:
        """Load the program on the devices of `mesh`: those it was compiled for, or any one device of a CPU.

        Loading runs its code. Raises NotSerialized.
        """
        chosen = list(mesh.devices.flat)
        one_of_cpu = len(chosen) == 1 and chosen[0].platform == "cpu"
        try:
            return self._on_cpu(chosen[0]) if one_of_cpu else self._on_those(chosen)
        except Exception as error:
            raise NotSerialized(f"{type(error).__name__}: {error}") from error

    def on_all(self, meshes: Sequence[Mesh]) -> list[Compiled]:
        """Load the program on several meshes in parallel."""
        with ThreadPoolExecutor(max(1, len(meshes)), thread_name_prefix="load") as pool:
            return list(pool.map(self.on, meshes))

    def _on_those(self, chosen: list[jax.Device]) -> Compiled:
        from jax.experimental import serialize_executable  # noqa: PLC0415

        program: Compiled = serialize_executable.deserialize_and_load(*self, chosen[0].client, chosen)
        return program

    def _on_cpu(self, device: jax.Device) -> Compiled:
        unloaded, arguments, no_kwargs = _ForDevice(self.executable, device).load()
        inputs = self.in_tree.unflatten(arguments)
        return Compiled(unloaded.load(), [], inputs, self.out_tree, no_kwargs=no_kwargs)


class _ForDevice(pickle.Unpickler):
    """Reads a program of one CPU device, as `serialize_executable` wrote it, for another CPU device."""

    def __init__(self, executable: bytes, device: jax.Device) -> None:
        super().__init__(io.BytesIO(executable))
        self._device = device

    def persistent_load(self, what: tuple[Any, ...]) -> Any:
        match what:
            case "exec", bytes(executable):
                from jaxlib import xla_client  # noqa: PLC0415

                options = xla_client.CompileOptions()
                options.device_assignment = xla_client.DeviceAssignment.create(np.array([[self._device.id]]))
                chosen = xla_client.DeviceList((self._device,))
                return self._device.client.deserialize_executable(executable, chosen, options)
            case "device", _:
                return self._device
            case ("client",):
                return self._device.client
        raise pickle.UnpicklingError(f"{what[0]!r} in a program of one device")
