"""ControlNets from their files: a folder in the diffusers layout, or a single file in either layout.

A file in the original layout has the names of a UNet's half, with `zero_convs` and `input_hint_block` of its
own. A file with the names of the diffusers layout needs its config.json beside it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax

from sdjax_engine.errors import UnreadableCheckpoint, cut
from sdjax_engine.json_files import read_json
from sdjax_engine.models.controlnet_config import NAME, UNION
from sdjax_engine.weights.cache import Cache
from sdjax_engine.weights.checkpoint import Component
from sdjax_engine.weights.files import (
    DIFFUSERS_STEM,
    USUAL,
    HubOptions,
    Report,
    find_named_folder,
    weight_files,
)
from sdjax_engine.weights.load import DTYPES, Put, load_networks
from sdjax_engine.weights.networks import Part, infer_part, settle_config
from sdjax_engine.weights.original.networks import (
    SD_1_CONTEXT,
    SD_XL_POOLED,
    Tensors,
    half_config,
    unet_names,
)
from sdjax_engine.weights.tensors import Stored, stored_tensors, tensors_in

CONFIG = "config.json"
CLASSES = (NAME, UNION)
PATTERNS = (
    f"{DIFFUSERS_STEM}.safetensors.index*.jso?",
    f"{DIFFUSERS_STEM}-?????-of-?????*.safetensors",
)
CACHED_AS = "controlnet"
PREFIX = "control_model."
HINT, ZERO, MIDDLE = "input_hint_block.", "zero_convs.", "middle_block_out.0."
OF_DIFFUSERS = "controlnet_cond_embedding."
HEADS_OF_SD_1, HEAD_WIDTH = 8, 64
STRANGERS = (
    (re.compile(r"lllite_.*"), "a ControlNet-LLLite"),
    (re.compile(r"lora_controlnet|.*\.(up|down)"), "a control-LoRA"),
    (re.compile(r"(adapter\.)?body\..*"), "a T2I-Adapter"),
)


def load_controlnet(
    source: str,
    *,
    dtype: str = "float32",
    revision: str | None = None,
    variant: str | None = None,
    put: Put = jax.device_put,
    by_output: bool = False,
    cache_dir: Path | None = None,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Component:
    """Read the ControlNet called `source`: a folder, a hub id or a .safetensors file.

    The other arguments are those of `load_checkpoint`. Raises UnreadableCheckpoint, in one sentence, for
    whatever is wrong.
    """
    part = read_controlnet(source, dtype=dtype, revision=revision, variant=variant, report=report, hub=hub)
    name = f"{source} {revision} {variant}"
    return load_part(part, name, put=put, by_output=by_output, cache_dir=cache_dir)


def load_part(
    part: Part, name: str, *, put: Put, by_output: bool = False, cache_dir: Path | None = None
) -> Component:
    """Read the weights of a ControlNet, which is kept in the cache under this `name`."""
    made = load_networks(
        {"the ControlNet": part},
        origin=part.origin,
        cache=Cache.of(cache_dir, f"{CACHED_AS} {name}"),
        cached_as={"the ControlNet": CACHED_AS},
        put=put,
        by_output=by_output,
    )
    return made["the ControlNet"]


def read_controlnet(
    source: str,
    *,
    dtype: str = "float32",
    revision: str | None = None,
    variant: str | None = None,
    report: Report | None = None,
    hub: HubOptions = USUAL,
) -> Part:
    """Return the ControlNet called `source` before its weights are read; raises UnreadableCheckpoint."""
    if dtype not in DTYPES:
        raise UnreadableCheckpoint(f"There is no dtype {dtype!r}: choose one of {', '.join(DTYPES)}.")
    path = Path(source).expanduser()
    if path.is_file():
        return read_file(path, dtype)
    variants = [f"{DIFFUSERS_STEM}.{variant}.safetenso??"] if variant else []
    wanted = (*PATTERNS, *variants, CONFIG, f"{DIFFUSERS_STEM}.safetensors")
    folder = find_named_folder(source, wanted, report, revision=revision, hub=hub)
    return part_of(folder, weight_files(folder, variant=variant, stem=DIFFUSERS_STEM), dtype)


def read_file(file: Path, dtype: str) -> Part:
    """Return the ControlNet in a single file; raises UnreadableCheckpoint."""
    tensors = tensors_in(file)
    plain = {name.removeprefix(PREFIX): each for name, each in tensors.items()}
    if any(name.startswith(HINT) for name in plain):
        return original_part(file, plain, dtype)
    if not any(name.startswith(OF_DIFFUSERS) for name in plain):
        kinds = (kind for pattern, kind in STRANGERS if any(map(pattern.fullmatch, tensors)))
        raise UnreadableCheckpoint(f"{file} is not supported: it is {next(kinds, 'no ControlNet')}.")
    if not (file.parent / CONFIG).is_file():
        raise UnreadableCheckpoint(
            f"{file} has the names of the diffusers layout, which needs its {CONFIG}: put it beside the file."
        )
    return part_of(file.parent, (file,), dtype)


def part_of(folder: Path, files: tuple[Path, ...], dtype: str) -> Part:
    """Return the ControlNet of the configuration in `folder` with the tensors of `files`."""
    file = folder / CONFIG
    config = read_json(file)
    kind = str(config.get("_class_name", NAME)).removeprefix("Flax")
    if kind not in CLASSES:
        raise UnreadableCheckpoint(
            f"{file} is of the class {cut(kind)}: name the folder or hub id of a {' or '.join(CLASSES)}."
        )
    return Part(
        model=kind,
        config=settle_config(kind, config, origin=str(file)),
        stored=stored_tensors(kind, files),
        origin=str(file),
        dtype=DTYPES[dtype],
    )


def original_part(file: Path, tensors: Tensors, dtype: str) -> Part:
    """Return the ControlNet of these tensors in the original layout."""
    made = infer_part(
        file, NAME, "ControlNet", lambda: original_names(tensors), lambda _: original_config(tensors)
    )
    return Part(model=NAME, config=made.config, stored=made.stored, origin=made.origin, dtype=DTYPES[dtype])


def original_names(tensors: Tensors) -> dict[str, Stored]:
    """Return the tensors by today's names; unknown names are not changed."""
    hints = sorted({int(name.split(".")[1]) for name in tensors if name.startswith(HINT)})
    places = dict(
        zip(
            hints,
            ["conv_in", *(f"blocks.{index}" for index in range(len(hints) - 2)), "conv_out"],
            strict=True,
        )
    )
    found = {}
    for name, stored in unet_names(tensors).items():
        leaf = name.rpartition(".")[2]
        if name.startswith(HINT):
            found[f"{OF_DIFFUSERS}{places[int(name.split('.')[1])]}.{leaf}"] = stored
        elif name.startswith(ZERO):
            found[f"controlnet_down_blocks.{name.split('.')[1]}.{leaf}"] = stored
        elif name.startswith(MIDDLE):
            found[f"controlnet_mid_block.{leaf}"] = stored
        else:
            found[name] = stored
    return found


def original_config(tensors: Tensors) -> dict[str, Any]:
    """Return the config.json of a ControlNet whose file has none.

    The width of the context tells SD 1, which has 8 heads in every block; others have heads of 64 channels.
    """
    half = half_config(tensors, pooled_width=SD_XL_POOLED)
    hints = sorted(
        (int(name.split(".")[1]), stored.shape)
        for name, stored in tensors.items()
        if name.startswith(HINT) and name.endswith(".weight")
    )
    is_sd_1 = half["cross_attention_dim"] == SD_1_CONTEXT
    heads = [HEADS_OF_SD_1 if is_sd_1 else width // HEAD_WIDTH for width in half["block_out_channels"]]
    widths = [shape[0] for _, shape in hints[:-1]][::2]
    return half | {"attention_head_dim": heads, "conditioning_embedding_out_channels": widths}
