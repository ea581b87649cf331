"""The names that other programs give to the layers of Z-Image's transformer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sdjax_engine.families.transformer_names import PREFIX, in_all_files

RENAMED = {
    "x_embedder": "all_x_embedder.2-1",
    "final_layer": "all_final_layer.2-1",
    "attention.out": "attention.to_out.0",
    "attention.q_norm": "attention.norm_q",
    "attention.k_norm": "attention.norm_k",
}
"""The original code's names within the path of a layer, and today's."""
ORIGINAL = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, RENAMED))})(?=\.)")
FUSED = "attention.qkv"
OF_FUSED = ("attention.to_q", "attention.to_k", "attention.to_v")
UNUSED = "norm_final.weight"


def current_names(name: str) -> tuple[str, ...]:
    """Return today's names of a tensor in a file of the original code: none if it is not used.

    Of several names each is an equal share of the tensor's rows.
    """
    name = name.removeprefix(PREFIX)
    if name == UNUSED:
        return ()
    if f".{FUSED}." in name:
        return tuple(name.replace(FUSED, each) for each in OF_FUSED)
    return (ORIGINAL.sub(lambda match: RENAMED[match[0]], name),)


OUT = ".attention.to_out.0"


def halves_exchanged(name: str, config: Mapping[str, Any]) -> bool:
    """Return False: every tensor has its rows in today's order."""
    del name, config
    return False


def spellings(path: str) -> list[str]:
    """Return how LoRA files write the path of a layer."""
    paths = [path, re.sub(r"\.to_([qkv])$", r".to.\1", path)]
    if path.endswith(OUT):
        paths.append(path.removesuffix(".0"))
    return in_all_files(paths)


def exchanged_spellings(paths: Iterable[str]) -> dict[str, str]:
    """Return nothing: all layers have their rows in today's order."""
    del paths
    return {}


def joint_spellings(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return spellings that count only where a layer has no other, with the layers that share the tensor."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        if path.endswith(OF_FUSED[0]):
            block = path.removesuffix(OF_FUSED[0])
            layers = tuple(f"{block}{each}" for each in OF_FUSED)
            found |= dict.fromkeys(in_all_files([f"{block}{FUSED}"]), layers)
        elif path.endswith(OUT):
            block = path.removesuffix(OUT)
            found |= dict.fromkeys(in_all_files([f"{block}.attention.out"]), (path,))
    return found
