"""Checks that a picture of the demo checkpoint shows a large red circle on a white background, else status 1.

`make-release` and `try-container` use it to check that the bot that they installed paints its prompt.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from sdjax_engine.demo.captions import caption
from sdjax_engine.demo.checker import check
from sdjax_engine.demo.scenes import Scene, Thing

SCENE = Scene(things=(Thing(name="circle", colour="red", size="large"),))


def problem(path: Path) -> str:
    """Return what is wrong with the picture at `path`, or an empty text."""
    with Image.open(path) as picture:
        found = check(np.asarray(picture.convert("RGB")), SCENE)
    return "" if found.all_right else f"{path} does not show {caption(SCENE)}: {found}"


if __name__ == "__main__":
    sys.exit(problem(Path(sys.argv[1])) or 0)
