"""A checkpoint after loading: networks on the devices, tokenizers, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.prompts import Tokenizer
from sdjax_engine.weights.blueprint import Blueprint, Parameters


@dataclass(frozen=True, kw_only=True, eq=False)
class Component:
    """One network: its parameters on the devices, its blueprint, its complete configuration.

    `shapes` are those of the parameters in the module. On a GPU kernels of convolutions may lie in another
    order.
    """

    parameters: Parameters = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    blueprint: Blueprint = field(repr=False)
    config: dict[str, Any]

    def placed(self, put: Callable[[npt.NDArray[Any]], Any]) -> Component:
        """Return the network with its parameters, which are in the host's memory, copied by `put`."""
        parameters = {key: put(np.asarray(array)) for key, array in self.parameters.items()}
        return replace(self, parameters=parameters)

    def free(self) -> None:
        """Free the parameters' memory on the devices once queued work has ended."""
        for array in self.parameters.values():
            array.delete()

    def module(self, parameters: Parameters | None = None) -> Any:
        """Return the module over these parameters or its own, for use within one traced function."""
        return self.blueprint.module(self.parameters if parameters is None else parameters)


@dataclass(frozen=True, kw_only=True, eq=False)
class TextEncoder:
    """A text encoder and its tokenizer."""

    component: Component
    tokenizer: Tokenizer


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """A loaded checkpoint.

    `pipeline` is the reference's class of the checkpoint. `text_encoders` are one or two, in the order in
    which the UNet's conditioning joins them. `preprocessor_config` holds the safety checker's picture
    settings and is empty without one. `scheduler_config` is the content of the file, without defaults for
    missing keys. `force_zeros_for_empty_prompt`: an empty negative prompt is encoded as zeros. `native_size`
    is (width, height) in pixels. `known_words`: all words that it knows, in lower case; empty for any.
    """

    name: str
    pipeline: str
    text_encoders: tuple[TextEncoder, ...]
    unet: Component
    vae: Component
    safety_checker: Component | None
    preprocessor_config: dict[str, Any]
    scheduler_config: dict[str, Any]
    force_zeros_for_empty_prompt: bool
    native_size: tuple[int, int]
    known_words: frozenset[str] = frozenset()

    @property
    def text_encoder(self) -> Component:
        """The first text encoder's network."""
        return self.text_encoders[0].component

    @property
    def tokenizer(self) -> Tokenizer:
        """The first text encoder's tokenizer."""
        return self.text_encoders[0].tokenizer

    @property
    def penultimate(self) -> bool:
        """Whether the UNet attends to the text encoders' penultimate layer: true with two encoders."""
        return len(self.text_encoders) == 2

    @property
    def latent_channels(self) -> int:
        """The channels of a latent picture."""
        return int(self.vae.config["latent_channels"])

    @property
    def vae_scale_factor(self) -> int:
        """Pixels of a picture per latent pixel, along one side."""
        return scale_of(self.vae.config)

    @property
    def scaling_factor(self) -> float:
        """The factor from the autoencoder's latents to the UNet's."""
        return float(self.vae.config["scaling_factor"])


def scale_of(vae_config: Mapping[str, Any]) -> int:
    """Return the pixels of a picture per latent pixel, along one side."""
    return int(2 ** (len(vae_config["block_out_channels"]) - 1))
