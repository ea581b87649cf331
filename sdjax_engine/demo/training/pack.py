"""Copies what a training made into the package: weights in float16, tokenizer files and words as plain text.

The index of the checkpoint also says how it is painted.

python -m sdjax_engine.demo.training.pack [--state FOLDER] [--into FOLDER]
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from sdjax_engine.demo.drawing import LARGER, SIZES
from sdjax_engine.demo.known_words import write_known_words
from sdjax_engine.demo.training import classifier, lora
from sdjax_engine.demo.training.__main__ import FOLDER
from sdjax_engine.demo.training.latent_rgb import colours_in
from sdjax_engine.demo.training.samples import GUIDANCE, STEPS

PACKAGE = Path(__file__).parents[1]
NETWORKS = {
    "checkpoint/text_encoder": "model.safetensors",
    "checkpoint/unet": "diffusion_pytorch_model.safetensors",
    "checkpoint/vae": "diffusion_pytorch_model.safetensors",
}
INDEX = "checkpoint/model_index.json"
PLAIN = ("checkpoint/scheduler/scheduler_config.json",)
CLASSIFIER = ("classifier/config.json", "classifier/preprocessor_config.json")
TOKENIZER = ("vocab.json", "merges.txt", "tokenizer_config.json")
LARGEST = 40_000_000


def pack(state: Path, folder: Path) -> int:
    """Write what the training in `state` made into `folder`; return its size in bytes, at most `LARGEST`.

    Raises ValueError for a larger checkpoint, and FileNotFoundError for a training that is not finished.
    """
    missing = [
        name for name in (lora.COURSE.name, classifier.COURSE.name) if not (state / f"{name}.pt").exists()
    ]
    if missing:
        raise FileNotFoundError(f"the training has not finished {', '.join(missing)}")
    beside = pack_beside(state, folder)
    written = [_copy_json(state / name, folder / name) for name in PLAIN]
    written.append(_copy_json(state / INDEX, folder / INDEX, _painting=painting_of(state)))
    for part, name in NETWORKS.items():
        written.append(_copy_json(state / part / "config.json", folder / part / "config.json"))
        written.append(_copy_halved(state / part / name, folder / part / name))
    (folder / "checkpoint" / "tokenizer").mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER:
        target = folder / "checkpoint" / "tokenizer" / name
        written.append(Path(shutil.copyfile(state / "tokenizer" / name, target)))
    written.append(write_known_words(folder / "checkpoint"))
    size = beside + sum(file.stat().st_size for file in written)
    if size > LARGEST:
        raise ValueError(f"{size} bytes are more than the package may carry ({LARGEST})")
    return size


def pack_beside(state: Path, folder: Path) -> int:
    """Write the LoRAs and the classifier in `state` into `folder`; return their size in bytes.

    LoRAs that were there before go: they may be of another checkpoint. Raises FileNotFoundError, and changes
    nothing, if something is missing.
    """
    weights = [f"lora/{file.name}" for file in sorted((state / "lora").glob("*.safetensors"))]
    weights.append("classifier/model.safetensors")
    missing = [name for name in (*weights, *CLASSIFIER) if not (state / name).exists()]
    if missing or len(weights) == 1:
        raise FileNotFoundError(f"the training has not written {', '.join(missing) or 'a LoRA'}")
    for file in (folder / "lora").glob("*.safetensors"):
        file.unlink()
    written = [_copy_halved(state / name, folder / name) for name in weights]
    written += [_copy_json(state / name, folder / name) for name in CLASSIFIER]
    return sum(file.stat().st_size for file in written)


def _copy_halved(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    halves = {key: tensor.half().contiguous() for key, tensor in load_file(source).items()}
    save_file(halves, target, metadata={"format": "pt"})
    target.chmod(0o644)  # safetensors makes files that their owner alone may read
    return target


def painting_of(state: Path) -> dict[str, object]:
    """Return how the checkpoint is painted unless people ask otherwise, and the colours of its previews."""
    return {
        "sizes": [f"{width}x{height}" for width, height in (*SIZES, LARGER)],
        "num_inference_steps": STEPS,
        "guidance_scale": GUIDANCE,
        "latent_rgb": colours_in(state),
    }


def _copy_json(source: Path, target: Path, **more: object) -> Path:
    """Copy a configuration with `more` keys, without the one that only says where it was written."""
    config = json.loads(source.read_text(encoding="utf-8")) | more
    config.pop("_name_or_path", None)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


def main() -> None:
    """Pack, and print the size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--state", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--into", type=Path, default=PACKAGE, metavar="FOLDER")
    options = parser.parse_args()
    print(f"{pack(options.state, options.into):,} bytes in {options.into}")


if __name__ == "__main__":
    main()
