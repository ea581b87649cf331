"""Fetches the pictures of the objects: Fluent Emoji, as the npm package of LobeHub has them (MIT)."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from sdjax_engine.demo.objects import OBJECTS

PACKAGE = "@lobehub/fluent-emoji-3d@1.1.0"
VARIATION = "-fe0f"  # says that a character is a picture and no letter; some files have it in their names


def fetch_sprites(folder: Path) -> Path:
    """Fetch the pictures into `folder` with npm, unless they are there; return the folder."""
    files = {each.file for each in OBJECTS.values()}
    if all((folder / file).exists() for file in files):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as room:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=room, check=True, stdout=subprocess.DEVNULL)  # noqa: S603, S607
        (archive,) = Path(room).glob("*.tgz")
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                name = Path(member.name).name.replace(VARIATION, "")
                picture = packed.extractfile(member) if name in files else None
                if picture is not None:
                    with (folder / name).open("wb") as file:
                        shutil.copyfileobj(picture, file)
    return folder
