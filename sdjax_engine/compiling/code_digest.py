"""What the code is: a digest of the engine's source, and the versions of the libraries that compile.

Files on disk are used only by the code that wrote them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

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
