"""Copies a trained checkpoint into the package: weights in float16, tokenizer files as plain text.

python -m sdjax_engine.demo.training.pack OUT [FOLDER]
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

CHECKPOINT = Path(__file__).parents[1] / "checkpoint"
WEIGHTS = {
    "text_encoder": "model.safetensors",
    "unet": "diffusion_pytorch_model.safetensors",
    "vae": "diffusion_pytorch_model.safetensors",
}
LARGEST = 12_000_000


def pack(out: Path, folder: Path) -> int:
    """Write the checkpoint in `out` into `folder` and return its size in bytes; ValueError if too large."""
    source = out / "checkpoint"
    for part, name in WEIGHTS.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        halves = {key: tensor.half().contiguous() for key, tensor in load_file(source / part / name).items()}
        save_file(halves, folder / part / name, metadata={"format": "pt"})
        _copy_json(source / part / "config.json", folder / part / "config.json")
    (folder / "scheduler").mkdir(exist_ok=True)
    _copy_json(source / "scheduler" / "scheduler_config.json", folder / "scheduler" / "scheduler_config.json")
    _copy_json(source / "model_index.json", folder / "model_index.json")
    (folder / "tokenizer").mkdir(exist_ok=True)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copyfile(out / "tokenizer" / name, folder / "tokenizer" / name)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > LARGEST:
        raise ValueError(f"{size} bytes are more than the package may carry ({LARGEST})")
    return size


def _copy_json(source: Path, target: Path) -> None:
    """Copy a configuration without the keys that only say where it was written."""
    config = json.loads(source.read_text())
    config.pop("_name_or_path", None)
    target.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    """Pack, and print the size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=CHECKPOINT)
    options = parser.parse_args()
    print(f"{pack(options.out, options.folder):,} bytes in {options.folder}")


if __name__ == "__main__":
    main()
