"""The names of files in the diffusers layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Report = Callable[[str], None]
"""A callable that gets the progress of a download, line by line."""


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """How files of the hub are fetched; the names are those of the hub's client.

    `proxies` are addresses by protocol, such as {"https": "http://localhost:3128"}. They apply to the whole
    process while files are fetched.
    """

    cache_dir: str | Path | None = None
    local_files_only: bool = False
    token: str | bool | None = field(default=None, repr=False)
    proxies: Mapping[str, str] | None = field(default=None, repr=False)


USUAL = HubOptions()
INDEX = "model_index.json"
KNOWN_WORDS = "known_words.json"
"""The words of a checkpoint that knows few: {"words": {language: [...]}, "also": [...]}."""

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
