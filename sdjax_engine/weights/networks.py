"""The networks there are: built from their configurations without memory, checked against their tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from flax import nnx
from jax.typing import DTypeLike

from sdjax_engine.models.clip_text import (
    CLIPTextModel,
    CLIPTextModelWithProjection,
    settle_projected_text_config,
    settle_text_config,
)
from sdjax_engine.models.safety_checker import StableDiffusionSafetyChecker, settle_safety_checker_config
from sdjax_engine.models.unet import UNet2DConditionModel, settle_unet_config
from sdjax_engine.models.vae import AutoencoderKL, settle_vae_config
from sdjax_engine.request import UnreadableCheckpoint
from sdjax_engine.weights.tensors import Parameter, Stored, find_problems, parameters_of
from sdjax_engine.wording import first_line


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A class of networks: how one is made, and how its config.json is read."""

    model: Callable[..., nnx.Module]
    settle: Callable[[Mapping[str, Any]], dict[str, Any]]


KINDS = {
    "CLIPTextModel": Kind(model=CLIPTextModel, settle=settle_text_config),
    "CLIPTextModelWithProjection": Kind(
        model=CLIPTextModelWithProjection, settle=settle_projected_text_config
    ),
    "UNet2DConditionModel": Kind(model=UNet2DConditionModel, settle=settle_unet_config),
    "AutoencoderKL": Kind(model=AutoencoderKL, settle=settle_vae_config),
    "StableDiffusionSafetyChecker": Kind(
        model=StableDiffusionSafetyChecker, settle=settle_safety_checker_config
    ),
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A network as the files describe it: its class, settled configuration and tensors by today's names.

    `origin` is where the configuration comes from, for messages.
    """

    model: str
    config: dict[str, Any]
    stored: Mapping[str, Stored]
    origin: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A network before its parameters are read, and the dtype that it will have."""

    part: Part
    graphdef: nnx.GraphDef[Any]
    state: nnx.State
    wanted: Mapping[str, Parameter]
    dtype: DTypeLike


class OneKey:
    """Stands for `nnx.Rngs` where a network is only described: drawing no keys is ten times faster."""

    def params(self) -> jax.Array:
        return jax.random.key(0)


def settle_config(model: str, config: Mapping[str, Any], *, origin: str) -> dict[str, Any]:
    """Return the configuration of a network of class `model` with all its values.

    Raises UnreadableCheckpoint for what there is no support for, or what describes no network.
    """
    try:
        return KINDS[model].settle(config)
    except UnreadableCheckpoint as error:
        raise UnreadableCheckpoint(f"{origin}: {error}") from error
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise not_a_network(origin, error) from error


def plan(part: Part, *, dtype: DTypeLike) -> Plan:
    """Build a network without memory; raises UnreadableCheckpoint where its configuration makes none."""
    kind = KINDS[part.model]
    try:
        network = nnx.eval_shape(lambda: kind.model(part.config, dtype=dtype, rngs=OneKey()))
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise not_a_network(part.origin, error) from error
    graphdef, state = nnx.split(network)
    return Plan(part=part, graphdef=graphdef, state=state, wanted=parameters_of(state), dtype=dtype)


def check_tensors(origin: str, plans: Mapping[str, Plan]) -> None:
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
