"""Reading a checkpoint: networks built from their configurations, parameters from the files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from sdjax_engine.models.clip_text import CLIPTextModel, settle_text_config
from sdjax_engine.models.unet import UNet2DConditionModel, settle_unet_config
from sdjax_engine.models.vae import AutoencoderKL, settle_vae_config
from sdjax_engine.prompts import Tokenizer
from sdjax_engine.request import UnreadableCheckpoint
from sdjax_engine.weights.checkpoint import Checkpoint, Component, TextEncoder, scale_of
from sdjax_engine.weights.files import INDEX, find_folder, read_json, weight_files
from sdjax_engine.weights.tensors import (
    Parameter,
    Put,
    Stored,
    fill,
    find_problems,
    parameters_of,
    stored_tensors,
)
from sdjax_engine.wording import first_line

PIPELINE = "StableDiffusionPipeline"
TOKENIZERS = ("CLIPTokenizer", "CLIPTokenizerFast")
DTYPES: dict[str, DTypeLike] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A component there is a network for: its class and the reading of its config.json."""

    model: Callable[..., nnx.Module]
    settle: Callable[[Mapping[str, Any]], dict[str, Any]]


KINDS = {
    "text_encoder": Kind(model=CLIPTextModel, settle=settle_text_config),
    "unet": Kind(model=UNet2DConditionModel, settle=settle_unet_config),
    "vae": Kind(model=AutoencoderKL, settle=settle_vae_config),
}


def load_checkpoint(
    source: str,
    *,
    dtype: str = "float32",
    revision: str | None = None,
    variant: str | None = None,
    put: Put = jax.device_put,
) -> Checkpoint:
    """Read the checkpoint called `source`: "demo", a folder in diffusers layout, or a hub id.

    `dtype` ("float32" or "bfloat16") is that of parameters and arithmetic. `put` places one parameter, given
    as a host array, on the devices. Raises UnreadableCheckpoint, in one sentence, for whatever is wrong.
    """
    if dtype not in DTYPES:
        raise UnreadableCheckpoint(f"There is no dtype {dtype!r}: choose one of {', '.join(DTYPES)}.")
    folder = find_folder(source, revision=revision, variant=variant)
    check_pipeline(folder)
    configs = {name: settle_component(folder / name) for name in KINDS}
    tokenizer = Tokenizer.load(folder / "tokenizer")
    scheduler_config = read_json(folder / "scheduler" / "scheduler_config.json")
    check_together(folder, configs, tokenizer)
    components = read_components(folder, configs, variant=variant, dtype=DTYPES[dtype], put=put)
    return Checkpoint(
        name=source,
        pipeline=PIPELINE,
        text_encoders=(TextEncoder(component=components["text_encoder"], tokenizer=tokenizer),),
        unet=components["unet"],
        vae=components["vae"],
        safety_checker=None,
        preprocessor_config={},
        scheduler_config=scheduler_config,
        force_zeros_for_empty_prompt=False,
        native_size=native_size_of(configs),
        fingerprint=fingerprint_of({**configs, "scheduler": scheduler_config}),
    )


def check_pipeline(folder: Path) -> None:
    """Raise UnreadableCheckpoint unless model_index.json is that of a pipeline built of the parts we have."""
    if not (folder / INDEX).is_file():
        raise UnreadableCheckpoint(f"{folder} is not a checkpoint in diffusers layout: it has no {INDEX}.")
    index = read_json(folder / INDEX)
    if index.get("_class_name") != PIPELINE:
        raise UnreadableCheckpoint(
            f"{folder} is a {index.get('_class_name')}, which is not supported; {PIPELINE} is."
        )
    wanted = {name: (kind.model.__name__,) for name, kind in KINDS.items()} | {"tokenizer": TOKENIZERS}
    wrong = [
        f"{name} {index.get(name)}"
        for name, classes in wanted.items()
        if not isinstance(index.get(name), list) or index[name][-1] not in classes
    ]
    if wrong:
        raise UnreadableCheckpoint(f"{folder} has parts that are not supported: {', '.join(wrong)}.")


def settle_component(folder: Path) -> dict[str, Any]:
    """Return the settled configuration of the component in `folder`."""
    config = read_json(folder / "config.json")
    try:
        return KINDS[folder.name].settle(config)
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"{folder / 'config.json'}: {error}") from error
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise not_a_network(folder, error) from error


def not_a_network(folder: Path, error: Exception) -> UnreadableCheckpoint:
    return UnreadableCheckpoint(f"{folder / 'config.json'} describes no network: {first_line(error)}")


def check_together(folder: Path, configs: Mapping[str, Mapping[str, Any]], tokenizer: Tokenizer) -> None:
    """Raise UnreadableCheckpoint for components that do not belong together."""
    text, unet, vae = configs["text_encoder"], configs["unet"], configs["vae"]
    clashes = {
        "the UNet's in_channels and out_channels are not both the autoencoder's latent_channels": (
            {unet["in_channels"], unet["out_channels"]} != {vae["latent_channels"]}
        ),
        "the UNet's cross_attention_dim is not the text encoder's hidden_size": (
            set(unet["cross_attention_dim"]) != {text["hidden_size"]}
        ),
        "the tokenizer has more words than the text encoder": tokenizer.size > text["vocab_size"],
        "the tokenizer's prompts are longer than the text encoder's": (
            tokenizer.length > text["max_position_embeddings"]
        ),
    }
    wrong = [sentence for sentence, is_so in clashes.items() if is_so]
    if wrong:
        raise UnreadableCheckpoint(f"The parts of {folder} do not fit together: {'; '.join(wrong)}.")


class OneKey:
    """Stands for `nnx.Rngs` where a network is only described: drawing no keys is ten times faster."""

    def params(self) -> jax.Array:
        return jax.random.key(0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A component before its parameters are read."""

    graphdef: nnx.GraphDef[Any]
    state: nnx.State
    wanted: Mapping[str, Parameter]
    stored: Mapping[str, Stored]


def read_components(
    folder: Path,
    configs: Mapping[str, dict[str, Any]],
    *,
    variant: str | None,
    dtype: DTypeLike,
    put: Put,
) -> dict[str, Component]:
    """Return the networks by name; raise UnreadableCheckpoint listing every tensor that does not fit."""
    plans = {
        name: plan(folder / name, config, variant=variant, dtype=dtype) for name, config in configs.items()
    }
    wrong = [
        f"in {name}, {'; '.join(problems)}"
        for name, each in plans.items()
        if (problems := find_problems(each.stored, each.wanted))
    ]
    if wrong:
        raise UnreadableCheckpoint(
            f"The tensors of {folder} do not match its configuration: {'. '.join(wrong)}."
        )
    return {
        name: Component(
            graphdef=each.graphdef,
            state=fill(each.state, stored=each.stored, wanted=each.wanted, dtype=dtype, put=put),
            config=configs[name],
        )
        for name, each in plans.items()
    }


def plan(folder: Path, config: Mapping[str, Any], *, variant: str | None, dtype: DTypeLike) -> Plan:
    """Build one network without memory and look at its files' headers."""
    kind = KINDS[folder.name]
    stored = stored_tensors(folder.name, weight_files(folder, variant=variant))
    try:
        network = nnx.eval_shape(lambda: kind.model(config, dtype=dtype, rngs=OneKey()))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise not_a_network(folder, error) from error
    graphdef, state = nnx.split(network)
    return Plan(graphdef=graphdef, state=state, wanted=parameters_of(state), stored=stored)


def native_size_of(configs: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
    """Return the (width, height) in pixels that the UNet was trained at; the reference's 64 where unsaid."""
    size = configs["unet"]["sample_size"] or 64
    height, width = size if isinstance(size, tuple) else (size, size)
    scale = scale_of(configs["vae"])
    return width * scale, height * scale


def fingerprint_of(configs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sha256 of the configurations, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(configs, sort_keys=True).encode()).hexdigest()
