"""What the process of a unit runs; no I/O.

Ray imports this module for each unit, so it imports neither the configuration nor the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What every unit of a group's generation runs.

    `command` and `arguments` start the process; the path of a file with the text `config` comes between them.
    `memory` is in bytes; 0 reserves none.
    """

    group: str
    generation: str
    command: tuple[str, ...]
    role: str
    arguments: tuple[str, ...]
    config: str = field(repr=False)  # it may hold a password
    cores: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
