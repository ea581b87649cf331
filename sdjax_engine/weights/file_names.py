"""The names of files in the diffusers layout."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str], None]
"""A callable that gets the progress of a download, line by line."""

INDEX = "model_index.json"
PICKLES = ("*.bin", "*.ckpt", "*.pt", "*.pth", "*.pkl")
TEXT_FILES = (INDEX, "*/*.json", "*/*.txt")
TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")
DIFFUSERS_STEM, TRANSFORMERS_STEM = "diffusion_pytorch_model", "model"
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
    parts = source.split("/")
    return (
        len(parts) == 2 and not source.endswith(FILES) and all(part and part[0] not in ".~" for part in parts)
    )


def stem_of(component: str) -> str:
    """Return the name of a component's weights, before `.safetensors`."""
    return STEMS[component]


def weight_patterns(component: str, variant: str | None) -> list[str]:
    """Return the patterns of one component's safetensors, in one file or in shards."""
    stem = f"{component}/{stem_of(component)}"
    mark = f".{variant}" if variant else ""
    shard = "-?????-of-?????"
    return [f"{stem}{part}.safetensors" for part in dict.fromkeys((mark, f"{mark}{shard}", f"{shard}{mark}"))]
