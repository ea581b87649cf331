"""The rows of `compiled.py`: what was compiled, whether it fits, the table, and the file of figures."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from compiled_hlo import Kind, Profile
from compiled_targets import GIB, TARGETS, Target

from sdjax_engine.memory.ledger import Need, reserved
from sdjax_engine.memory.residency import KEPT_FREE

SEATS_TRIED = (4, 2, 1)
"""The numbers of seats that a start tries on an accelerator, in this order."""
HEADS = (
    *("on", "checkpoint", "seats", "compiles, s", "arguments, temporaries, kept of GiB", "fits", "attention"),
    *("kernels", "branches, open loops", "TFLOP, of the network", "GB of products, of others", "bound, ms"),
    *("of the peak", "pictures/s a chip"),
)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """One program as it was compiled: bytes of each device, and what it does in one call."""

    name: str
    seconds: float
    arguments: int
    temporaries: int
    outputs: int
    aliased: int
    profile: Profile


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a checkpoint on a target with some seats; `error` where it does not compile.

    `kept` are the bytes of parameters and seats on a device, `needed` are those of everything that a start
    claims, and `least` where groups of parameters take turns. `network_flop` are the operations of the
    network's own products in an evaluation of all seats, without a compiler's padding.
    """

    target: str
    checkpoint: str
    size: int
    guided: bool
    seats: int
    steps: int
    kernel: str
    kept: int = 0
    needed: int = 0
    least: int = 0
    network_flop: float = 0.0
    programs: tuple[Compiled, ...] = ()
    whole: bool = True
    error: str | None = None

    @property
    def identity(self) -> tuple[str, str, int, bool, int]:
        """The key of a row; a new row replaces an earlier one of the same key."""
        return self.target, self.checkpoint, self.size, self.guided, self.seats

    @property
    def group(self) -> tuple[str, str, int, bool]:
        """The key without the number of seats."""
        return self.identity[:4]

    @property
    def spare(self) -> int:
        """The bytes of a device that are left; negative where the row does not fit."""
        return usable(TARGETS[self.target]) - self.needed

    @property
    def spare_in_turns(self) -> int:
        """The bytes that are left where groups of parameters take turns."""
        return usable(TARGETS[self.target]) - self.least

    def program(self, word: str) -> Compiled | None:
        """Return the program whose name ends with this word, or None."""
        return next((each for each in self.programs if each.name.endswith(f" {word}")), None)


def usable(target: Target) -> int:
    """Return the bytes of a device that a start uses: all but the margin that it keeps free."""
    return int(target.memory * target.given_by_jax * (1 - KEPT_FREE))


def needed(parameters: int, claims: Mapping[Hashable, Need]) -> int:
    """Return the bytes that a start claims for parameters and for these needs."""
    return parameters + reserved(dict(claims))


def chosen(rows: Iterable[Row]) -> dict[tuple[str, str, int, bool], int]:
    """Return the number of seats that a start chooses for each group of rows, 0 where not one fits.

    A group is left out where a row that decides is missing, was compiled in part, or did not compile for
    another reason than its memory.
    """
    known = {row.identity: row for row in rows}
    found: dict[tuple[str, str, int, bool], int] = {}
    for group in dict.fromkeys(row.group for row in known.values()):
        for seats in SEATS_TRIED:
            row = known.get((*group, seats))
            if row is None or not (row.whole or exceeds_memory(row)):
                break
            alone = known.get((*group, 1), row)
            if row.spare < 0 <= alone.spare and row.error is None:
                continue  # a start gives up seats before parameters take turns
            if not exceeds_memory(row):
                if row.error is None:
                    found[group] = seats
                break
        else:
            found[group] = 0
    return found


def exceeds_memory(row: Row) -> bool:
    """Whether a row does not fit into its device, by the compiler's word or by the accounting."""
    if row.error is not None:
        return "RESOURCE_EXHAUSTED" in row.error
    return most_spare(row) < 0


def most_spare(row: Row) -> int:
    """Return the bytes that are left with the fewest parameters on a device that a row allows."""
    return row.spare_in_turns if row.least else row.spare


def print_tables(rows: list[Row]) -> None:
    """Print memory and one evaluation of all seats for each row, then traffic by kind."""
    choices = chosen(rows)
    print(f"\n| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for row in rows:
        print(line_of(row, choices.get(row.group)), flush=True)
    print("\n| on | checkpoint | seats | GB by kind (kernels) |\n|---|---|---|---|")
    for row in rows:
        if (denoise := row.program("denoise")) is not None:
            print(f"{head_of(row)} {by_kind(denoise.profile)} |")


def head_of(row: Row) -> str:
    return f"| {row.target} | {row.checkpoint} {row.size}² | {row.seats} |"


def line_of(row: Row, seats: int | None) -> str:
    """Return a row as a line of Markdown; `seats` is the number that a start chooses, None if not known."""
    denoise = row.program("denoise")
    if row.error or denoise is None:
        return f"{head_of(row)} {row.error or 'no denoise'} |" + " |" * (len(HEADS) - 4)
    target, profile = TARGETS[row.target], denoise.profile
    cells = (
        f"{denoise.seconds:.0f}",
        f"{denoise.arguments / GIB:.2f}, {denoise.temporaries / GIB:.2f}, {row.kept / GIB:.2f} "
        f"of {target.memory / GIB:.0f}",
        fit_of(row) + ", chosen" * (seats == row.seats),
        ", ".join(f"{count} {name}" for name, count in profile.attention.items()) or "XLA",
        f"{profile.kernels}",
        f"{sum(each.profile.conditionals for each in row.programs)}, "
        f"{sum(each.profile.unbounded_loops for each in row.programs)}",
        f"{profile.flop / 1e12:.3f}, {row.network_flop / 1e12:.3f}",
        f"{profile.products / 1e9:.2f}, {profile.others / 1e9:.2f}",
        f"{profile.seconds * 1e3:.2f}",
        f"{(row.network_flop or profile.flop) / profile.seconds / target.flops:.0%}",
        f"{pictures_a_second(row, denoise):.2f}",
    )
    return f"{head_of(row)} {' | '.join(cells)} |"


def fit_of(row: Row) -> str:
    """Return whether a row fits its device, and how much is left or too much."""
    if row.spare >= 0:
        return f"{row.spare / GIB:.2f} left"
    if most_spare(row) >= 0:
        return f"{most_spare(row) / GIB:.2f} left in turns"
    return f"{-most_spare(row) / GIB:.2f} too much"


def pictures_a_second(row: Row, denoise: Compiled) -> float:
    """Return the bound of the pictures a second of a chip, decoding included."""
    decode = row.program("decode")
    decoding = 0.0 if decode is None else decode.profile.seconds
    seconds = row.steps * denoise.profile.seconds / row.seats + decoding
    return TARGETS[row.target].devices_of_a_chip / seconds


def by_kind(profile: Profile) -> str:
    """Return the traffic of each kind of kernel, the largest first, as text."""
    kinds = sorted(profile.kinds.items(), key=lambda item: -item[1].traffic)
    return ", ".join(f"{name} {kind.traffic / 1e9:.2f} ({kind.kernels})" for name, kind in kinds)


@dataclass(kw_only=True)
class Figures:
    """The rows of this run and, with a file, of earlier runs; a new row takes the place of its like."""

    file: Path | None
    rows: dict[tuple[str, str, int, bool, int], Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            self.rows = {row.identity: row for row in map(row_from, json.loads(self.file.read_text()))}

    def add(self, row: Row) -> None:
        """Add a row, and write the file."""
        self.rows[row.identity] = row
        if self.file is not None:
            self.file.write_text(json.dumps([asdict(each) for each in self.rows.values()], indent=1))


def row_from(told: Mapping[str, Any]) -> Row:
    """Return a row from its JSON."""
    return Row(**{**told, "programs": tuple(map(compiled_from, told["programs"]))})


def compiled_from(told: Mapping[str, Any]) -> Compiled:
    profile = Profile(**told["profile"])
    profile = replace(profile, kinds={name: Kind(**kind) for name, kind in told["profile"]["kinds"].items()})
    return Compiled(**{**told, "profile": profile})
