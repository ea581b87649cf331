"""Finding a checkpoint's files: the bundled demo, a folder in the diffusers layout, one file, or a hub id."""

from __future__ import annotations

from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.json_files import read_json
from sdjax_engine.weights.file_names import INDEX, PICKLES, USUAL, HubOptions, Report, is_hub_id, stem_of
from sdjax_engine.weights.headers import WHY_NO_PICKLES

DEMO = "demo"
DEMO_FOLDER = Path(__file__).parent.parent / "demo" / "checkpoint"

__all__ = ["DEMO", "INDEX", "PICKLES", "find_source", "is_hub_id", "weight_files"]


def find_source(
    source: str,
    *,
    revision: str | None = None,
    variant: str | None = None,
    weights: bool = True,
    safety_checker: bool = False,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Path:
    """Return the local folder or file of a checkpoint, downloading missing files of a hub id.

    An existing path takes precedence over a hub id of the same name; `~` is expanded. Without `weights` only
    configurations and tokenizers are downloaded. Raises UnreadableCheckpoint.
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
