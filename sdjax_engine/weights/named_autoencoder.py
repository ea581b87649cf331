"""An autoencoder from elsewhere than the checkpoint: a folder, a single file, or the hub."""

from __future__ import annotations

from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.file_names import DIFFUSERS_STEM, Report
from sdjax_engine.weights.files import weight_files
from sdjax_engine.weights.headers import read_header
from sdjax_engine.weights.named_folder import find_named_folder
from sdjax_engine.weights.networks import Part, settle_config
from sdjax_engine.weights.original.autoencoder import vae_part
from sdjax_engine.weights.original.families import Family
from sdjax_engine.weights.tensors import stored_tensors, tensors_in
from sdjax_engine.wording import cut

CONFIG = "config.json"
MODEL = "AutoencoderKL"
PREFIXES = ("first_stage_model.", "vae.", "")  # of a whole checkpoint, and of a file of its own
OF_DIFFUSERS = "decoder.mid_block."


def read_autoencoder(
    source: str, family: Family, *, variant: str | None, weights: bool = True, report: Report | None = None
) -> Part:
    """Return the autoencoder called `source` for a checkpoint of this family.

    `source` is a folder or hub id of the reference's `AutoencoderKL`, or a .safetensors file, in the original
    layout or with the folder's names. The scaling of a file without a configuration is the family's. Without
    `weights` only the configuration of a hub id is downloaded. Raises UnreadableCheckpoint.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return read_autoencoder_file(path, family)
    files = (CONFIG, f"{DIFFUSERS_STEM}.safetensors") if weights or path.is_dir() else (CONFIG,)
    folder = find_named_folder(source, files, report)
    return in_folder(folder, variant=variant, weights=weights)


def read_autoencoder_file(file: Path, family: Family) -> Part:
    """Return the autoencoder in `file`, of its own or within a checkpoint; raises UnreadableCheckpoint."""
    tensors = tensors_in(file, read_header(file))
    if any(name.startswith(OF_DIFFUSERS) for name in tensors):
        return part_of(file.parent, (file,))
    for prefix in PREFIXES:
        if f"{prefix}decoder.conv_in.weight" in tensors:
            tensors = {
                name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
            }
            return vae_part(file, tensors, scaling_factor=family.scaling_factor, sample_size=family.side)
    raise UnreadableCheckpoint(f"{file} holds no autoencoder in the original layout: correct the key vae.")


def in_folder(folder: Path, *, variant: str | None, weights: bool) -> Part:
    """Return the autoencoder in a folder of the diffusers layout; raises UnreadableCheckpoint."""
    files = weight_files(folder, variant=variant, stem=DIFFUSERS_STEM) if weights else ()
    return part_of(folder, files)


def part_of(folder: Path, files: tuple[Path, ...]) -> Part:
    """Return the autoencoder of the configuration in `folder` with the tensors of `files`."""
    file = folder / CONFIG
    config = read_json(file)
    kind = config.get("_class_name", MODEL)
    if kind != MODEL:
        raise UnreadableCheckpoint(f"{file} is of the class {cut(str(kind))}, and vae takes an {MODEL}.")
    return Part(
        model=MODEL,
        config=settle_config(MODEL, config, origin=str(file)),
        stored=stored_tensors(MODEL, files),
        origin=str(file),
    )
