"""Finding files: of a checkpoint, and of a network that is named besides it.

A checkpoint is the bundled demo, a folder in the diffusers layout, one file, or a hub id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.tensors import WHY_NO_PICKLES

Report = Callable[[str], None]
"""A callable that gets the progress of a download, line by line."""


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """How files of the hub are fetched; the names are those of the hub's client.

    `proxies` are addresses by protocol, such as {"https": "http://localhost:3128"}. They apply to the whole
    process while files are fetched.
    """

    cache_dir: str | Path | None = None
    local_files_only: bool = False
    token: str | bool | None = field(default=None, repr=False)
    proxies: Mapping[str, str] | None = field(default=None, repr=False)


USUAL = HubOptions()
INDEX = "model_index.json"
KNOWN_WORDS = "known_words.json"
"""The words of a checkpoint that knows few: {"words": {language: [...]}, "also": [...]}."""

PICKLES = ("*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl")
TEXT_FILES = (INDEX, "*/*.json", "*/*.txt")
FLAX = "Flax"  # the prefix of the removed Flax classes
DIFFUSERS_STEM, TRANSFORMERS_STEM = "diffusion_pytorch_model", "model"
_HUB_ID = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)
CHECKPOINT_FILES = (".safetensors", ".ckpt")
OF_TRANSFORMERS = ("text_encoder", "safety_checker")
"""How the names of components begin that are networks of the library transformers."""


def is_hub_id(source: str) -> bool:
    """Return whether `source` could be `owner/name` on the hub and no path."""
    return _HUB_ID.fullmatch(source) is not None and not source.endswith(CHECKPOINT_FILES)


def stem_of(component: str) -> str:
    """Return the name of a component's weights, before `.safetensors`."""
    return TRANSFORMERS_STEM if component.startswith(OF_TRANSFORMERS) else DIFFUSERS_STEM


def weight_patterns(component: str, variant: str | None) -> list[str]:
    """Return the patterns of one component's safetensors, in one file or in shards."""
    stem = f"{component}/{stem_of(component)}"
    mark = f".{variant}" if variant else ""
    shard = "-?????-of-?????"
    return [f"{stem}{part}.safetensors" for part in dict.fromkeys((mark, f"{mark}{shard}", f"{shard}{mark}"))]


DEMO = "demo"
DEMO_FOLDER = Path(__file__).parent.parent / "demo" / "checkpoint"

__all__ = ["DEMO", "INDEX", "PICKLES", "find_source", "is_hub_id", "weight_files"]


def find_source(
    source: str,
    *,
    revision: str | None = None,
    variant: str | None = None,
    weights: bool = True,
    replaced: Collection[str] = (),
    safety_checker: bool = False,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Path:
    """Return the local folder or file of a checkpoint, downloading missing files of a hub id.

    An existing path takes precedence over a hub id of the same name; `~` is expanded. Without `weights` only
    configurations and tokenizers are downloaded, and of what is `replaced`, "vae" or "denoiser", the
    configuration alone. Raises UnreadableCheckpoint.
    """
    path = DEMO_FOLDER if source == DEMO else Path(source).expanduser()
    if path.exists():
        return path
    if source == DEMO or not is_hub_id(source):
        raise UnreadableCheckpoint(f"There is no checkpoint folder or file “{source}”.")
    from sdjax_engine.weights.hub import download  # noqa: PLC0415 - the hub's client is slow to import

    return download(
        source,
        revision=revision,
        variant=variant,
        weights=weights,
        replaced=replaced,
        safety_checker=safety_checker,
        report=report,
        hub=hub,
    )


def weight_files(folder: Path, *, variant: str | None, stem: str | None = None) -> tuple[Path, ...]:
    """Return the safetensors files of the component in `folder`: of the variant, else without a variant.

    Their names begin with `stem` (None: derived from the folder's name). Raises UnreadableCheckpoint if there
    are none; the message differs for pickles.
    """
    stem = stem or stem_of(folder.name)
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
            f"{folder} holds only pickled weights ({pickles[0]}), and {WHY_NO_PICKLES}."
        )
    if flax := sorted(path.name for path in folder.glob("*.msgpack")):
        raise UnreadableCheckpoint(
            f"{folder} holds only weights in Flax's own format ({flax[0]}): convert the checkpoint with "
            "diffusers 0.39 and transformers 4, by from_pretrained(…, from_flax=True) and save_pretrained."
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


def find_named_folder(
    source: str,
    files: Sequence[str],
    report: Report | None,
    *,
    revision: str | None = None,
    hub: HubOptions = USUAL,
) -> Path:
    """Return the local folder of `source`, downloading `files` (patterns) where it is a hub id.

    Raises UnreadableCheckpoint.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.exists() or not is_hub_id(source):
        *others, last = (name for name in files if "?" not in name)
        raise UnreadableCheckpoint(
            f"There is no folder “{source}”: name a folder with {', '.join(others)} and {last}, or a hub id."
        )
    from sdjax_engine.weights.hub import fetch  # noqa: PLC0415 - the hub's client is slow to import

    return fetch(source, files, revision=revision, report=report, hub=hub)
