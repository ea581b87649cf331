"""Loading a checkpoint of SD 1.5's size: seconds and the host's memory, beside diffusers on torch.

    python benchmarks/loading.py [--stored float16] [--dtype float32] [--from-disk] [--folder PATH]

A checkpoint with random weights is written into a temporary folder, tensor by tensor, and removed afterwards
(`--folder` keeps it, or uses an existing one). Each load runs in its own process, which imports everything
before the timing starts. “Beside the arrays” is the peak of the process's resident memory minus the memory
before the load, minus the parameters: on a CPU the devices' memory is host memory, so it is counted apart.
The goal is 1.3 times the largest file. Files are in the system's page cache, unless `--from-disk` drops them
before each load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from conditions import print_conditions

Figures = dict[str, float]
ROOT = Path(__file__).parents[1]
DEMO = ROOT / "sdjax_engine" / "demo" / "checkpoint"
DTYPES: dict[str, Any] = {
    "float32": ("F32", np.float32),
    "float16": ("F16", np.float16),
    "bfloat16": ("BF16", ml_dtypes.bfloat16),
}
GOAL = 1.3
# 1×1 convolutions.
CONVOLUTIONS = ("proj_in.weight", "proj_out.weight", "conv_shortcut.weight", "quant_conv.weight")
PARTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "text_encoder": (
        "CLIPTextModel",
        "model",
        {
            "architectures": ["CLIPTextModel"],
            "model_type": "clip_text_model",
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "vocab_size": 49408,
            "eos_token_id": 2,
        },
    ),
    "unet": (
        "UNet2DConditionModel",
        "diffusion_pytorch_model",
        {"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768, "sample_size": 64},
    ),
    "vae": (
        "AutoencoderKL",
        "diffusion_pytorch_model",
        {
            "_class_name": "AutoencoderKL",
            "block_out_channels": [128, 256, 512, 512],
            "down_block_types": ["DownEncoderBlock2D"] * 4,
            "up_block_types": ["UpDecoderBlock2D"] * 4,
            "layers_per_block": 2,
        },
    ),
}
INDEX = {
    "_class_name": "StableDiffusionPipeline",
    "scheduler": ["diffusers", "PNDMScheduler"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
    "safety_checker": [None, None],
    "feature_extractor": [None, None],
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stored", choices=DTYPES, default="float32", help="the files' dtype")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--from-disk", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--load", nargs=3, metavar=("WHO", "FOLDER", "CACHE"), help=argparse.SUPPRESS)
    return parser.parse_args()


def write_checkpoint(
    folder: Path,
    stored: str,
    *,
    parts: dict[str, tuple[str, str, dict[str, Any]]] | None = None,
    index: dict[str, Any] | None = None,
) -> None:
    """Write a checkpoint with random weights, SD 1.5's size unless `parts` and their `index` say otherwise.

    Only one tensor at a time is in memory.
    """
    from sdjax_engine.weights.networks import Part, settle_config  # noqa: PLC0415
    from sdjax_engine.weights.tensors import reference_shape  # noqa: PLC0415

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_index.json").write_text(json.dumps(index or INDEX))
    shutil.copytree(DEMO / "scheduler", folder / "scheduler")
    for name in (each for each in index or INDEX if each.startswith("tokenizer")):
        shutil.copytree(DEMO / "tokenizer", folder / name)
    for name, (model, stem, config) in (parts or PARTS).items():
        settled = settle_config(model, config, origin=name)
        wanted = Part(model=model, config=settled, stored={}, origin=name).wanted
        shapes = {key: reference_shape(each.shape, each.leaf) for key, each in wanted.items()}
        shapes |= {key: (*shape, 1, 1) for key, shape in shapes.items() if key.endswith(CONVOLUTIONS)}
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
        write_tensors(folder / name / f"{stem}.safetensors", shapes, stored, rng)


def write_tensors(
    file: Path, shapes: dict[str, tuple[int, ...]], stored: str, rng: np.random.Generator
) -> None:
    code, dtype = DTYPES[stored]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for key, shape in shapes.items():
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        header[key] = {"dtype": code, "shape": shape, "data_offsets": (offset, offset + size)}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            opened.write((0.02 * rng.standard_normal(shape, np.float32)).astype(dtype).tobytes())


def resident(key: str) -> float:
    """Return MiB of this process's memory: `VmRSS` now, or `VmHWM`, the peak since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise LookupError(key)


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measure(load: Callable[[], float]) -> Figures:
    """Measure `load`, which returns the MiB of its parameters in host memory."""
    before = resident("VmRSS")
    forget_peak()
    begun, worked = time.perf_counter(), time.process_time()
    arrays = load()
    seconds, processor = time.perf_counter() - begun, time.process_time() - worked
    peak = resident("VmHWM")
    beside = peak - before - arrays
    return {"seconds": seconds, "processor": processor, "arrays": arrays, "peak": peak, "beside": beside}


def load_ours(folder: str, cache: str, dtype: str) -> Figures:
    import jax  # noqa: PLC0415

    from sdjax_engine.weights import load_checkpoint  # noqa: PLC0415

    on_host = jax.devices()[0].platform == "cpu"
    load_checkpoint(str(DEMO))  # imports and first-use preparations are not part of a load

    def load() -> float:
        checkpoint = load_checkpoint(folder, dtype=dtype, cache_dir=Path(cache) if cache else None)
        parts = list(checkpoint.components.values())
        leaves = jax.block_until_ready(jax.tree.leaves([part.parameters for part in parts]))
        return sum(leaf.nbytes for leaf in leaves) / 2**20 if on_host else 0.0

    return measure(load)


def load_reference(folder: str, _: str, dtype: str) -> Figures:
    import torch  # noqa: PLC0415
    from diffusers import StableDiffusionPipeline  # noqa: PLC0415

    StableDiffusionPipeline.from_pretrained(str(DEMO), local_files_only=True)

    def load() -> float:
        pipe = StableDiffusionPipeline.from_pretrained(
            folder, torch_dtype=getattr(torch, dtype), local_files_only=True
        )
        parts = (pipe.text_encoder, pipe.unet, pipe.vae)
        tensors = [tensor for part in parts for tensor in part.state_dict().values()]
        for tensor in tensors:
            tensor.sum()  # reads memory-mapped data, which our load reads too
        return sum(tensor.nbytes for tensor in tensors) / 2**20

    return measure(load)


LOADERS = {"ours": load_ours, "diffusers": load_reference}


def load_apart(who: str, folder: Path, cache: Path | str, options: argparse.Namespace) -> Figures:
    """Measure one load in its own process."""
    if options.from_disk:
        for file in (*folder.rglob("*.safetensors"), *Path(cache or folder).rglob("*.safetensors")):
            forget_pages(file)
    command = [sys.executable, __file__, *sys.argv[1:], "--load", who, str(folder), str(cache)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    figures: Figures = json.loads(finished.stdout.splitlines()[-1])
    return figures


def forget_pages(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def checkpoint(options: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as room:
        folder = options.folder or Path(room) / "checkpoint"
        if not (folder / "model_index.json").exists():
            write_checkpoint(folder, options.stored)
        yield folder


def main() -> None:
    options = arguments()
    if options.load:
        who, folder, cache = options.load
        print(json.dumps(LOADERS[who](folder, cache, options.dtype)))
        return
    print_conditions("jax", "jaxlib", "flax", "torch", "diffusers", "safetensors")
    with checkpoint(options) as folder, tempfile.TemporaryDirectory() as cache:
        largest = max(file.stat().st_size for file in folder.rglob("*.safetensors")) / 2**20
        total = sum(file.stat().st_size for file in folder.rglob("*.safetensors")) / 2**20
        where = "from the disk" if options.from_disk else "files in the page cache"
        print(f"conditions: {options.stored} files into {options.dtype}, {where}")
        print(f"files {total:.0f} MiB, the largest {largest:.0f} MiB; goal {GOAL * largest:.0f} MiB beside")
        names = ("s", "processor, s", "arrays, MiB", "peak, MiB", "beside, MiB", "of largest")
        print(" " * 34 + "".join(f"{name:>14}" for name in names))
        for title, who, kept in (
            ("ours, nothing kept", "ours", ""),
            ("ours, first, keeping", "ours", cache),
            ("ours, again, from what is kept", "ours", cache),
            ("diffusers", "diffusers", ""),
        ):
            each = load_apart(who, folder, kept, options)
            values = (each[key] for key in ("seconds", "processor", "arrays", "peak", "beside"))
            row = "".join(f"{value:14.1f}" for value in values)
            print(f"{title:34}{row}{each['beside'] / largest:14.2f}", flush=True)


if __name__ == "__main__":
    main()
