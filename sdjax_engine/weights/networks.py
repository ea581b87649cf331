"""Networks: built from their configurations without memory, and checked against their tensors."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.autoencoder_tiny_config import settle_autoencoder_tiny_config
from sdjax_engine.models.clip_text_config import settle_projected_text_config, settle_text_config
from sdjax_engine.models.safety_checker_config import settle_safety_checker_config
from sdjax_engine.models.unet_config import settle_unet_config
from sdjax_engine.models.vae_config import settle_vae_config
from sdjax_engine.models.vit_config import settle_vit_config
from sdjax_engine.weights.blueprint import Blueprint, Layout, layout_of
from sdjax_engine.weights.tensors import Parameter, Stored, find_problems
from sdjax_engine.wording import first_line


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A class of networks: the module that defines it, and how its config.json is read."""

    home: str
    settle: Callable[[Mapping[str, Any]], dict[str, Any]]


KINDS = {
    "CLIPTextModel": Kind(home="clip_text", settle=settle_text_config),
    "CLIPTextModelWithProjection": Kind(home="clip_text", settle=settle_projected_text_config),
    "UNet2DConditionModel": Kind(home="unet", settle=settle_unet_config),
    "AutoencoderKL": Kind(home="vae", settle=settle_vae_config),
    "AutoencoderTiny": Kind(home="autoencoder_tiny", settle=settle_autoencoder_tiny_config),
    "StableDiffusionSafetyChecker": Kind(home="safety_checker", settle=settle_safety_checker_config),
    "ViTForImageClassification": Kind(home="vit", settle=settle_vit_config),
    "TrustMarkEncoder": Kind(home="trustmark", settle=dict),
    "TrustMarkDecoder": Kind(home="trustmark", settle=dict),
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A network as its files describe it: its class, complete configuration, and tensors by present names.

    `origin` is where the configuration comes from, for messages.
    """

    model: str
    config: dict[str, Any]
    stored: Mapping[str, Stored]
    origin: str


@dataclass(frozen=True, kw_only=True)
class NetworkKey:
    """The inputs from which a network is built; `text` is `config` as JSON, which can be compared."""

    model: str
    text: str
    dtype: str
    config: Mapping[str, Any] = field(compare=False)


LAYOUTS_KEPT = 16
"""How many layouts are kept, also after their models are unloaded: most models have the same forms.

A known layout saves 0.44 s of the processor for SDXL's UNet, which is 9 MB of objects. Its key is a
`NetworkKey`: the network's class, its whole configuration, its dtype.
"""

_making = threading.Lock()  # models that load at once wait for one network instead of making it twice


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """A network before its parameters are read, and the dtype that it will have."""

    part: Part
    blueprint: Blueprint
    dtype: DTypeLike

    @property
    def wanted(self) -> Mapping[str, Parameter]:
        """Its parameters by the reference's names; raises UnreadableCheckpoint if it cannot be built."""
        return self.blueprint.layout.parameters

    @property
    def size(self) -> int:
        """The bytes of its parameters by the headers of the files, which may hold others too."""
        elements = sum(math.prod(each.shape) for each in self.part.stored.values())
        return elements * int(jnp.dtype(self.dtype).itemsize)


NO_NETWORK = (TypeError, ValueError, ArithmeticError, MemoryError)
"""The exceptions that building a network raises for values of the wrong kind or size."""


def settle_config(model: str, config: Mapping[str, Any], *, origin: str) -> dict[str, Any]:
    """Return the configuration of a network of class `model` with all its values.

    Raises UnreadableCheckpoint for values that are not supported or describe no network.
    """
    try:
        return KINDS[model].settle(config)
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"{origin}: {error}") from error
    except NO_NETWORK as error:
        raise not_a_network(origin, error) from error


def infer_part(
    file: Path,
    model: str,
    name: str,
    named: Callable[[], dict[str, Stored]],
    config: Callable[[dict[str, Stored]], dict[str, Any]],
) -> Part:
    """Return the network `name` of a file without configurations, from its tensors by today's names.

    `named` and `config` raise KeyError, IndexError or ValueError for tensors that show no such network, which
    becomes UnreadableCheckpoint.
    """
    origin = f"the {name} in {file}"
    try:
        stored = named()
        inferred = config(stored)
    except (KeyError, IndexError, ValueError) as error:
        raise UnreadableCheckpoint(
            f"{file} lacks what tells the shape of its {name}: {first_line(error)}"
        ) from error
    return Part(
        model=model, config=settle_config(model, inferred, origin=origin), stored=stored, origin=origin
    )


def plan_network(part: Part, *, dtype: DTypeLike) -> NetworkPlan:
    """Return the plan of the network of `part`; builds nothing."""
    return NetworkPlan(part=part, blueprint=Blueprint(lambda: build(part, dtype)), dtype=dtype)


def build(part: Part, dtype: DTypeLike) -> Layout:
    """Build a network without memory; raises UnreadableCheckpoint if that is impossible."""
    try:
        return layout(part.model, part.config, dtype)
    except NO_NETWORK as error:
        raise not_a_network(part.origin, error) from error


def layout(model: str, config: Mapping[str, Any], dtype: DTypeLike) -> Layout:
    """Return the layout of a network of class `model`, which models of one form share.

    `config` is settled: see `settle_config`.
    """
    text = json.dumps(config, sort_keys=True)
    with _making:
        return _layout(NetworkKey(model=model, text=text, dtype=jnp.dtype(dtype).name, config=config))


@lru_cache(maxsize=LAYOUTS_KEPT)
def _layout(key: NetworkKey) -> Layout:
    network = getattr(import_module(f"sdjax_engine.models.{KINDS[key.model].home}"), key.model)
    return layout_of(network(key.config, dtype=jnp.dtype(key.dtype)))


def autoencoder_in_float32(config: Mapping[str, Any]) -> Blueprint:
    """Return the blueprint of the autoencoder of this configuration in float32."""
    return Blueprint(lambda: layout("AutoencoderKL", config, "float32"))


def check_tensors(origin: str, plans: Mapping[str, NetworkPlan]) -> None:
    """Raise UnreadableCheckpoint listing every tensor of every network that does not fit."""
    wrong = [
        f"in {name}, {'; '.join(problems)}"
        for name, each in plans.items()
        if (problems := find_problems(each.part.stored, each.wanted))
    ]
    if wrong:
        raise UnreadableCheckpoint(
            f"The tensors of {origin} do not match its configuration: {'. '.join(wrong)}."
        )


def not_a_network(origin: str, error: Exception) -> UnreadableCheckpoint:
    return UnreadableCheckpoint(f"{origin} describes no network: {first_line(error)}")
