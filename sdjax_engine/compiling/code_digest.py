"""The digest of the engine's source: files on disk are used only by the code that wrote them."""

from __future__ import annotations

import functools
import hashlib
from importlib import metadata
from pathlib import Path

PACKAGES = ("jax", "jaxlib", "flax", "numpy")
"""The libraries that trace and compile the programs."""


@functools.cache
def source_digest() -> str:
    """Return a sha256 of this package's own source and of the versions of `PACKAGES`."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(content)} ".encode() + content)
    digest.update(" ".join(f"{name}=={metadata.version(name)}" for name in PACKAGES).encode())
    return digest.hexdigest()
