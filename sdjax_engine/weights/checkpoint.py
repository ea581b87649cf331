"""A checkpoint: its contents before any tensor is read, in either layout, and what is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdjax_engine.errors import UnreadableCheckpoint, quoted
from sdjax_engine.families.family import Family, Parameters
from sdjax_engine.families.stable_diffusion.latents import scale_of
from sdjax_engine.models.unet_config import TIME_IDS
from sdjax_engine.weights.networks import Blueprint, Part


@dataclass(frozen=True, kw_only=True, eq=False)
class Component:
    """One network: its parameters on the devices, its blueprint, its complete configuration.

    `in_float32` is the blueprint of the same network in float32. `shapes` are those of the parameters in the
    module. On a GPU kernels of convolutions may lie in another order.
    """

    parameters: Parameters = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    blueprint: Blueprint = field(repr=False)
    in_float32: Blueprint = field(repr=False)
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
class Checkpoint:
    """A loaded checkpoint.

    `pipeline` is the reference's class of the checkpoint, `index` what model_index.json says besides the
    components; `components` are by their names there. `tokenizers` are the family's. `preprocessor_config`
    holds the safety checker's picture settings and is empty without one. `scheduler_config` is the content
    of the file, without defaults for missing keys. `native_size` is (width, height) in pixels. `known_words`:
    all words that it knows, in lower case; empty for any. `controlnets` are those that are offered with it.
    """

    name: str
    family: Family = field(repr=False)
    pipeline: str
    index: dict[str, Any]
    components: Mapping[str, Component]
    tokenizers: tuple[Any, ...]
    preprocessor_config: dict[str, Any]
    scheduler_config: dict[str, Any]
    native_size: tuple[int, int]
    known_words: frozenset[str] = frozenset()
    controlnets: Mapping[str, Component] = field(default_factory=dict)


SAFETY_CHECKER = "safety_checker"
TEXT_ENCODERS = ("text_encoder", "text_encoder_2")
MOST_PIXELS = 16384  # along one side
DEFAULT_SIDE = 64  # of the latents, if the UNet's configuration has none: the reference's default


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The networks, by their names in model_index.json, and everything else of the checkpoint.

    `origin` names the source in messages; the other values are those of `Checkpoint`. `known_words` are those
    of the file KNOWN_WORDS.
    """

    origin: str
    family: Family
    pipeline: str
    components: Mapping[str, Part]
    tokenizers: tuple[Any, ...]
    scheduler_config: dict[str, Any]
    index: dict[str, Any] = field(default_factory=dict)
    preprocessor_config: dict[str, Any] = field(default_factory=dict)
    known_words: frozenset[str] = frozenset()
    controlnets: Mapping[str, Part] = field(default_factory=dict)

    @property
    def is_xl(self) -> bool:
        """Whether the pipeline is SDXL's: two text encoders, conditioning on sizes."""
        return "XL" in self.pipeline

    @property
    def native_size(self) -> tuple[int, int]:
        """The (width, height) in pixels that the UNet was trained at."""
        return native_size_of(self.components["unet"].config, self.components["vae"].config)


def native_size_of(unet: Mapping[str, Any], vae: Mapping[str, Any]) -> tuple[int, int]:
    """Return (width, height) in pixels of pictures of the UNet's `sample_size`.

    Raises UnreadableCheckpoint for an impossible size.
    """
    size = unet.get("sample_size") or DEFAULT_SIDE
    scale = scale_of(vae)
    try:
        height, width = size if isinstance(size, tuple | list) else (size, size)
        sides = int(width) * scale, int(height) * scale
    except (TypeError, ValueError, OverflowError):
        sides = 0, 0
    if not all(0 < side <= MOST_PIXELS for side in sides):
        raise UnreadableCheckpoint(f"The UNet's sample_size is {quoted(size)}, which is no size.")
    return sides


def respaced(scheduler_config: dict[str, Any], timestep_spacing: str | None) -> dict[str, Any]:
    """Return a checkpoint's schedule with this spacing of timesteps (None: its own)."""
    if timestep_spacing is None:
        return scheduler_config
    changed = scheduler_config | {"timestep_spacing": timestep_spacing}
    unchosen = changed.get("_use_default_values")
    if isinstance(unchosen, list):
        changed["_use_default_values"] = [key for key in unchosen if key != "timestep_spacing"]
    return changed


def check_together(contents: Contents) -> None:
    """Raise UnreadableCheckpoint for components that do not match."""
    unet, vae = contents.components["unet"].config, contents.components["vae"].config
    native_size_of(unet, vae)  # raises for an impossible size
    texts = [contents.components[name].config for name in TEXT_ENCODERS if name in contents.components]
    latent = vae["latent_channels"]
    clashes = {
        "the UNet's out_channels are not the autoencoder's latent_channels": unet["out_channels"] != latent,
        "the UNet's in_channels are neither the autoencoder's latent_channels nor twice those and a mask": (
            unet["in_channels"] not in (latent, 2 * latent + 1)
        ),
        "the UNet's cross_attention_dim is not the text encoder's hidden_size": (
            set(unet["cross_attention_dim"]) != {sum(text["hidden_size"] for text in texts)}
        ),
        "the tokenizer has more words than the text encoder": any(
            tokenizer.size > text["vocab_size"]
            for tokenizer, text in zip(contents.tokenizers, texts, strict=True)
        ),
        "the tokenizer's prompts are longer than the text encoder's": any(
            tokenizer.length > text["max_position_embeddings"]
            for tokenizer, text in zip(contents.tokenizers, texts, strict=True)
        ),
        **clashes_of_xl(contents, unet, texts),
    }
    wrong = [sentence for sentence, is_so in clashes.items() if is_so]
    if wrong:
        raise UnreadableCheckpoint(f"The parts of {contents.origin} do not fit together: {'; '.join(wrong)}.")


def clashes_of_xl(
    contents: Contents, unet: Mapping[str, Any], texts: list[dict[str, Any]]
) -> dict[str, bool]:
    """Return the contradictions in the conditioning on the pooled prompt and on sizes."""
    kind = unet["addition_embed_type"]
    if not contents.is_xl:
        return {
            f"{contents.pipeline} has nothing for the UNet's addition_embed_type {kind}": kind is not None
        }
    if kind is None:
        return {f"the UNet has no addition_embed_type, which {contents.pipeline} needs": True}
    width = texts[-1]["projection_dim"] + TIME_IDS * unet["addition_time_embed_dim"]
    return {
        "the UNet's projection_class_embeddings_input_dim is not the second text encoder's projection_dim "
        f"and {TIME_IDS} times addition_time_embed_dim": unet["projection_class_embeddings_input_dim"]
        != width,
        "the two tokenizers' prompts are not of one length": (
            len({tokenizer.length for tokenizer in contents.tokenizers}) != 1
        ),
    }


def files_of(part: Part) -> list[Path]:
    """Return the files that hold the tensors of a network."""
    return sorted({stored.file for stored in part.stored.values()})
