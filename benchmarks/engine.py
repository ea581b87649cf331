"""The engine's pictures a second beside the removed Flax pipeline and `diffusers` on torch, in the same run.

    python benchmarks/engine.py [--on cpu|gpu] [--rounds 3] [--like TEXT] [--peers removed,torch,compiled]
    python benchmarks/engine.py --tiny   # the GPU's table in miniature, on the CPU

Weights, prompt, seeds, first noise, steps, sizes and dtype are the same. Each side is its own process
(`engine_peers.py`) in its best arrangement. Ours is the engine as the bot uses it, with every seat taken, in
steady state. The removed pipeline (in its own environment, built by `legacy_flax.py`) paints one picture on
each device. torch paints a batch, eager and compiled. The sides take turns; seconds and ratios are medians
over the rounds. On a shared machine the processor's seconds vary less. “Differ” is the largest difference of
a picture's values from ours, of 255, and the mean difference: the removed UNet approximates GELU, and a
random network magnifies that. On a GPU TFLOP/s are printed with the limit; the FLOP of a picture are counted
from the programs. A peer that fails, or has no picture after `--patience` seconds, is left out of its row.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from conditions import print_conditions
from engine_checkpoints import checkpoint
from engine_peers import PeerTask
from legacy_flax import environment

PLATFORMS = os.environ.get("JAX_PLATFORMS", "")
HERE, ROOT = Path(__file__).parent, Path(__file__).parents[1]
LIMIT = 790.0  # bfloat16 TFLOP/s, measured on an H200
GRACE = 10.0  # seconds that a side has to end
TITLES = {"ours": "ours", "removed": "removed", "torch": "torch", "compiled": "torch, compiled"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One workload; `tflop` is the arithmetic of one picture, `batch` the batch size of torch."""

    name: str
    checkpoint: str
    side: int
    steps: int
    guidance: float
    batch: int
    peers: tuple[str, ...] = ("removed", "torch", "compiled")
    dtype: str = "float32"
    sampler: str = "ddim"
    tflop: float | None = None
    fitted: bool = True
    note: str = ""


NO_GROUPS = "the removed classes cannot load it: their norms know 32 groups only"
ON_CPU = (
    Row(
        name="demo, 128², 20 steps",
        checkpoint="demo",
        side=128,
        steps=20,
        guidance=2.2,
        batch=8,
        peers=("torch", "compiled"),
        note=NO_GROUPS,
    ),
    Row(name="SD 1.x of 77 M, 256², 4 steps", checkpoint="mid", side=256, steps=4, guidance=7.5, batch=4),
    Row(
        name="SD 1.x of 77 M, 512², 2 steps",
        checkpoint="mid",
        side=512,
        steps=2,
        guidance=7.5,
        batch=2,
        peers=("removed", "torch"),
        note="compiled torch is left out: it compiles for minutes and gains what it gains at 256²",
    ),
)
ON_GPU = (
    Row(
        name="SD 1.5, 512², 20 steps",
        checkpoint="sd15",
        side=512,
        steps=20,
        guidance=7.5,
        batch=8,
        peers=("torch", "compiled"),
        dtype="bfloat16",
        tflop=34.7,
    ),
    Row(
        name="SDXL, 1024², 20 steps",
        checkpoint="sdxl",
        side=1024,
        steps=20,
        guidance=5.0,
        batch=4,
        peers=("torch", "compiled"),
        dtype="bfloat16",
        sampler="euler",
        tflop=281.0,
        fitted=False,
        note="without fitted programs, which a full lane does not use, and of which this decoder has none",
    ),
)
IN_MINIATURE = {"sd15": ("tiny", 2.38e-3), "sdxl": ("xl", 3.17e-3)}


class SideFailed(Exception):
    """A side died, or has no picture in time."""


class Side:
    """A process that paints one row with one library; SideFailed where it has no picture after `patience`."""

    def __init__(
        self,
        peer: str,
        told: PeerTask,
        *,
        on: str,
        torch_python: str | None = None,
        patience: float | None = None,
    ) -> None:
        pythons = {"torch": torch_python, "compiled": torch_python}
        python = environment() if peer == "removed" else pythons.get(peer) or sys.executable
        platforms = "cpu" if on == "cpu" else PLATFORMS
        environ = {**os.environ, "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": platforms}
        if peer == "ours":
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [python, HERE / "engine_peers.py", peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in environ.items() if value},
        )
        self._save = told.save
        limit = threading.TIMEOUT_MAX if patience is None else patience
        late = threading.Timer(limit, self._process.kill)
        late.daemon = True
        late.start()
        first = self._ask(json.dumps(asdict(told)))
        late.cancel()
        self.first, self.count = first["seconds"], int(first["count"])

    def _ask(self, line: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SideFailed(f"ended with status {self.close()}")
        return json.loads(answer)

    def measure(self) -> tuple[float, float]:
        """Return the seconds and the processor's seconds of a picture, measured once."""
        seconds, worked = self._ask("")
        return seconds, worked

    @property
    def pictures(self) -> np.ndarray[Any, Any]:
        """Return the first pictures, (count, height, width, 3)."""
        return np.load(self._save).astype(np.int32)

    def close(self) -> int:
        """End the process, which may have died; it is killed if it goes on for `GRACE` seconds.

        Returns its status.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.stdout.close()
        return self._process.wait()


def vae_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "vae" / "config.json").read_text())
    return config


def first_noise(row: Row, folder: Path, file: Path) -> str:
    """Save the engine's first noise of the seeds from 0, channels first, and return the file."""
    os.environ["JAX_PLATFORMS"] = "cpu"  # only the painting processes use the accelerator
    import jax  # noqa: PLC0415

    factor = 2 ** (len(vae_config(folder)["block_out_channels"]) - 1)
    shape = (1, vae_config(folder).get("latent_channels", 4), row.side // factor, row.side // factor)
    noise = [jax.random.normal(jax.random.PRNGKey(seed), shape) for seed in range(row.batch)]
    np.save(file, np.concatenate(noise))
    return str(file)


def compare(row: Row, peers: list[str], room: Path, options: argparse.Namespace) -> None:
    """Print one row of the table for each side."""
    room.mkdir(parents=True, exist_ok=True)
    folder = checkpoint(row.checkpoint, room)
    told = PeerTask(
        folder=str(folder),
        noise=first_noise(row, folder, room / "noise.npy"),
        save="",
        platform=options.on if not options.tiny else "cpu",
        cache=str(room / "cache") if options.room else "",
        fitted=row.fitted,
        mode=options.mode,
        **{name: getattr(row, name) for name in ("side", "steps", "guidance", "dtype", "sampler", "batch")},
    )
    print(
        f"\n{row.name}, guidance {row.guidance}, {row.sampler}, {row.dtype}"
        + f" ({row.note})" * bool(row.note)
    )
    wanted = [*(each for each in row.peers if each in peers), "ours"]  # each compiles alone on the device
    if "removed" in wanted:
        subprocess.run([environment(), HERE / "legacy_flax_convert.py", folder], check=True)
    sides: dict[str, Side] = {}
    try:
        for peer in wanted:
            started = started_side(peer, replace(told, save=str(room / f"{peer}.npy")), options)
            sides |= {peer: started} if started else {}
        rounds = [measured(sides) for _ in range(options.rounds)]
        print_row(row, sides, rounds)
    finally:
        for side in sides.values():
            side.close()


def measured(sides: dict[str, Side]) -> dict[str, tuple[float, float]]:
    """Return a measurement of each side; one that dies is left out from now on, unless it is ours."""
    figures = {}
    for name, side in list(sides.items()):
        try:
            figures[name] = side.measure()
        except SideFailed as failure:
            if name == "ours":
                raise
            print(f"{TITLES[name]} is left out: it {failure}", flush=True)
            del sides[name]
    return figures


def started_side(peer: str, told: PeerTask, options: argparse.Namespace) -> Side | None:
    """Return a side that has painted; None, and a line, where it cannot, unless it is ours."""
    python, patience = options.torch_python, None if peer == "ours" else options.patience
    try:
        side = Side(peer, told, on=told.platform, torch_python=python, patience=patience)
    except SideFailed as failure:
        if peer == "ours":
            raise
        print(f"{TITLES[peer]} is left out: it {failure}", flush=True)
        return None
    print(f"{TITLES[peer]}: the first {side.count} pictures after {side.first:.1f} s", flush=True)
    return side


def print_row(row: Row, sides: dict[str, Side], rounds: list[dict[str, tuple[float, float]]]) -> None:
    heads = (
        "at once",
        "first, s",
        "s a picture",
        "processor, s",
        "pictures/s",
        "ours is",
        "differ",
        "in the mean",
    )
    print(f"{'':18}" + "".join(f"{head:>13}" for head in heads))
    ours = sides["ours"].pictures
    sides = {"ours": sides["ours"], **sides}
    for name, side in sides.items():
        seconds, worked = (statistics.median(each[name][which] for each in rounds) for which in (0, 1))
        ratio = statistics.median(each[name][0] / each["ours"][0] for each in rounds)
        theirs = side.pictures
        many = min(len(theirs), len(ours))
        apart = np.abs(theirs[:many] - ours[:many])
        told = f"{side.count:13}{side.first:13.1f}{seconds:13.3f}{worked:13.3f}{1 / seconds:13.3f}"
        if name != "ours":
            told += f"{ratio:12.2f}×{apart.max():13}{apart.mean():13.3f}"
        if row.tflop is not None:
            rate = row.tflop / seconds
            told += f"   {rate:.3g} TFLOP/s, {rate / LIMIT:.2g} of {LIMIT:g}"
        print(f"{TITLES[name]:18}{told}", flush=True)


def in_miniature(row: Row) -> Row:
    """Return the row with a tiny network and picture, and its arithmetic."""
    name, tflop = IN_MINIATURE[row.checkpoint]
    return replace(row, name=f"{row.name}, in miniature", checkpoint=name, side=64, tflop=tflop)


def found() -> str:
    """Return JAX's platform: "gpu" or "cpu"."""
    code = "import jax; print(jax.default_backend())"
    environ = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    environ |= {"JAX_PLATFORMS": PLATFORMS} if PLATFORMS else {}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ, check=True
    )
    return "cpu" if done.stdout.strip() == "cpu" else "gpu"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", choices=("cpu", "gpu"), help="the table; by default what JAX finds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--like", default="", help="only the rows whose names match this regular expression")
    parser.add_argument("--peers", default="removed,torch,compiled", help="whom to compare with")
    parser.add_argument("--torch-python", help="the Python that paints with torch; by default this one")
    parser.add_argument("--room", help="a folder that keeps checkpoints and the engine's programs")
    parser.add_argument("--mode", default=PeerTask.mode, help="how torch compiles on a GPU")
    parser.add_argument("--patience", type=float, help="the most seconds until a side's first pictures")
    parser.add_argument("--tiny", action="store_true", help="the GPU's rows with tiny networks, on the CPU")
    options = parser.parse_args()
    if options.tiny and options.on == "cpu":
        parser.error("--tiny is for the GPU's table")
    options.on = options.on or ("gpu" if options.tiny else found())
    rows = ON_CPU if options.on == "cpu" else ON_GPU
    rows = tuple(map(in_miniature, rows)) if options.tiny else rows
    print_conditions("jax", "flax", "torch", "diffusers")
    print(f"medians of {options.rounds} rounds; load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as own:
        for row in rows:
            if re.search(options.like, row.name):
                compare(row, options.peers.split(","), Path(options.room or own), options)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
