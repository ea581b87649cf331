"""The engine's programs, compiled for accelerators that are not there: memory, kernels, traffic, and a bound.

    python benchmarks/compiled.py [--on v5e h200 …] [--checkpoint demo …] [--seats 1 4] [--json FILE]

The vendors' compilers need no device. For TPUs the package `libtpu` must be installed, or its library named
by TPU_LIBRARY_PATH (`make tpu-compiler` brings it); for GPUs the extra `cuda`. The programs are those that a
lane makes for itself, from shapes: no weights are read.

`bound` is what one evaluation of all seats takes at least, if every kernel reached the larger of two limits
of the data sheet: products a second, bytes a second. It is the lower bound of a calculation, not a
measurement; launches, waits and imperfect kernels come on top. `pictures/s` follows from it, decoding
included.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from compiled_hlo import Profile, Program
from compiled_models import DescribedResidency, bytes_of, described_checkpoint
from compiled_targets import GIB, TARGETS, Target, backend_of, described_mesh
from conditions import print_conditions
from jax.sharding import Mesh

from sdjax_engine.compiling.compiler import Compiler, ProgramSpec
from sdjax_engine.compiling.per_device import PerDevice
from sdjax_engine.lane import programs as lane_programs
from sdjax_engine.lane.programs import LaterPrograms
from sdjax_engine.lane.shapes import LaneShapes
from sdjax_engine.memory.devices import mesh_over
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.models.attention_choice import Backend
from sdjax_engine.request import Lane, Offer, Sampler

MODULES_OF_BACKEND = ("sdjax_engine.models.attention", "sdjax_engine.model.loaded")
SIZES = {"demo": 128, "sd15": 512, "sd21": 768, "sdxl": 1024}
CHECKPOINT = "demo, sd15, sd21, sdxl or a folder; @64 after it: pictures of 64 pixels"
STEPS = {"demo": 20, "sd15": 50, "sd21": 50, "sdxl": 20}


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
class RecordingCompiler(Compiler):
    """Keeps the specification and the result of each program that it compiles."""

    made: list[tuple[ProgramSpec, Any, float]] = field(default_factory=list)

    def _make(self, spec: ProgramSpec) -> tuple[str, Any]:
        """Compile a program; of one that each device has for itself, the first device's."""
        started = time.perf_counter()
        alone = spec.alone_on(mesh_over([spec.mesh.devices.flat[0]])) if spec.apart else spec
        verb, [program] = self._made_on([alone])
        self.made.append((spec, program, time.perf_counter() - started))
        if not spec.apart or spec.mesh.devices.size == 1:
            return verb, program
        return verb, PerDevice([program] * spec.mesh.devices.size, spec.mesh, spec.specs)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a checkpoint on a target with some seats; `error` where it does not compile."""

    target: str
    checkpoint: str
    size: int
    guided: bool
    seats: int
    steps: int
    kernel: str
    kept: int = 0
    programs: tuple[Compiled, ...] = ()
    error: str | None = None

    def program(self, word: str) -> Compiled | None:
        """Return the program whose name ends so."""
        return next((each for each in self.programs if each.name.endswith(f" {word}")), None)


def main() -> None:
    options = options_given()
    print_conditions("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin")
    rows = []
    for name in options.on:
        try:
            mesh = described_mesh(TARGETS[name])
        except Exception as error:  # noqa: BLE001 - whatever a compiler that is not there says
            print(f"{name} cannot be described: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        backend = backend_of(TARGETS[name], mesh)
        for checkpoint in options.checkpoint:
            for seats in options.seats:
                rows.append(compiled(options, TARGETS[name], mesh, backend, checkpoint, seats))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print_table(rows)
    if not rows or any(row.error for row in rows):
        raise SystemExit(1)


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--on", nargs="+", choices=TARGETS, default=["v5e", "h200"])
    parser.add_argument("--checkpoint", nargs="+", default=["demo"], help=CHECKPOINT)
    parser.add_argument("--seats", type=int, nargs="+", default=[4])
    parser.add_argument("--steps", type=int, help="evaluations of a picture; the checkpoint's own without it")
    parser.add_argument("--chunks", type=int, default=1, help="chunks of a prompt")
    parser.add_argument("--unguided", action="store_true")
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--fitted", nargs="*", default=[], help="the checkpoints with fitted programs")
    parser.add_argument("--only", nargs="+", choices=BUILDERS, help="programs; all without it")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--hlo", help="a folder for the programs' text")
    return parser.parse_args()


BUILDERS = {
    "begin": lane_programs.compile_begin,
    "admit": lane_programs.compile_admit,
    "denoise": lane_programs.compile_denoise,
    "take": lane_programs.compile_take,
    "decode": lane_programs.compile_decode,
}


def compiled(  # noqa: PLR0917
    options: argparse.Namespace, target: Target, mesh: Mesh, backend: Backend, checkpoint: str, seats: int
) -> Row:
    """Compile a lane's programs for a target; an error is part of the row."""
    name, _, size = checkpoint.partition("@")
    row = Row(
        target=target.name,
        checkpoint=name,
        size=int(size) if size else SIZES.get(name, 128),
        guided=not options.unguided,
        seats=seats,
        steps=options.steps or STEPS.get(name, 20),
        kernel=backend.problem or ", ".join(f"{use} {width}" for use, width in backend.widest.items()),
    )
    compiler = RecordingCompiler(mesh=mesh, report=lambda line: print(f"  {target.name}: {line}", flush=True))
    try:
        with told(backend):
            kept = compile_all(options, compiler, row)
    except Exception as error:  # noqa: BLE001 - a refusal is a row of the table
        print(f"  {target.name}: {error}", file=sys.stderr)
        return replace_row(row, error=str(error).splitlines()[0])
    programs = tuple(
        measured(options, target, spec.name, program, seconds) for spec, program, seconds in compiler.made
    )
    return replace_row(row, kept=kept, programs=programs)


def replace_row(row: Row, **changes: Any) -> Row:
    return Row(**{**{name: getattr(row, name) for name in row.__dataclass_fields__}, **changes})


def compile_all(options: argparse.Namespace, compiler: Compiler, row: Row) -> int:
    """Compile the programs of a row, and return the bytes that a device keeps: parameters and seats."""
    offer = Offer(
        model=Path(row.checkpoint).name,
        sizes=((row.size, row.size),),
        num_inference_steps=20,
        guidance_scale=5.0 if row.guided else 1.0,
        sampler=Sampler.DDIM,
        prompt_chunks=options.chunks,
    )
    described = described_checkpoint(row.checkpoint, compiler.mesh, dtype=options.dtype)
    model = LoadedModel(offer, described, compiler, residency=DescribedResidency())
    lane = Lane(model=offer.model, height=row.size, width=row.size, guided=row.guided)
    shapes = LaneShapes(lane=lane, model=model, seats_per_device=row.seats)
    if options.only:
        for name in options.only:
            BUILDERS[name](shapes, compiler)
    else:
        lane_programs.compile_lane(shapes, compiler, LaterPrograms(), previews=True)
    if row.checkpoint in options.fitted:
        for form in shapes.grid.further_forms(loras=model.adapts_unet):
            lane_programs.compile_denoise_form(shapes, compiler, form)
    return bytes_of(model.shapes) + shapes.bytes_per_device


@contextlib.contextmanager
def told(backend: Backend) -> Iterator[None]:
    """Let the engine believe that it runs on this backend."""
    with contextlib.ExitStack() as stack:
        for module in MODULES_OF_BACKEND:
            stack.enter_context(patch(f"{module}.found_backend", return_value=backend))
        yield


def measured(
    options: argparse.Namespace, target: Target, name: str, program: Any, seconds: float
) -> Compiled:
    """Read a compiled program's memory and text."""
    memory, text = program.memory_analysis(), program.as_text()
    if options.hlo:
        folder = Path(options.hlo)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{target.name} {name.replace(':', ' ')}.txt").write_text(text)
    return Compiled(
        name=name,
        seconds=seconds,
        arguments=memory.argument_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        outputs=memory.output_size_in_bytes,
        aliased=memory.alias_size_in_bytes,
        profile=Program(text).profile(flops=target.flops, bandwidth=target.bandwidth),
    )


def print_table(rows: list[Row]) -> None:
    """Print the rows: memory of each device, and what one evaluation of all seats does."""
    print(
        "\n| on | checkpoint | seats | arguments, temporaries, kept of GiB | attention | kernels "
        "| branches, open loops | TFLOP | GB of products, of others | bound, ms | of the peak | pictures/s |"
        "\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        print(line_of(row), flush=True)


def line_of(row: Row) -> str:
    """Return a row as a line of Markdown."""
    head = f"| {row.target} | {row.checkpoint} {row.size}² | {row.seats} |"
    denoise, decode = row.program("denoise"), row.program("decode")
    if row.error or denoise is None:
        return f"{head} {row.error or 'no denoise'} |" + " |" * 8
    target, profile = TARGETS[row.target], denoise.profile
    branches = sum(each.profile.conditionals for each in row.programs)
    loops = sum(each.profile.unbounded_loops for each in row.programs)
    picture = row.steps * profile.seconds / row.seats + (decode.profile.seconds if decode else 0.0)
    attention = ", ".join(f"{count} {name}" for name, count in profile.attention.items()) or "XLA"
    memory = f"{denoise.arguments / GIB:.2f}, {denoise.temporaries / GIB:.2f}, {row.kept / GIB:.2f}"
    return (
        f"{head} {memory} of {target.memory / GIB:.0f} | {attention} | {profile.kernels} "
        f"| {branches}, {loops} | {profile.flop / 1e12:.3f} "
        f"| {profile.products / 1e9:.2f}, {profile.others / 1e9:.2f} | {profile.seconds * 1e3:.2f} "
        f"| {profile.flop / profile.seconds / target.flops:.0%} | {1 / picture:.2f} |"
    )


if __name__ == "__main__":
    main()
