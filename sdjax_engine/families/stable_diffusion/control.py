"""ControlNets of Stable Diffusion: the picture once a request, what it adds to the UNet each evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import (
    Blueprint,
    Conditioning,
    Controlled,
    Latents,
    Loaded,
    Parameters,
    WithLoras,
)
from sdjax_engine.families.stable_diffusion.denoiser import UNetDenoiser
from sdjax_engine.families.stable_diffusion.text import Encoding
from sdjax_engine.models.controlnet_config import check_fits
from sdjax_engine.models.cross_attention_inputs import Projection
from sdjax_engine.models.lora_bank import LoraRows
from sdjax_engine.request import UNION_TYPES, ControlType, Offer
from sdjax_engine.samplers import step
from sdjax_engine.samplers.tables import Column

TYPES = "num_control_type"


class OfTexts(NamedTuple):
    """The keys and values of the ControlNet's own cross-attentions."""

    keys_values: dict[str, tuple[jax.Array, jax.Array]]  # by the layer's path, (seats, texts, tokens, width)


@dataclass(frozen=True, kw_only=True, eq=False)
class UNetControl:
    """The ControlNets of one model.

    `denoiser` is the UNet; of its input the networks see the latents, `channels` of them. `types` are those
    of a union of ControlNets; a network of one type takes any. `takes_lengths`: texts may differ in their
    number of chunks.
    """

    denoiser: UNetDenoiser = field(repr=False)
    blueprint: Blueprint = field(repr=False)
    channels: int
    types: Mapping[ControlType, int]
    is_union: bool
    takes_lengths: bool

    def condition(
        self, parameters: Parameters, picture: jax.Array, kind: jax.Array, texts: Sequence[Encoding]
    ) -> Conditioning:
        """Return the keys and values of the texts, and what the network derives from the picture."""
        net = self.blueprint.module(parameters)
        hidden = jnp.concatenate([text.hidden for text in texts])
        lengths = jnp.concatenate([text.length for text in texts]) if self.takes_lengths else None
        pixels = picture.astype(jnp.float32) / 255
        keys_values = dict(net.project(hidden, lengths).keys_values)
        return Conditioning(
            of_texts=OfTexts(jax.tree.map(lambda rows: rows[None], keys_values)),
            of_picture=net.embed(pixels, kind) if self.is_union else net.embed(pixels),
        )

    def predict(
        self,
        parameters: WithLoras,
        sample: jax.Array,
        table: jax.Array,
        conditioning: Conditioning,
        loras: LoraRows,
        *,
        control: Controlled,
    ) -> jax.Array:
        """Return the UNet's output of every row in float32, with the ControlNet's times its strength."""
        net = self.blueprint.module(control.parameters)
        made = net(
            sample[..., : self.channels],
            step.timestep(table),
            Projection(control.conditioning.of_texts.keys_values, conditioning.of_texts.lengths),
            control.conditioning.of_picture,
            **self.denoiser.sizes(conditioning),
        )
        residuals = made.scaled(table[:, Column.CONTROL])
        return self.denoiser.evaluated(parameters, sample, table, conditioning, loras, control=residuals)


def control_of(
    controlnets: Mapping[str, Loaded], denoiser: UNetDenoiser, unet: Loaded, offer: Offer, latents: Latents
) -> UNetControl | None:
    """Return the ControlNets of a checkpoint, None without any; raises UnreadableCheckpoint.

    They share one program, so they must be of one architecture.
    """
    if not controlnets:
        return None
    for name, each in controlnets.items():
        check_fits(name, each.config, unet.config, latent_channels=latents.channels, factor=latents.cell)
    first, *others = controlnets
    alike = {name: dict(each.config) for name, each in controlnets.items()}
    differing = [name for name in others if alike[name] != alike[first]]
    if differing:
        raise UnreadableCheckpoint(
            f"The ControlNets of {offer.model} must be of one architecture, and {first} is of another than "
            f"{', '.join(differing)}: offer them with another model."
        )
    config = controlnets[first].config
    known = config.get(TYPES)
    return UNetControl(
        denoiser=denoiser,
        blueprint=controlnets[first].blueprint,
        channels=latents.channels,
        types=types_of(known),
        is_union=known is not None,
        takes_lengths=offer.prompt_chunks > 1,
    )


def types_of(known: int | None) -> Mapping[ControlType, int]:
    """Return the number of each type that a union of so many types knows; without a union any type is 0."""
    if known is None:
        return dict.fromkeys(ControlType, 0)
    return {kind: number for kind, number in UNION_TYPES.items() if number < known}
