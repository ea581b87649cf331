"""CLIP's vocabulary for checkpoints without one: from a folder beside the file, or from the hub."""

from __future__ import annotations

from pathlib import Path

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.weights.file_names import TOKENIZER_FILES, Report

HUB_ID = "openai/clip-vit-large-patch14"  # the reference's source
OPEN_CLIP_PAD = "!"  # its id is 0; CLIP pads prompts with the end token


def find_tokenizer(file: Path, *, name: str, is_open_clip: bool, report: Report | None) -> Tokenizer:
    """Return the tokenizer of a text encoder of the checkpoint `file`.

    A folder called `name` or `tokenizer` beside the file is used before the hub, whose cache works without a
    network. Raises UnreadableCheckpoint.
    """
    beside = [folder for each in (name, "tokenizer") if (folder := file.parent / each).is_dir()]
    folder = beside[0] if beside else download(file, report)
    return Tokenizer.load(folder, pad=OPEN_CLIP_PAD if is_open_clip else None)


def download(file: Path, report: Report | None) -> Path:
    """Return the folder of the vocabulary in the hub's cache, downloaded if missing."""
    from sdjax_engine.weights.hub import fetch  # noqa: PLC0415 - the hub's client is slow to import

    try:
        return fetch(HUB_ID, TOKENIZER_FILES, revision=None, report=report)
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(
            f"{file} comes without a vocabulary, and that of {HUB_ID} cannot be fetched from the hub: put "
            f"its tokenizer files into {file.parent / 'tokenizer'}."
        ) from error
