"""The names of a transformer's layers that files of all families share."""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "model.diffusion_model."
"""Of the tensors in ComfyUI's single files."""
LORA_PREFIXES = ("", "transformer.", "diffusion_model.")
KOHYA = "lora_unet_"


def in_all_files(paths: Iterable[str]) -> list[str]:
    """Return the spellings of these paths in LoRA files, with every prefix; kohya's have no dots."""
    return [
        spelling
        for path in dict.fromkeys(paths)
        for spelling in (*(f"{prefix}{path}" for prefix in LORA_PREFIXES), KOHYA + path.replace(".", "_"))
    ]
