"""Files of executables, which a later start loads instead of compiling.

A file has two names, both hashes of what the program depends on. The first is found without tracing, by the
package's source and a description of the program; the second is found by the lowered program, so that a start
after a change of the source finds it too. Loading an executable runs its code, so a file is loaded only where
nobody else could have written it (see `cache_folder.py`) and its digest is right. An invalid file is ignored
and rewritten.

It saves 17 of the 22 s of processor time until the demo's two lanes are ready. Its key has the source or what
was lowered, the versions and settings of all libraries, the processor, the shapes, and the program's `key`.

    line 1   the version of the file's format
    line 2   sha256 of the rest
    rest     a `Serialized`: the executable, and the trees of its arguments and results
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pickle
import platform
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.stages import Compiled, Lowered

from sdjax_engine.compiling.cache_folder import is_trusted

TRACING = ("jax", "jaxlib", "flax", "numpy")
"""The packages that trace and lower the programs."""
COMPILING = (
    *("jax", "jaxlib", "libtpu"),
    *(f"jax-{kind}-{part}" for kind in ("cuda12", "cuda13", "rocm7") for part in ("pjrt", "plugin")),
)
"""The packages that compile and run lowered programs, as far as they are installed."""


@functools.cache
def source_digest() -> str:
    """Return a sha256 of this package's own source and of the versions of `TRACING`."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(content)} ".encode() + content)
    digest.update(" ".join(versions(TRACING)).encode())
    return digest.hexdigest()


def versions(packages: Iterable[str]) -> list[str]:
    """Return `name==version` of each of these packages that is installed."""
    found = []
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{name}=={metadata.version(name)}")
    return found


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


FOLDER, SUFFIX = "programs", ".program"
FORMAT = b"sdjax program 1\n"
SECONDS_KEPT_UNUSED = 60 * 24 * 3600.0
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
IRRELEVANT = re.compile("cache|log|dump|traceback|timeout|num_cpu_devices")  # settings that change no program


@dataclass(frozen=True)
class Executables:
    """The executables in `folder`; with `group` the folder's group is trusted like this user."""

    folder: Path
    group: bool = False

    def path_by_code(self, name: str, key: object, arguments: Any, spread: object, mesh: Mesh) -> Path:
        """Return the file of the program `name` for the devices of `mesh`, without tracing.

        `arguments` are arrays or shapes like those of its calls; `key`, plain data, is everything else that
        its function depends on besides the package's source; `spread`, plain data, says how arguments are
        spread and donated.
        """
        device = mesh.devices.flat[0]
        devices = [mesh.devices.shape, device.device_kind]
        what = short_digest([name, key, list(argument_lines(arguments)), spread, devices])
        slug = re.sub("[^A-Za-z0-9]+", "_", name)
        return self._path(f"{slug}-{what}-{short_digest([source_digest(), environment_of(device)])}")

    def path_by_lowering(self, lowered: Lowered, spread: object, mesh: Mesh) -> Path:
        """Return the file of the program that lowers to the same, whatever the source."""
        device = mesh.devices.flat[0]
        trees = str(lowered.in_tree), str(lowered.out_tree)
        what = short_digest([lowered.as_text(), trees, spread, mesh.devices.shape, device.device_kind])
        return self._path(f"lowered-{what}-{short_digest(environment_of(device))}")

    def _path(self, name: str) -> Path:
        return self.folder / FOLDER / f"{name}{SUFFIX}"

    def read(self, place: Path, meshes: Sequence[Mesh]) -> list[Compiled] | None:
        """Load the executable on each of these meshes; None without a file that can be trusted and loaded."""
        try:
            if not all(is_trusted(each, group=self.group) for each in (place, place.parent)):
                return None
            file_format, digest, payload = split(place.read_bytes())
            if file_format != FORMAT or digest != hashlib.sha256(payload).hexdigest().encode():
                return None
            with suppress(OSError):  # a folder that may only be read
                os.utime(place)
            serialized = Serialized(*pickle.loads(payload))  # noqa: S301 - written by this user, as was checked
            return serialized.on_all(meshes)
        except Exception:  # noqa: BLE001 - the program is compiled instead
            return None

    def keep(self, place: Path, program: Serialized) -> None:
        """Write an executable, and remove files that were not loaded for long; raises OSError."""
        payload = pickle.dumps(tuple(program))
        content = FORMAT + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
        place.parent.mkdir(mode=0o770 if self.group else 0o700, parents=True, exist_ok=True)
        mode = 0o660 if self.group else 0o600
        with (
            replaced_file(place) as part,
            os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT, mode), "wb") as file,
        ):
            file.write(content)

    def link(self, known: Path, place: Path) -> None:
        """Make the file at `known` available at `place` too, as a hard link or a copy; raises OSError."""
        with replaced_file(place) as part:
            try:
                part.hardlink_to(known)
            except OSError:  # the file system has no hard links
                shutil.copy2(known, part)


@contextmanager
def replaced_file(place: Path) -> Iterator[Path]:
    """Give a path to write, which then replaces `place` at once; files not loaded for 60 days are removed."""
    part = place.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        part.replace(place)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    forget_unused(place.parent)


def forget_unused(folder: Path) -> None:
    """Remove the files that were not loaded for 60 days.

    Other files stay: machines with other processors or versions may share the folder.
    """
    oldest = time.time() - SECONDS_KEPT_UNUSED
    for file in folder.iterdir():
        with suppress(OSError):
            if file.stat().st_mtime < oldest:
                file.unlink()


def environment_of(device: jax.Device) -> list[object]:
    """Return the versions and settings of the libraries, and the processor."""
    settings = {name: repr(value) for name, value in jax.config.values.items() if not IRRELEVANT.search(name)}
    flags = [os.environ.get(name, "") for name in FLAGS]
    libraries = [sys.version, *versions(COMPILING), device.client.platform_version]
    return [libraries, flags, settings, processor() if device.platform == "cpu" else ""]


def argument_lines(arguments: Any) -> Iterator[str]:
    """Give a line for each array: its path in the arguments, dtype, shape and spec."""
    for path, array in jax.tree_util.tree_flatten_with_path(arguments)[0]:
        yield f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape} {array.sharding.spec}"


def split(content: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the file's format, the digest and the payload; raises ValueError."""
    end = content.index(b"\n", len(FORMAT))
    return content[: len(FORMAT)], content[len(FORMAT) : end], content[end + 1 :]


@cache
def processor() -> str:
    """Return the model and the features of this machine's processor, as far as the system tells."""
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    lines: Iterable[str] = ()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    known = dict(line.split(":", 1) for line in reversed(list(lines)) if line.startswith(wanted))
    return " ".join([platform.machine(), platform.processor(), *map(str, sorted(known.items()))])


def short_digest(content: object) -> str:
    """Return 20 digits of the sha256 of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
