"""The command that reads the marks of AI in picture files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bot.cli.configuration import configured
from bot.cli.terminal import hand_over

if TYPE_CHECKING:
    from bot.app.operator import Looks
    from bot.provenance.inspection import Mark
    from bot.provenance.signing import Signing

MOST_BYTES = 1 << 28
MOST_PIXELS = 1 << 26
WORDS = {"yes": "made by AI", "no": "not made by AI, says its maker", "unknown": "not known"}


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--config",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The bot's TOML file: also look in its queue for the pictures.",
)
@click.option("--json", "as_json", is_flag=True, help="Say answers and marks as JSON.")
def inspect(files: tuple[Path, ...], path: Path | None, as_json: bool) -> None:
    """Say of PNG, JPEG, WebP and GIF FILES whether AI made them, by their C2PA manifest and metadata.

    Marks can be removed: "not known" does not mean that no AI was used. With --config it is also looked up
    whether the bot painted them, by their sha256, their watermark and their perceptual hash.
    """
    from bot.provenance.inspection import answer_of, marks_of

    for file in files:
        if file.stat().st_size > MOST_BYTES:
            raise click.BadParameter(f"{file} is larger than {MOST_BYTES >> 20} MiB.")
    own: list[list[Mark]] = [[] for _ in files] if path is None else _own_marks(path, files)
    found = []
    for file, known in zip(files, own, strict=True):
        marks = [*marks_of(file.read_bytes()), *known]
        found.append((str(file), answer_of(marks), marks))
    if as_json:
        said = [
            {"file": name, "answer": answer, "marks": {mark.kind: mark.says for mark in marks}}
            for name, answer, marks in found
        ]
        hand_over(json.dumps(said, ensure_ascii=False, indent=2))
        return
    for name, answer, marks in found:
        kinds = ", ".join(mark.kind.replace("_", " ") for mark in marks)
        hand_over(f"{name}: {WORDS[answer]}{f' ({kinds})' if kinds else ''}")


def _own_marks(path: Path, files: Sequence[Path]) -> list[list[Mark]]:
    """Return for each file the mark that the queue of a configuration has for it, if any."""
    config = configured(path)
    from bot.app.operator import painted_now
    from bot.config import ProvenanceConfig
    from bot.provenance.inspection import Answer, Mark
    from bot.provenance.opening import open_signing

    reading = open_signing(ProvenanceConfig(sign=False, watermark=config.provenance.watermark))
    try:
        looks = [_looks(file.read_bytes(), reading) for file in files]
    finally:
        reading.close()
    kinds = painted_now(config, looks)
    return [[] if kind is None else [Mark(kind=kind, says=Answer.YES)] for kind in kinds]


def _looks(data: bytes, reading: Signing) -> Looks:
    """Return how the queue may know a file; one that is no picture, or too large, by its digest alone."""
    from bot.app.operator import Looks
    from bot.domain.hashes import hash_of_file, hashes_of_tiles
    from bot.front.uploads.untrusted_picture import Limits, Unfit, read_picture
    from bot.provenance.inspection import digest_of

    digest = digest_of(data)
    try:
        png = read_picture(data, limits=Limits(max_bytes=MOST_BYTES, max_pixels=MOST_PIXELS)).png
    except Unfit:
        return Looks(digest=digest, hashes=())
    tiles = [number for shape in hashes_of_tiles(png) for number in shape]
    return Looks(digest=digest, hashes=(hash_of_file(png), *tiles), number=reading.number_in(png))
