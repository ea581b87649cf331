"""The conditions of figures: machine and versions, printed by every benchmark."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("jax", "jaxlib", "flax", "torch", "diffusers", "transformers", "sqlalchemy", "discord.py")


def processor() -> str:
    """Return the processor's name from the system."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def print_conditions(*packages: str) -> None:
    """Print the machine and the versions of `packages`, by default of the usual packages."""
    print(f"machine: {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")
    print(f"python {platform.python_version()}", end="")
    for package in packages or PACKAGES:
        try:
            print(f", {package} {version(package)}", end="")
        except PackageNotFoundError:
            continue
    print()


class Stolen:
    """Measures the share of processor time that other machines on the host take (steal)."""

    def __init__(self) -> None:
        self._begun = _stolen_and_all()

    def share(self) -> float:
        """Return the share, from 0 to 1, or NaN if the system does not report it."""
        (stolen, everything), (before, until_then) = _stolen_and_all(), self._begun
        return (stolen - before) / (everything - until_then) if everything > until_then else float("nan")


def _stolen_and_all() -> tuple[int, int]:
    """Return the stolen ticks and all ticks of all processors since the start of the system."""
    try:
        ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return 0, 0
    return ticks[7], sum(ticks)
