"""How the demo's checkpoint is painted unless people ask otherwise."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "checkpoint" / "model_index.json"


@cache
def painting() -> dict[str, Any]:
    """Return `sizes`, the first of them the default, `num_inference_steps` and `guidance_scale`.

    `training.pack` writes them into the checkpoint's index, under a private key, which diffusers passes over.
    """
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["_painting"]
    return found
