"""A pipeline as a folder in the diffusers layout, which the torch classes read too, and its upload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from safetensors.numpy import save_file

from sdjax_engine.guide.networks import Params, UnboundNetwork
from sdjax_engine.guide.tokenizer import CLIPTokenizer
from sdjax_engine.models.kinds import KINDS
from sdjax_engine.weights.files import DIFFUSERS_STEM, INDEX, stem_of
from sdjax_engine.weights.tensors import reference_layout, reference_name

if TYPE_CHECKING:
    from sdjax_engine.guide.base import FlaxDiffusionPipeline


def upload(
    folder: Path,
    *,
    repo_id: str | None = None,
    token: str | bool | None = None,
    private: bool | None = None,
    commit_message: str | None = None,
    create_pr: bool = False,
) -> None:
    """Upload a folder as the repository `repo_id`, by default one of the folder's name."""
    from huggingface_hub import HfApi  # noqa: PLC0415 - the hub's client is slow to import

    api = HfApi(token=token)
    made = api.create_repo(repo_id or folder.name, private=private, exist_ok=True)
    api.upload_folder(
        repo_id=made.repo_id, folder_path=folder, commit_message=commit_message, create_pr=create_pr
    )


TORCH_CLASSES: Mapping[str, tuple[str, str]] = {
    "unet": ("diffusers", "UNet2DConditionModel"),
    "controlnet": ("diffusers", "ControlNetModel"),
    "vae": ("diffusers", "AutoencoderKL"),
    "text_encoder": ("transformers", "CLIPTextModel"),
    "text_encoder_2": ("transformers", "CLIPTextModelWithProjection"),
    "safety_checker": ("stable_diffusion", "StableDiffusionSafetyChecker"),
}
"""The library and the torch class of each network, as model_index.json names them."""
OF_UNETS_ONLY = frozenset(
    {
        "center_input_sample",
        "conv_in_kernel",
        "conv_out_kernel",
        "out_channels",
        "reverse_transformer_layers_per_block",
        "sample_size",
        "time_cond_proj_dim",
        "time_embedding_dim",
        "up_block_types",
    }
)


def save_pipeline(pipeline: FlaxDiffusionPipeline, place: Path, params: Params) -> None:
    """Write a pipeline's settings, tokenizers and parameters below `place`; raises OSError."""
    index: dict[str, Any] = {"_class_name": type(pipeline).__name__.removeprefix("Flax")}
    for name, part in pipeline.components.items():
        folder = place / name
        if isinstance(part, UnboundNetwork):
            index[name] = TORCH_CLASSES[name]
            save_network(name, part, params[name], folder)
        elif isinstance(part, CLIPTokenizer):
            index[name] = ("transformers", "CLIPTokenizer")
            save_tokenizer(part, folder)
        elif name == "scheduler":
            part.save_pretrained(folder)
            index[name] = ("diffusers", read_class(folder / "scheduler_config.json"))
        elif name == "feature_extractor" and part:
            index[name] = ("transformers", "CLIPImageProcessor")
            write(folder / "preprocessor_config.json", part)
        elif "tokenizer_2" not in pipeline.components:
            index[name] = (None, None)
    if "tokenizer_2" in index:
        index["force_zeros_for_empty_prompt"] = True
    write(place / INDEX, index)


def save_network(name: str, network: UnboundNetwork, params: Params, folder: Path) -> None:
    """Write a network's configuration, and its parameters under the reference's names."""
    library, kind = TORCH_CLASSES[name]
    described = {"_class_name": kind} if library == "diffusers" else {"architectures": [kind]}
    write(folder / "config.json", described | settings_of(network.config))
    tensors = {
        KINDS[kind].saved(reference_name(path)): reference_layout(np.asarray(array), path)
        for path, array in leaves(params)
    }
    stem = DIFFUSERS_STEM if library == "diffusers" else stem_of(name)
    save_file(tensors, folder / f"{stem}.safetensors", metadata={"format": "pt"})


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as the torch classes take it.

    Their UNet has its heads in `attention_head_dim` alone. Its projections are linear maps here. Their
    ControlNet has the keys of a UNet's half, and the same number of layers in each block.
    """
    if "cross_attention_dim" not in config:
        return dict(config)
    settings = {**config, "num_attention_heads": None, "use_linear_projection": True}
    if "conditioning_channels" not in config:
        return settings
    once = ("layers_per_block", "cross_attention_dim")
    half = {key: value for key, value in settings.items() if key not in OF_UNETS_ONLY}
    return half | {key: settings[key][0] for key in once}


def save_tokenizer(tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    source = tokenizer.tokenizer
    tokens = {"bos_token": source.start_id, "eos_token": source.end_id, "pad_token": source.pad_id}
    settings: dict[str, Any] = {role: source.bpe.id_to_token(token) for role, token in tokens.items()}
    settings |= {"unk_token": settings["eos_token"], "added_tokens_decoder": {}}
    settings |= {"tokenizer_class": "CLIPTokenizer", "model_max_length": source.length}
    write(folder / "tokenizer_config.json", settings)
    source.bpe.save(str(folder / "tokenizer.json"))


def leaves(params: Params) -> Iterator[tuple[tuple[str, ...], jax.Array]]:
    """Yield each array of nested dictionaries with its path."""
    for path, array in jax.tree_util.tree_leaves_with_path(params):
        yield tuple(str(each.key) for each in path), array


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON, and make the folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2), encoding="utf-8")


def read_class(file: Path) -> str:
    """Return the class that a scheduler's file names."""
    return str(json.loads(file.read_text(encoding="utf-8"))["_class_name"])
