"""Executables kept between starts, so that a start which finds them traces, lowers and compiles nothing.

Whether a kept executable is the right one is told without tracing: its file is named after all that it
depends on, the package's source among it. It has a second name, after what was lowered, under which code
finds it that is not the same but lowers to the same. Loading one runs what it holds, so a file is believed
only where nobody else could have written it (see `cache_folder.py`), and where it is whole. Any other file is
ignored and written anew.

    line 1   the form of the file
    line 2   sha256 of what follows
    then     a `Serialized`: the executable and the trees around it
"""

from __future__ import annotations

import hashlib
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh
from jax.stages import Compiled, Lowered

from sdjax_engine.compiling.cache_folder import is_trusted
from sdjax_engine.compiling.code_digest import source_digest
from sdjax_engine.compiling.serialized import Serialized

FOLDER, SUFFIX = "programs", ".program"
FORM = b"sdjax program 1\n"
SECONDS_UNTIL_FORGOTTEN = 60 * 24 * 3600.0
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
NO_MATTER = re.compile("cache|log|dump|traceback|timeout|num_cpu_devices")  # settings that change no program


@dataclass(frozen=True)
class Executables:
    """The executables in `folder`; with `group` its group is trusted as this user is."""

    folder: Path
    group: bool = False

    def place(self, name: str, facts: object, arguments: Any, how: object, mesh: Mesh) -> Path:
        """Return where the program `name` for the devices of `mesh` is kept.

        `arguments` are arrays like those of its calls; `facts`, plain data, is whatever else its function
        depends on besides the package's source; `how` says in plain data how it is spread and donated.
        """
        device = mesh.devices.flat[0]
        devices = [mesh.devices.shape, device.device_kind]
        what = short([name, facts, list(described(arguments)), how, devices])
        slug = re.sub("[^A-Za-z0-9]+", "_", name)
        return self._place(f"{slug}-{what}-{short([source_digest(), made_with(device)])}")

    def place_of(self, lowered: Lowered, how: object, mesh: Mesh) -> Path:
        """Return where the program is kept that was lowered to the same, whichever code it came from."""
        device = mesh.devices.flat[0]
        trees = str(lowered.in_tree), str(lowered.out_tree)
        what = short([lowered.as_text(), trees, how, mesh.devices.shape, device.device_kind])
        return self._place(f"lowered-{what}-{short(made_with(device))}")

    def _place(self, name: str) -> Path:
        return self.folder / FOLDER / f"{name}{SUFFIX}"

    def read(self, place: Path, meshes: Sequence[Mesh]) -> list[Compiled] | None:
        """Return the executable kept at `place`, on each of these; None if there is none to be believed."""
        try:
            if not all(is_trusted(each, group=self.group) for each in (place, place.parent)):
                return None
            form, digest, payload = split(place.read_bytes())
            if form != FORM or digest != hashlib.sha256(payload).hexdigest().encode():
                return None
            os.utime(place)
            kept = Serialized(*pickle.loads(payload))  # noqa: S301 - our own, as was checked
            return kept.on_all(meshes)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, the program is compiled instead
            return None

    def keep(self, place: Path, program: Serialized) -> None:
        """Keep an executable, and forget what it replaces; raises OSError."""
        payload = pickle.dumps(tuple(program))
        content = FORM + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
        place.parent.mkdir(mode=0o770 if self.group else 0o700, parents=True, exist_ok=True)
        mode = 0o660 if self.group else 0o600
        with written(place) as part, os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT, mode), "wb") as file:
            file.write(content)

    def name(self, known: Path, place: Path) -> None:
        """Let what is kept at `known` be found at `place` too; raises OSError."""
        with written(place) as part:
            try:
                part.hardlink_to(known)
            except OSError:  # not every folder knows of links
                shutil.copy2(known, part)

    def remove(self, *places: Path) -> None:
        """Keep what is at these places no longer, as far as it can be removed."""
        for place in places:
            with suppress(OSError):
                place.unlink()


@contextmanager
def written(place: Path) -> Iterator[Path]:
    """Gives a file to write, which then takes the place; what it replaces is forgotten."""
    part = place.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        part.replace(place)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    forget(place)


def forget(place: Path) -> None:
    """Remove earlier executables of the program at `place`, and those that nobody has wanted for long."""
    forgotten = time.time() - SECONDS_UNTIL_FORGOTTEN
    same = place.name.rpartition("-")[0] + "-"
    for file in place.parent.iterdir():
        with suppress(OSError):
            replaced = file.name.startswith(same) and file.suffix == SUFFIX and file != place
            if replaced or file.stat().st_mtime < forgotten:
                file.unlink()


def made_with(device: jax.Device) -> list[object]:
    """Return what stands for the libraries, their settings and the machine."""
    settings = {name: repr(value) for name, value in jax.config.values.items() if not NO_MATTER.search(name)}
    flags = [os.environ.get(name, "") for name in FLAGS]
    told = [sys.version, flags, settings, device.client.platform_version]
    return [*told, processor() if device.platform == "cpu" else ""]


def described(arguments: Any) -> Iterator[str]:
    """Give a line for each array: where it is among the arguments, what it is, how it is spread."""
    for path, array in jax.tree_util.tree_flatten_with_path(arguments)[0]:
        yield f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape} {array.sharding.spec}"


def split(content: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the file's form, the digest and what the digest is of; raises ValueError."""
    end = content.index(b"\n", len(FORM))
    return content[: len(FORM)], content[len(FORM) : end], content[end + 1 :]


@cache
def processor() -> str:
    """Return what this machine's processor is and can do, as far as the system tells."""
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    lines: Iterable[str] = ()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    known = dict(line.split(":", 1) for line in reversed(list(lines)) if line.startswith(wanted))
    return " ".join([platform.machine(), platform.processor(), *map(str, sorted(known.items()))])


def short(content: object) -> str:
    """Return some digits that stand for plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
