"""The removed Flax pipelines and ours on one checkpoint: how far the pictures differ, how long they take.

    python benchmarks/legacy_flax.py [--pairs 3] [--like TEXT]

Builds an environment with diffusers 0.39.0 and transformers 4.57.6 under var/legacy-flax (kept for the next
run) and makes random checkpoints. Both libraries run the guide's code in their own processes, with the same
folder, prompt, keys, steps and schedulers, in float32. The difference is the largest of any value of any
picture, on the scale from 0 to 1. Seconds are of the whole call, for one picture on each core's device: first
the call that compiles, then medians over pairs of calls that take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from conditions import print_conditions
from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[1]
HOME = ROOT / "var" / "legacy-flax"
REMOVED = ("diffusers==0.39.0", "transformers==4.57.6", "flax==0.12.8", "jax==0.10.2", "jaxlib==0.10.2")
HERE = Path(__file__).parent

BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
SCHEDULER = {
    "_class_name": "PNDMScheduler",
    **BETAS,
    "skip_prk_steps": True,
    "set_alpha_to_one": False,
    "clip_sample": False,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One comparison: a checkpoint, a class, and a call."""

    checkpoint: str
    scheduler: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "FlaxStableDiffusionPipeline"
    pictures: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in the table."""
        said = ", ".join(f"{name} {value}" for name, value in self.arguments.items())
        return f"{self.checkpoint}: {self.kind.removeprefix('Flax')}, {self.scheduler}, {said}"


TINY = tuple(
    Case(
        checkpoint="tiny",
        scheduler=scheduler,
        arguments={"num_inference_steps": steps, "guidance_scale": guidance},
    )
    for scheduler, steps in (("PNDM", 50), ("DDIM", 50), ("DDIM", 7), ("DPMSolverMultistep", 20))
    for guidance in (7.5, 1.0)
)
PICTURES = tuple(
    Case(
        checkpoint=checkpoint,
        scheduler=scheduler,
        kind=f"FlaxStableDiffusion{kind}Pipeline",
        pictures=pictures,
        arguments={"num_inference_steps": 20, **more},
    )
    for scheduler in ("PNDM", "DDIM")
    for checkpoint, kind, pictures, more in (
        ("tiny", "Img2Img", ("picture",), {"strength": 0.6}),
        ("inpaint", "Inpaint", ("picture", "mask"), {}),
        ("xl", "XL", (), {"guidance_scale": 5.0}),
    )
)
MID = tuple(
    Case(
        checkpoint="mid",
        scheduler=scheduler,
        arguments={"num_inference_steps": steps, "guidance_scale": guidance},
    )
    for scheduler in ("PNDM", "DDIM")
    for guidance in (7.5, 1.0)
    for steps in (4, 5)
)


def tiny_networks() -> dict[str, dict[str, Any]]:
    """Return tiny networks with norms of 32 groups: the removed classes support no other number."""
    return {
        "unet": {"norm_num_groups": 32, "block_out_channels": (32, 64)},
        "vae": {"norm_num_groups": 32, "block_out_channels": (32, 32, 64, 64)},
    }


def mid_networks() -> dict[str, dict[str, Any]]:
    """Return an SD 1.x of 77 million parameters for 256×256: all blocks, three tenths of the width."""
    attending = "CrossAttnDownBlock2D"
    return {
        "unet": {
            "norm_num_groups": 32,
            "block_out_channels": (96, 192, 384, 384),
            "down_block_types": (attending, attending, attending, "DownBlock2D"),
            "up_block_types": ("UpBlock2D", *("CrossAttnUpBlock2D",) * 3),
            "layers_per_block": 2,
            "attention_head_dim": 8,
            "cross_attention_dim": 256,
            "sample_size": 32,
        },
        "vae": {
            "norm_num_groups": 32,
            "block_out_channels": (32, 64, 128, 128),
            "layers_per_block": 2,
            "sample_size": 256,
        },
        "text_encoder": {
            "hidden_size": 256,
            "intermediate_size": 1024,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
        },
    }


def demo_networks() -> dict[str, dict[str, Any]]:
    """Return networks like the bundled checkpoint's, but with norms of 32 groups and widths for them.

    The text encoder has the bundled size, with the ids of the tests' vocabulary.
    """
    return {
        "unet": {
            "norm_num_groups": 32,
            "block_out_channels": (64, 128),
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "layers_per_block": 1,
            "attention_head_dim": 4,
            "cross_attention_dim": 128,
            "sample_size": 16,
        },
        "vae": {
            "norm_num_groups": 32,
            "block_out_channels": (32, 32, 64, 64),
            "layers_per_block": 1,
            "sample_size": 128,
        },
        "text_encoder": {
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
        },
    }


def make_checkpoints(folder: Path, wanted: set[str]) -> dict[str, str]:
    """Write the checkpoints wanted, with tokenizer files of the old form, and return their folders."""
    sys.path.insert(0, str(ROOT / "tests"))
    from checkpoints import (  # noqa: PLC0415 – imports torch
        FAMILIES,
        make_tiny_checkpoint,
        use_old_tokenizer_files,
    )

    forms = {
        "tiny": tiny_networks(),
        "mid": mid_networks(),
        "demo": demo_networks(),
        "inpaint": merged(FAMILIES["SD 1 inpainting"], tiny_networks()),
        "xl": merged({"pipeline": FAMILIES["SDXL"]["pipeline"]}, tiny_networks()),
    }
    for name in wanted:
        made = make_tiny_checkpoint(folder / name, **forms[name])
        for tokenizer in made.glob("tokenizer*"):
            use_old_tokenizer_files(tokenizer)
        (made / "scheduler" / "scheduler_config.json").write_text(json.dumps(SCHEDULER))
    return {name: str(folder / name) for name in wanted}


def merged(some: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return `some` updated with `others`, one level deep."""
    return some | {name: {**some.get(name, {}), **values} for name, values in others.items()}


def environment() -> Path:
    """Return the python of the removed classes' environment; it is built on first use."""
    python, mark = HOME / "venv" / "bin" / "python", HOME / "venv" / "installed.json"
    if not mark.is_file() or json.loads(mark.read_text()) != list(REMOVED):
        print(f"building {HOME / 'venv'}", file=sys.stderr)
        shutil.rmtree(HOME / "venv", ignore_errors=True)
        venv.create(HOME / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REMOVED], check=True)
        mark.write_text(json.dumps(REMOVED))
    return python


class PainterProcess:
    """A process that paints with one library."""

    def __init__(self, python: str | Path, module: str, folder: Path) -> None:
        self._save = folder / f"{module}.npy"
        environ = {**os.environ, "PYTHONPATH": str(ROOT)} if module == "sdjax_engine" else dict(os.environ)
        self._process = subprocess.Popen(
            [python, HERE / "legacy_flax_painter.py", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )

    def paint(self, case: Case, folders: Mapping[str, str], *, seed: int = 0) -> tuple[Any, float]:
        """Return the pictures and the seconds they took."""
        told = {
            "class": case.kind,
            "folder": folders[case.checkpoint],
            "scheduler": case.scheduler,
            "arguments": dict(case.arguments),
            "pictures": [folders[name] for name in case.pictures],
            "seed": seed,
            "save": str(self._save),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or sys.exit("a painter died"))
        return np.load(self._save).astype(np.float64), float(answer["seconds"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def painters(folder: Path) -> Iterator[tuple[PainterProcess, PainterProcess]]:
    """Yield the removed library's painter and ours."""
    both = (
        PainterProcess(environment(), "diffusers", folder),
        PainterProcess(sys.executable, "sdjax_engine", folder),
    )
    try:
        yield both
    finally:
        for painter in both:
            painter.close()


def draw_pictures(folder: Path) -> dict[str, str]:
    """Write a start picture and a mask, 64×64, and return their paths."""
    size = (64, 64)
    picture, mask = Image.new("RGB", size, "navy"), Image.new("L", size, 0)
    ImageDraw.Draw(picture).ellipse((10, 12, 50, 56), fill="orange")
    ImageDraw.Draw(mask).rectangle((20, 24, 63, 50), fill=255)
    files = {"picture": folder / "picture.png", "mask": folder / "mask.png"}
    for name, drawn in (("picture", picture), ("mask", mask)):
        drawn.save(files[name])
    return {name: str(file) for name, file in files.items()}


def compare(
    case: Case, removed: PainterProcess, ours: PainterProcess, folders: Mapping[str, str], *, pairs: int
) -> None:
    """Print one line of the table."""
    theirs, their_first = removed.paint(case, folders)
    mine, my_first = ours.paint(case, folders)
    line = f"{case.name:88}{np.abs(mine - theirs).max():10.1e}{theirs.std():8.3f}"
    times: list[tuple[float, float]] = []
    for pair in range(pairs):
        times.append(
            (removed.paint(case, folders, seed=pair + 1)[1], ours.paint(case, folders, seed=pair + 1)[1])
        )
    if times:
        their_again, my_again = (statistics.median(each) for each in zip(*times, strict=True))
        line += f"{their_first:10.1f}{my_first:8.1f}{their_again:10.2f}{my_again:8.2f}"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--like", default="", help="only the cases whose names match this regular expression")
    options = parser.parse_args()
    print_conditions("jax", "flax", "numpy")
    print(f"the removed classes: {', '.join(REMOVED)}; load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = [case for case in (*TINY, *PICTURES, *MID) if re.search(options.like, case.name)]
        checkpoints = make_checkpoints(folder, {case.checkpoint for case in cases})
        subprocess.run([environment(), HERE / "legacy_flax_convert.py", *checkpoints.values()], check=True)
        folders = {**checkpoints, **draw_pictures(folder)}
        with painters(folder) as (removed, ours):
            print(f"{'':88}{'differ':>10}{'std':>8}{'first, s':>10}{'ours':>8}{'again, s':>10}{'ours':>8}")
            for case in cases:
                compare(case, removed, ours, folders, pairs=options.pairs if case in MID else 0)


if __name__ == "__main__":
    main()
