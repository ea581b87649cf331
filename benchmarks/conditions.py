"""What a figure depends on: printed beside every benchmark's figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("jax", "jaxlib", "flax", "torch", "diffusers", "transformers", "sqlalchemy", "discord.py")


def processor() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def print_conditions(*packages: str) -> None:
    """Print the machine and the versions of `packages` (of the usual ones when none is named)."""
    print(f"machine: {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")
    print(f"python {platform.python_version()}", end="")
    for package in packages or PACKAGES:
        try:
            print(f", {package} {version(package)}", end="")
        except PackageNotFoundError:
            continue
    print()
