"""Reading a checkpoint: networks from their configurations, parameters from the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import Parameters
from sdjax_engine.models.kinds import KINDS
from sdjax_engine.request import Int8
from sdjax_engine.weights.cache import Cache, Placed
from sdjax_engine.weights.checkpoint import (
    Checkpoint,
    Component,
    Contents,
    check_together,
    respaced,
)
from sdjax_engine.weights.files import USUAL, HubOptions, Report, find_source
from sdjax_engine.weights.folder import read_folder
from sdjax_engine.weights.networks import (
    Part,
    check_tensors,
    ordered_by_output,
)
from sdjax_engine.weights.original.single_file import read_single_file
from sdjax_engine.weights.reading import arrays

Put = Callable[[npt.NDArray[Any]], jax.Array]
DTYPES: dict[str, DTypeLike] = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
MOST_UNDER_WAY = 256 * 2**20  # bytes in transfer to the devices before the next parameter is read


def in_host_memory(array: npt.NDArray[Any]) -> Any:
    """Return a copy in memory, because `array` may be a view of a file."""
    return np.array(array)


def load_checkpoint(
    source: str,
    *,
    dtype: str = "float32",
    revision: str | None = None,
    variant: str | None = None,
    vae: str | None = None,
    denoiser: str | None = None,
    timestep_spacing: str | None = None,
    safety_checker: bool = False,
    expect: Callable[[int], object] = lambda _size: None,
    int8: Collection[Int8] = (),
    put: Put = jax.device_put,
    by_output: bool = False,
    cache_dir: Path | None = None,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Checkpoint:
    """Read the checkpoint called `source`.

    `source` is "demo", a folder in the diffusers layout, a hub id, or a .safetensors file in the original
    layout. `vae` names another autoencoder than the checkpoint's: a folder, a hub id or a .safetensors
    file. `denoiser` names a .safetensors file of the denoiser alone, for the rest of a folder.
    `timestep_spacing` replaces the schedule's. The safety checker is read if requested and present.
    `dtype` ("float32" or "bfloat16") is the dtype of parameters and arithmetic; `force_upcast` is for
    float16, which this package does not offer. The weights of the parts in `int8` are rounded to INT8. `put`
    copies a parameter, a host array that it may keep, to the devices; before the first, `expect` gets the
    bytes of all. With `by_output`, `put` gets kernels of convolutions in a GPU's order
    (`weights/networks.py`). Converted parameters are cached in `cache_dir`. `report` gets the progress of
    downloads, which `hub` governs. Raises UnreadableCheckpoint, in one sentence, for every fault.
    """
    if dtype not in DTYPES:
        raise UnreadableCheckpoint(f"There is no dtype {dtype!r}: choose one of {', '.join(DTYPES)}.")
    path = find_source(
        source,
        revision=revision,
        variant=variant,
        replaced=[name for name, file in (("vae", vae), ("denoiser", denoiser)) if file is not None],
        safety_checker=safety_checker,
        report=report,
        hub=hub,
    )
    contents = read_contents(
        path, variant=variant, safety_checker=safety_checker, vae=vae, denoiser=denoiser, report=report
    )
    contents = replace(contents, scheduler_config=respaced(contents.scheduler_config, timestep_spacing))
    parts = parts_of(contents, dtype, int8)
    expect(sum(part.size for part in parts.values()))
    components = load_networks(
        parts,
        origin=contents.origin,
        cache=Cache.of(cache_dir, f"{source} {revision} {variant}"),
        cached_as={
            **({"vae": f"vae {vae}"} if vae else {}),
            **({contents.family.adaptable[0]: f"denoiser {denoiser}"} if denoiser else {}),
        },
        put=put,
        by_output=by_output,
    )
    return assemble(source, contents, components)


def load_networks(
    parts: Mapping[str, Part],
    *,
    origin: str,
    cache: Cache | None,
    cached_as: Mapping[str, str] = MappingProxyType({}),
    put: Put,
    by_output: bool = False,
) -> dict[str, Component]:
    """Check the tensors of all networks, then read each; `cached_as` has the names in the cache that differ.

    Raises UnreadableCheckpoint with every tensor that does not fit, before any is read.
    """
    names = {name: cached_as.get(name, name) for name in parts}
    unchecked = {
        name: each for name, each in parts.items() if not (cache and cache.has_checked(names[name], each))
    }
    check_tensors(origin, unchecked)
    return {
        name: fill(names[name], each, put=put, by_output=by_output, cache=cache)
        for name, each in parts.items()
    }


def read_contents(
    path: Path,
    *,
    variant: str | None,
    safety_checker: bool,
    vae: str | None = None,
    denoiser: str | None = None,
    report: Report | None = None,
) -> Contents:
    """Read what a folder or a single file holds, without its weights; raises UnreadableCheckpoint."""
    if path.is_dir():
        contents = read_folder(
            path, variant=variant, safety_checker=safety_checker, vae=vae, denoiser=denoiser, report=report
        )
    elif denoiser is not None:
        raise UnreadableCheckpoint(f"{path} is one file: the key denoiser is for the rest of a folder.")
    else:
        contents = read_single_file(path, vae=vae, variant=variant, report=report)
    check_together(contents)
    return contents


def parts_of(contents: Contents, dtype: str, int8: Collection[Int8] = ()) -> dict[str, Part]:
    """Return each network, with the dtype that its parameters will have, and whether weights are INT8.

    Raises UnreadableCheckpoint for a part whose weights cannot be.
    """
    denoiser = contents.family.adaptable[0]
    able = {name for name, part in contents.components.items() if KINDS[part.model].int8 is not None}
    chosen = set[str]()
    for each in int8:
        of_part = able & {denoiser} if each is Int8.DENOISER else able - {denoiser}
        if not of_part:
            raise UnreadableCheckpoint(
                f"{contents.origin} has no {each} whose weights can be INT8: leave it out of int8."
            )
        chosen |= of_part
    return {
        name: replace(part, dtype=DTYPES[dtype], int8=name in chosen)
        for name, part in contents.components.items()
    }


def assemble(name: str, contents: Contents, components: Mapping[str, Component]) -> Checkpoint:
    """Return the checkpoint of these networks."""
    return Checkpoint(
        name=name,
        family=contents.family,
        pipeline=contents.pipeline,
        index=contents.index,
        components=components,
        tokenizers=contents.tokenizers,
        preprocessor_config=contents.preprocessor_config,
        scheduler_config=contents.scheduler_config,
        native_size=contents.native_size,
        known_words=contents.known_words,
    )


def fill(name: str, part: Part, *, put: Put, cache: Cache | None, by_output: bool = False) -> Component:
    """Return the network with every parameter on the devices, read one at a time."""
    courier, shapes = Courier(put=put), dict[str, tuple[int, ...]]()
    for key, array in parameters(name, part, cache):
        shapes[key] = array.shape
        courier.send(key, ordered_by_output(array) if by_output else array)
    return Component(
        parameters=dict(sorted(courier.placed.items())),
        shapes=shapes,
        blueprint=part.blueprint,
        in_float32=part.in_float32,
        config=part.config,
        dtype=part.dtype,
    )


def parameters(name: str, part: Part, cache: Cache | None) -> Iterable[Placed]:
    """Yield every parameter of a network, from the cache, or converted and then cached."""
    cached = cache.read(name, part) if cache is not None else None
    if cached is not None:
        return cached
    converted = arrays(part.stored, part.wanted, dtype=part.dtype, in_int8=part.in_int8)
    return converted if cache is None else cache.keep(name, part, converted)


@dataclass(kw_only=True)
class Courier:
    """Copies parameters to the devices, and waits while too many bytes are in transfer."""

    put: Put
    placed: Parameters = field(default_factory=dict)
    under_way: list[jax.Array] = field(default_factory=list)
    bytes_under_way: int = 0

    def send(self, key: str, array: npt.NDArray[Any]) -> None:
        self.placed[key] = self.put(array)
        self.under_way.append(self.placed[key])
        self.bytes_under_way += array.nbytes
        if self.bytes_under_way >= MOST_UNDER_WAY:
            jax.block_until_ready(self.under_way)  # type: ignore[no-untyped-call]
            self.under_way, self.bytes_under_way = [], 0
