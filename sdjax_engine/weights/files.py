"""Finding a checkpoint's files: the bundled demo, a folder in the diffusers layout, or an id on the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from sdjax_engine.request import UnreadableCheckpoint
from sdjax_engine.wording import first_line

DEMO = "demo"
DEMO_FOLDER = Path(__file__).parent.parent / "demo" / "checkpoint"
INDEX = "model_index.json"
STEMS = {
    "text_encoder": "model",
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
}
PICKLES = ("*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl")
TEXT_FILES = (INDEX, "*/*.json", "*/*.txt")


def find_folder(source: str, *, revision: str | None, variant: str | None) -> Path:
    """Return the local folder of a checkpoint, downloading it where `source` is a hub id.

    A folder that exists wins over a hub id of the same name; `~` is understood. Raises UnreadableCheckpoint.
    """
    folder = DEMO_FOLDER if source == DEMO else Path(source).expanduser()
    if folder.is_file():
        raise UnreadableCheckpoint(
            f"{source} is a file; give the folder of a checkpoint in diffusers layout."
        )
    if folder.is_dir():
        return folder
    if source == DEMO or not is_hub_id(source):
        raise UnreadableCheckpoint(f"There is no checkpoint folder {folder}.")
    return download(source, revision=revision, variant=variant)


def is_hub_id(source: str) -> bool:
    """Whether `source` could be `owner/name` on the hub rather than a path."""
    parts = source.split("/")
    return len(parts) == 2 and all(part and part[0] not in ".~" for part in parts)


def download(repo_id: str, *, revision: str | None, variant: str | None) -> Path:
    """Fetch what is not in the hub's cache yet and return the snapshot's folder.

    Only configurations, tokenizer files and the safetensors wanted are fetched; a component without files of
    `variant` is fetched plain. Raises UnreadableCheckpoint.
    """
    patterns = [*TEXT_FILES, *(each for component in STEMS for each in weight_patterns(component, variant))]
    try:
        folder = Path(snapshot_download(repo_id, revision=revision, allow_patterns=patterns))
        bare = [name for name in STEMS if variant and not list((folder / name).glob("*.safetensors"))]
        if bare:
            plain = [each for component in bare for each in weight_patterns(component, None)]
            snapshot_download(repo_id, revision=revision, allow_patterns=plain)
    except GatedRepoError as error:
        raise UnreadableCheckpoint(
            f"{repo_id} asks for its terms to be accepted: do so on its page, then log in or set HF_TOKEN."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UnreadableCheckpoint(
            f"There is neither a folder {repo_id} nor a checkpoint of that name on the hub that you may read."
        ) from error
    except RevisionNotFoundError as error:
        raise UnreadableCheckpoint(f"{repo_id} has no revision {revision!r}.") from error
    except OSError as error:
        raise UnreadableCheckpoint(
            f"There is no folder {repo_id}, and the hub cannot be reached for a checkpoint of that name: "
            f"{first_line(error)}"
        ) from error
    return folder


def weight_patterns(component: str, variant: str | None) -> list[str]:
    """Return the patterns of one component's safetensors, whole or in shards, and of the shards' index."""
    stem = f"{component}/{STEMS[component]}"
    mark = f".{variant}" if variant else ""
    shard = "-?????-of-?????"
    return [f"{stem}{part}.safetensors" for part in dict.fromkeys((mark, f"{mark}{shard}", f"{shard}{mark}"))]


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or raise UnreadableCheckpoint."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableCheckpoint(f"{path} is missing.") from None
    except (OSError, ValueError) as error:
        raise UnreadableCheckpoint(f"{path} cannot be read: {first_line(error)}") from error
    if not isinstance(content, dict):
        raise UnreadableCheckpoint(f"{path} does not hold a JSON object.")
    return content


def weight_files(folder: Path, *, variant: str | None) -> tuple[Path, ...]:
    """Return the safetensors files of the component in `folder`: those of the variant, else the plain ones.

    Raises UnreadableCheckpoint where there are none, saying so where there are only pickles.
    """
    stem = STEMS[folder.name]
    for mark in (f".{variant}", "") if variant else ("",):
        whole = folder / f"{stem}{mark}.safetensors"
        if whole.is_file():
            return (whole,)
        index = folder / f"{stem}.safetensors.index{mark}.json"
        if index.is_file():
            return shards(index)
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickles:
        raise UnreadableCheckpoint(
            f"{folder} holds only pickled weights ({pickles[0]}), and reading a pickle can run any code: "
            f"save the checkpoint as safetensors."
        )
    raise UnreadableCheckpoint(f"{folder} holds no {stem}.safetensors.")


def shards(index: Path) -> tuple[Path, ...]:
    """Return the files that a sharded component's index names; each must be in the same folder."""
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UnreadableCheckpoint(f"{index} names no files.")
    paths = tuple(index.parent / Path(name).name for name in dict.fromkeys(names.values()))
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UnreadableCheckpoint(f"{index.parent} lacks the shards {', '.join(missing)}.")
    return paths
