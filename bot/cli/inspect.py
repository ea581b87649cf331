"""The command that reads the marks of AI in picture files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bot.cli.terminal import hand_over

MOST_BYTES = 1 << 28
WORDS = {"yes": "made by AI", "no": "not made by AI, says its maker", "unknown": "not known"}


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Say answers and marks as JSON.")
def inspect(files: tuple[Path, ...], as_json: bool) -> None:
    """Say of PNG, JPEG, WebP and GIF FILES whether AI made them, by their C2PA manifest and metadata.

    Marks can be removed: "not known" does not mean that no AI was used.
    """
    from bot.provenance.inspection import answer_of, marks_of

    found = []
    for file in files:
        if file.stat().st_size > MOST_BYTES:
            raise click.BadParameter(f"{file} is larger than {MOST_BYTES >> 20} MiB.")
        marks = marks_of(file.read_bytes())
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
