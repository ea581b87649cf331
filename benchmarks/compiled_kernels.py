"""Where a compiled program's bytes go: its kernels other than products, the largest first.

    python benchmarks/compiled.py --on h200 --checkpoint sdxl --only denoise --hlo FOLDER
    python benchmarks/compiled_kernels.py FOLDER/*denoise.txt [--most 30] [--products]

Kernels of one source, kind and result are one line. The source is the last three parts of JAX's name of the
kernel, with N in place of numbers; `inside` are the operations of a fusion that move or reduce something.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from compiled_hlo import CALLED, FREE, Instruction, Program, bytes_of, traffic_of

SOURCE = re.compile(r'op_name="([^"]+)"')
TELLING = frozenset(
    {"reduce", "transpose", "concatenate", "copy", "gather", "scatter", "pad", "slice", "erf"}
)
LAYOUT = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True, kw_only=True)
class Sort:
    """The properties that the kernels of one line share; `inside` as in the module's docstring."""

    source: str
    kind: str
    inside: str
    result: str


@dataclass(kw_only=True)
class Moved:
    """How many kernels there are of a sort, and the bytes that they read and write."""

    kernels: int = 0
    read: float = 0.0
    written: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("programs", nargs="+", type=Path, help="files of `compiled.py --hlo`")
    parser.add_argument("--most", type=int, default=30, help="lines of each program")
    parser.add_argument(
        "--products", action="store_true", help="list products, convolutions and attention too"
    )
    options = parser.parse_args()
    for path in options.programs:
        sorts = moved_by(Program(path.read_text()), products=options.products)
        total = sum(each.read + each.written for each in sorts.values())
        transposes = sum(
            each.kernels for sort, each in sorts.items() if "transpose" in sort.kind + sort.inside
        )
        print(f"\n{path.name}: {total / 1e9:.2f} GB, {transposes} kernels with a transpose")
        print("| GB | kernels | read, written of each, MB | kind | inside | result | source |")
        print("|---|---|---|---|---|---|---|")
        largest = sorted(sorts.items(), key=lambda item: -item[1].read - item[1].written)
        for sort, each in largest[: options.most]:
            print(line_of(sort, each))


def line_of(sort: Sort, each: Moved) -> str:
    """Return a line of the table."""
    mean_read, mean_written = (part / each.kernels / 1e6 for part in (each.read, each.written))
    return (
        f"| {(each.read + each.written) / 1e9:.2f} | {each.kernels} | {mean_read:.1f}, {mean_written:.1f} "
        f"| {sort.kind} | {sort.inside} | {sort.result} | {sort.source} |"
    )


def moved_by(program: Program, *, products: bool) -> dict[Sort, Moved]:
    """Return what the kernels of a program's entry move, by their sort."""
    instructions = program.computations.get(program.entry, [])
    types = {each.name: each.result for each in instructions}
    sorts: dict[Sort, Moved] = {}
    for each in instructions:
        if each.opcode in FREE:
            continue
        kind, flop = program.kind_of(each, types)
        if flop and not products:
            continue
        moved = sorts.setdefault(sort_of(program, each, kind), Moved())
        written = bytes_of(each.result)
        moved.kernels += 1
        moved.written += written
        moved.read += traffic_of(each, types) - written
    return sorts


def sort_of(program: Program, each: Instruction, kind: str) -> Sort:
    """Return the sort of a kernel."""
    found = SOURCE.search(each.rest)
    parts = found[1].split("/")[1:] if found else ["unknown"]
    return Sort(
        source=re.sub(r"\d+", "N", "/".join(parts[-3:])),
        kind=kind,
        inside=" ".join(f"{name}×{count}" for name, count in sorted(telling_within(program, each).items())),
        result=LAYOUT.sub("", each.result),
    )


def telling_within(program: Program, each: Instruction) -> Counter[str]:
    """Count the operations of a fusion that move or reduce something."""
    counted: Counter[str] = Counter()
    if each.opcode == "fusion":
        for called in CALLED.findall(each.rest):
            for one in program.computations.get(called, []):
                counted[one.opcode] += one.opcode in TELLING
                counted += telling_within(program, one)
    return +counted


if __name__ == "__main__":
    main()
