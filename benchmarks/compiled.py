"""The engine's programs, compiled for accelerators that are not there: memory, kernels, traffic, and a bound.

    python benchmarks/compiled.py [--on v5e,h200] [--checkpoint demo …] [--seats 1 4] [--json FILE]
    python benchmarks/compiled.py --json FILE --table     # the rows of earlier runs, nothing is compiled

The vendors' compilers need no device. For TPUs the package `libtpu` must be installed, or its library named
by TPU_LIBRARY_PATH (`make tpu-compiler` brings it); for GPUs the extra `cuda`. The programs are those that a
lane makes for itself, from shapes: no weights are read. Rows are kept in the file of `--json`, so that
several runs make one table.

`bound` is the least time of one evaluation of all seats. Each kernel counts with the longer of two times from
the data sheet: operations divided by operations a second, traffic divided by bytes a second. `bound` is
calculated, not measured: launches, waits and imperfect kernels come on top. `pictures/s` follows from it,
decoding included.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from compiled_flop import network_flop
from compiled_hlo import Program
from compiled_models import DescribedResidency, described_checkpoint, int8_of
from compiled_rows import Compiled, Figures, Row, needed, print_tables
from compiled_targets import TARGETS, Target, backend_of, described_mesh
from conditions import print_conditions

from sdjax_engine.compiling.compiler import Compiler, ProgramSpec, code_memory, working_memory
from sdjax_engine.compiling.per_device import PerDevice
from sdjax_engine.lane import programs as lane_programs
from sdjax_engine.lane.programs import LaneShapes, LaterPrograms
from sdjax_engine.memory.devices import mesh_over
from sdjax_engine.memory.ledger import Need
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.models.attention_choice import Backend
from sdjax_engine.request import Lane, Offer, Sampler
from sdjax_engine.samplers.schedules import predicts_flow

MODULES_OF_BACKEND = (
    "sdjax_engine.models.attention",
    "sdjax_engine.models.layers",
    "sdjax_engine.model.loaded",
)
TRACED = "traced"
CHECKPOINT = "{} or a folder; +int8 after it: INT8 weights; @64 at the end: pictures of 64 pixels"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is painted with a checkpoint: side in pixels, evaluations, guided or not."""

    size: int
    steps: int
    guided: bool = True


PICTURES = {
    "demo": Picture(size=128, steps=20),
    "sd15": Picture(size=512, steps=50),
    "lcm": Picture(size=512, steps=4, guided=False),
    "sd21": Picture(size=768, steps=50),
    "turbo": Picture(size=512, steps=4, guided=False),
    "sdxl": Picture(size=1024, steps=20),
    "sdxl-turbo": Picture(size=512, steps=4, guided=False),
    "z-image": Picture(size=1024, steps=8, guided=False),
    "flux2-klein": Picture(size=1024, steps=4, guided=False),
    "sd35-medium": Picture(size=1024, steps=28),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """Stands for a program that is not compiled: the shapes of its results."""

    out_info: Any

    def memory_analysis(self) -> None:
        """Return None: no compiler has planned its memory."""


@dataclass(frozen=True, kw_only=True)
class RecordingCompiler(Compiler):
    """A compiler that keeps each program and its specification, and the names that a row asks for.

    With `only` it compiles the programs with one of these words in their names, and traces the others.
    """

    only: Collection[str] = ()
    made: dict[str, tuple[ProgramSpec, Any, float]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def compile(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Note the name, and compile the program if no earlier row has."""
        self.asked.add(name)
        return super().compile(name, *arguments, **options)

    def _make(self, spec: ProgramSpec) -> tuple[str, Any]:
        """Compile a program; if each device has its own, only that of the first device."""
        started = time.perf_counter()
        alone = spec.alone_on(mesh_over([spec.mesh.devices.flat[0]])) if spec.apart else spec
        verb, program = self._compiled_or_traced(alone)
        if verb != TRACED:
            self.made[spec.name] = spec, program, time.perf_counter() - started
        if not spec.apart or spec.mesh.devices.size == 1:
            return verb, program
        return verb, PerDevice([program] * spec.mesh.devices.size, spec.mesh)

    def _compiled_or_traced(self, spec: ProgramSpec) -> tuple[str, Any]:
        """Compile a program, or find the shapes of its results alone."""
        if self.only and not any(f" {word}" in spec.name for word in self.only):
            return TRACED, Results(out_info=spec.lowered().out_info)
        verb, [program] = self._made_on([spec])
        return verb, program

    def of_row(self) -> list[tuple[ProgramSpec, Any, float]]:
        """Return the programs that were asked for since the last call."""
        asked = [self.made[name] for name in self.made if name in self.asked]
        self.asked.clear()
        return asked


def main() -> None:
    options = options_given()
    print_conditions("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin")
    figures = Figures(file=Path(options.json) if options.json else None)
    rows = list(figures.rows.values()) if options.table else compile_rows(options, figures)
    print_tables(rows)
    if not rows or any(row.error for row in rows):
        raise SystemExit(1)


def compile_rows(options: argparse.Namespace, figures: Figures) -> list[Row]:
    """Compile the rows that are asked for, and add each to the figures."""
    rows = []
    for name in dict.fromkeys(each for several in options.on for each in several):
        target = TARGETS[name]
        try:
            mesh = described_mesh(target)
        except Exception as error:  # noqa: BLE001 - whatever a compiler that is not there says
            print(f"{name} cannot be described: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        backend = backend_of(target, mesh)
        for checkpoint in options.checkpoint:
            compiler = RecordingCompiler(mesh=mesh, report=partial(tell, name), only=options.only or ())
            for seats in options.seats:
                rows.append(compiled(options, target, compiler, backend, checkpoint, seats))
                figures.add(rows[-1])
    return rows


def tell(target: str, line: str) -> None:
    """Print a line about a target."""
    print(f"  {target}: {line}", flush=True)


def options_given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    known = f"devices, divided by commas or spaces: {', '.join(TARGETS)}"
    parser.add_argument("--on", nargs="+", type=targets, default=[["v5e", "h200"]], help=known)
    parser.add_argument(
        "--checkpoint", nargs="+", default=["demo"], help=CHECKPOINT.format(", ".join(PICTURES))
    )
    parser.add_argument("--seats", type=int, nargs="+", default=[4])
    parser.add_argument("--steps", type=int, help="evaluations of a picture; the checkpoint's own without it")
    parser.add_argument("--chunks", type=int, default=1, help="chunks of a prompt")
    parser.add_argument("--unguided", action="store_true")
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--fitted", nargs="*", default=[], help="the checkpoints with fitted programs")
    parser.add_argument("--only", nargs="+", choices=BUILDERS, help="programs; all without it")
    parser.add_argument("--json", help="a file for the figures, which keeps the rows of earlier runs")
    parser.add_argument("--table", action="store_true", help="print the rows of the file, compile nothing")
    parser.add_argument("--hlo", help="a folder for the programs' text")
    options = parser.parse_args()
    if options.table and not options.json:
        parser.error("--table prints the rows of a file: name it with --json")
    return options


def targets(text: str) -> list[str]:
    """Return the names of targets in a text with commas."""
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in TARGETS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(TARGETS)}")
    return names


def compile_denoise(shapes: LaneShapes, compiler: Compiler) -> None:
    """Compile the evaluations that suit every run."""
    lane_programs.compile_evaluations(shapes, compiler, shapes.grid.suits_all())


BUILDERS = {
    "condition": lane_programs.compile_condition,
    "begin": lane_programs.compile_begin,
    "admit": lane_programs.compile_admit,
    "denoise": compile_denoise,
    "take": lane_programs.compile_take,
    "decode": lane_programs.compile_decode,
}


def compiled(  # noqa: PLR0917
    options: argparse.Namespace,
    target: Target,
    compiler: RecordingCompiler,
    backend: Backend,
    checkpoint: str,
    seats: int,
) -> Row:
    """Compile a lane's programs for a target; an error is part of the row."""
    name, _, size = checkpoint.partition("@")
    picture = PICTURES.get(int8_of(name)[0], PICTURES["demo"])
    row = Row(
        target=target.name,
        checkpoint=name,
        size=int(size) if size else picture.size,
        guided=picture.guided and not options.unguided,
        seats=seats,
        steps=options.steps or picture.steps,
        kernel=", ".join(f"{form} {width}" for form, width in backend.widest.items())
        or next(iter(backend.refused.values()), ""),
        whole=not options.only,
    )
    residency = DescribedResidency()
    try:
        with told(backend):
            kept = compile_all(options, compiler, row, residency)
    except Exception as error:  # noqa: BLE001 - a refusal is a row of the table
        print(f"  {target.name}: {error}", file=sys.stderr)
        compiler.of_row()
        return replace(row, error=str(error).splitlines()[0])
    made = compiler.of_row()
    with told(Backend(platform=backend.platform)):
        flop = sum(network_flop(spec) for spec, _, _ in made if spec.name.endswith(" denoise"))
    code = sum(code_memory(program) for _, program, _ in made)
    residency.claim("lane", Need(held=kept - residency.parameters + code, working=most_working(made)))
    return replace(
        row,
        kept=kept,
        needed=needed(residency.parameters, residency.held),
        least=needed(residency.at_once, residency.held),
        network_flop=flop,
        programs=tuple(
            measured(options, target, spec.name, program, seconds) for spec, program, seconds in made
        ),
    )


def most_working(made: list[tuple[ProgramSpec, Any, float]]) -> int:
    """Return the most memory that a lane's program needs while it runs, in bytes of each device.

    `empty` makes the seats themselves, and `encode` is the model's, whose claim is made elsewhere.
    """
    own = (program for spec, program, _ in made if spec.name.split()[-1] not in {"empty", "encode"})
    return max((working_memory(program) for program in own), default=0)


def compile_all(
    options: argparse.Namespace, compiler: Compiler, row: Row, residency: DescribedResidency
) -> int:
    """Compile the programs of a row, and return the bytes that a device keeps: parameters and seats."""
    described = described_checkpoint(row.checkpoint, compiler.mesh, dtype=options.dtype)
    offer = Offer(
        model=Path(row.checkpoint).name,
        sizes=((row.size, row.size),),
        num_inference_steps=20,
        guidance_scale=5.0 if row.guided else 1.0,
        sampler=Sampler.FLOW_EULER if predicts_flow(described.scheduler_config) else Sampler.DDIM,
        prompt_chunks=options.chunks,
    )
    model = LoadedModel(offer, described, compiler, residency=residency)
    lane = Lane(model=offer.model, height=row.size, width=row.size, guided=row.guided)
    shapes = LaneShapes(lane=lane, model=model, seats_per_device=row.seats)
    condition = lane_programs.compile_condition(shapes, compiler)
    shapes = replace(shapes, conditioning=condition.out_info)
    if options.only:
        for name in options.only:
            BUILDERS[name](shapes, compiler)
    else:
        lane_programs.compile_lane(shapes, compiler, LaterPrograms(), previews=True)
    if row.checkpoint in options.fitted:
        compile_fitted(shapes, compiler, options.only or BUILDERS)
    return residency.parameters + shapes.bytes_per_device


def compile_fitted(shapes: LaneShapes, compiler: Compiler, only: Collection[str]) -> None:
    """Compile the fitted programs of a lane."""
    if "denoise" in only:
        for form in shapes.grid.further_forms(loras=shapes.model.adapts_denoiser):
            lane_programs.compile_evaluations(shapes, compiler, form)


@contextlib.contextmanager
def told(backend: Backend) -> Iterator[None]:
    """Make the engine find this backend."""
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


if __name__ == "__main__":
    main()
