"""The names of files in the diffusers layout."""

from __future__ import annotations

import re
from collections.abc import Callable

Report = Callable[[str], None]
"""A callable that gets the progress of a download, line by line."""

INDEX = "model_index.json"
PICKLES = ("*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl")
TEXT_FILES = (INDEX, "*/*.json", "*/*.txt")
TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")
DIFFUSERS_STEM, TRANSFORMERS_STEM = "diffusion_pytorch_model", "model"
_HUB_ID = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)
FILES = (".safetensors", ".ckpt")
STEMS = {
    "text_encoder": TRANSFORMERS_STEM,
    "text_encoder_2": TRANSFORMERS_STEM,
    "unet": DIFFUSERS_STEM,
    "vae": DIFFUSERS_STEM,
    "safety_checker": TRANSFORMERS_STEM,
}


def is_hub_id(source: str) -> bool:
    """Return whether `source` could be `owner/name` on the hub and no path."""
    return _HUB_ID.fullmatch(source) is not None and not source.endswith(FILES)


def stem_of(component: str) -> str:
    """Return the name of a component's weights, before `.safetensors`."""
    return STEMS[component]


def weight_patterns(component: str, variant: str | None) -> list[str]:
    """Return the patterns of one component's safetensors, in one file or in shards."""
    stem = f"{component}/{stem_of(component)}"
    mark = f".{variant}" if variant else ""
    shard = "-?????-of-?????"
    return [f"{stem}{part}.safetensors" for part in dict.fromkeys((mark, f"{mark}{shard}", f"{shard}{mark}"))]
