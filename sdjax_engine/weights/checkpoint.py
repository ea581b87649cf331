"""A checkpoint: its contents before any tensor is read, in either layout, and what is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import Family, Parameters
from sdjax_engine.weights.networks import Blueprint, Part


@dataclass(frozen=True, kw_only=True, eq=False)
class Component:
    """One network: its parameters on the devices, its blueprint, its complete configuration.

    `in_float32` is the blueprint of the same network in float32. `shapes` are those of the parameters in the
    module; `dtype` is that of its arithmetic and of all parameters that are not INT8. On a GPU kernels of
    convolutions may lie in another order.
    """

    parameters: Parameters = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    blueprint: Blueprint = field(repr=False)
    in_float32: Blueprint = field(repr=False)
    config: dict[str, Any]
    dtype: DTypeLike

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
    all words that it knows, in lower case; empty for any. `controlnets` are those that are offered with it,
    `image_prompt` the networks of `weights/image_prompt.py`. `embeddings` are the rows of each embedding's
    vectors in the text encoders' `VECTORS`.
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
    image_prompt: Mapping[str, Component] = field(default_factory=dict)
    embeddings: Mapping[str, range] = field(default_factory=dict)


SAFETY_CHECKER = "safety_checker"


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
    image_prompt: Mapping[str, Part] = field(default_factory=dict)
    embeddings: Mapping[str, range] = field(default_factory=dict)

    @property
    def native_size(self) -> tuple[int, int]:
        """The (width, height) in pixels that the denoiser was trained at."""
        return self.family.native_size({name: part.config for name, part in self.components.items()})


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
    wrong = list(contents.family.clashes(contents))
    if wrong:
        raise UnreadableCheckpoint(f"The parts of {contents.origin} do not fit together: {'; '.join(wrong)}.")


def files_of(part: Part) -> list[Path]:
    """Return the files that hold the tensors of a network."""
    return sorted({stored.file for stored in part.stored.values()})
