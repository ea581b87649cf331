"""Reading LoRA files: the layer of every tensor, and the factors in the layout of a bank."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from sdjax_engine.errors import UnreadableCheckpoint, first_line, quoted
from sdjax_engine.families.family import ForeignNames
from sdjax_engine.json_files import read_json
from sdjax_engine.models.lora_bank import LayerPath, LayerShape
from sdjax_engine.weights.files import is_hub_id
from sdjax_engine.weights.lora_names import (
    OF_PEFT,
    Role,
    exchanged_spellings,
    joint_spellings,
    other_kind,
    spellings,
    split_key,
)
from sdjax_engine.weights.reading import BYTES
from sdjax_engine.weights.tensors import STORED_DTYPES, read_header, shorten

NAME = re.compile(r"\^?[\w.-]+")
DANGEROUS = re.compile(r"\)[*+?{]|\(\?")  # a repeated group, or flags, which could hide one
MOST_REPEATS = 2  # each multiplies the time by the length of a path
MOST_ALTERNATIVES = 4
LONGEST = 400  # characters
MOST_EXPRESSIONS = 8
MOST_PATTERNS = 10_000


def find_pattern(patterns: Collection[str], paths: Iterable[str]) -> str | None:
    """Return the first of `patterns` that matches one of a layer's `paths`, or None.

    Raises ValueError for expressions that could take long to match, and for invalid expressions.
    """
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(f"alpha_pattern has more than {MOST_PATTERNS} entries")
    paths = tuple(paths)
    names = {end for path in paths for end in ends(path)}
    expressions = 0
    for pattern in patterns:
        if pattern in names:
            return pattern
        if NAME.fullmatch(pattern):
            continue
        expressions += 1
        if expressions > MOST_EXPRESSIONS:
            raise ValueError(f"alpha_pattern has more than {MOST_EXPRESSIONS} regular expressions")
        matcher = compiled(pattern)
        if any(matcher.fullmatch(path) for path in paths):
            return pattern
    return None


def ends(path: str) -> Iterator[str]:
    """Yield the names that match a layer: its path from each dot on, and, after a `^`, its whole path."""
    yield f"^{path}"
    parts = path.split(".")
    for start in range(len(parts)):
        yield ".".join(parts[start:])


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression as peft matches it; raises ValueError."""
    repeats = sum(map(pattern.count, "*+?{"))
    if (
        repeats > MOST_REPEATS
        or pattern.count("|") > MOST_ALTERNATIVES
        or len(pattern) > LONGEST
        or DANGEROUS.search(pattern)
    ):
        raise ValueError(
            f"the expression {quoted(pattern)} in alpha_pattern could take too long: name layers"
        )
    try:
        return re.compile(rf"(.*\.)?({pattern})")
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{quoted(pattern)} in alpha_pattern is no regular expression") from error


OF_WIDTH = {
    768: "SD 1",
    1024: "SD 2",
    2048: "SDXL",
}  # of the encoded prompt, which keys and values are made of
OF_PROMPT = re.compile(r".*attn2[._](processor\.)?to_(k|v)")
A_TRANSFORMER = "a transformer, such as Stable Diffusion 3 or Flux"
BY_NAMES = (
    (re.compile(r"(lora_unet_|transformer\.|lora_transformer_).*(double_blocks|single_).*"), "Flux"),
    (
        re.compile(r"(lora_unet_|diffusion_model\.).*joint_blocks.*|transformer\.context_embedder(\..*)?"),
        "Stable Diffusion 3",
    ),
    (re.compile(r"(transformer\.|lora_transformer_).*"), A_TRANSFORMER),
    (re.compile(r"(lora_te2_|text_encoder_2\.|lora_unet_(input|output|middle)_block).*"), "SDXL"),
)


def other_family(tensors: Mapping[str, tuple[int, ...]], shapes: Mapping[LayerPath, LayerShape]) -> list[str]:
    """Return a clause with the family of a LoRA's tensors if the model is of another, else nothing."""
    of_model = OF_WIDTH.get(
        next((each.width_in for place, each in shapes.items() if OF_PROMPT.fullmatch(place.path)), 0)
    )
    of_lora = family_of_lora(tensors)
    if of_lora is None or of_lora in {of_model, family_by_names(map(str, shapes))}:
        return []
    if of_lora == A_TRANSFORMER and any(place.component == "transformer" for place in shapes):
        return []
    return [f"it was made for {of_lora}" + (f", and the model is {of_model}" if of_model else "")]


def family_of_lora(tensors: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return the family by the width of prompts or by the names of layers, or None if nothing shows it."""
    for key, shape in tensors.items():
        part = split_key(key)
        if part and part[1] is Role.DOWN and len(shape) > 1 and OF_PROMPT.fullmatch(part[0]):
            return OF_WIDTH.get(shape[1])
    return family_by_names(tensors)


def family_by_names(names: Iterable[str]) -> str | None:
    """Return the family of layers with these names, or None if nothing shows it."""
    every = list(names)
    return next((name for pattern, name in BY_NAMES if any(map(pattern.fullmatch, every))), None)


OF_DIFFUSERS, ADAPTER = "pytorch_lora_weights.safetensors", "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
METADATA = "lora_adapter_metadata"
FACTORS = STORED_DTYPES - BYTES.keys()
ALPHAS = FACTORS | {
    "I64",
    "I32",
    "I16",
    "I8",
    "U8",
}  # diffusers' converter to kohya's form makes them integers
ALPHA_OF_PEFT = 8  # its default
Shapes = Mapping[LayerPath, LayerShape]
Share = tuple[int, int]
"""Which of so many equal parts of the rows of a tensor are a layer's."""
WHOLE: Share = (0, 1)


@dataclass(kw_only=True)
class Found:
    """The keys of one layer's tensors by their roles, and the layer's share of them.

    `exchanged`: they are of the second half of its rows, then of the first.
    """

    roles: dict[Role, str] = field(default_factory=dict)
    share: Share = WHOLE
    exchanged: bool = False


Keys = dict[LayerPath, Found]


@dataclass(frozen=True, kw_only=True)
class LoraContents:
    """The contents of a file without its factors: shapes of tensors, alphas, and peft's settings."""

    shapes: Mapping[str, tuple[int, ...]]
    alphas: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LayerFactors:
    """One layer's two factors in a file: their keys, their rank, and the scale of their product.

    `up` has the rows of as many layers as `share` says, and those of this layer at its index among them. If
    `exchanged`, their second half is the first.
    """

    down: str
    up: str
    rank: int
    scale: float
    share: Share = WHOLE
    exchanged: bool = False


@dataclass(frozen=True, kw_only=True)
class LoraFile:
    """A LoRA file that was checked against a model; its tensors are not read yet."""

    file: Path
    layers: Mapping[LayerPath, LayerFactors] = field(repr=False)

    @property
    def rank(self) -> int:
        """The number of rows it takes in a bank: the largest rank of a layer."""
        return max(layer.rank for layer in self.layers.values())


def read_lora(path: Path, shapes: Shapes, names: ForeignNames | None = None) -> LoraFile:
    """Read the header of the LoRA at `path`: a file, a folder as diffusers or peft saves it, or a hub id.

    `names` are those of the family. Raises UnreadableCheckpoint, in one sentence, unless every tensor belongs
    to a layer in `shapes`.
    """
    file = find_file(path)
    contents = read_contents(file)
    keys, problems = sort_keys(contents.shapes, shapes, names)
    problems += find_misfits(contents, keys, shapes)
    if not keys and not problems:
        problems = ["no tensors"]
    if problems:
        problems = other_family(contents.shapes, shapes) + problems
        raise UnreadableCheckpoint(f"{file} does not fit the model as a LoRA: {'; '.join(problems)}.")
    try:
        layers = {place: factors_of_layer(place, found, contents) for place, found in keys.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise UnreadableCheckpoint(f"{file} has settings of no LoRA: {first_line(error)}") from error
    return LoraFile(file=file, layers=layers)


def find_file(path: Path) -> Path:
    """Return the safetensors file of `path`; that of a hub id is downloaded. Raises UnreadableCheckpoint."""
    path = path.expanduser()
    source = path.as_posix()
    if not path.exists() and is_hub_id(source):
        from sdjax_engine.weights.hub import fetch  # noqa: PLC0415 - the hub's client is slow to import

        path = fetch(source, (OF_DIFFUSERS, ADAPTER, ADAPTER_CONFIG), revision=None)
    elif not path.is_dir():
        if not path.is_file():
            raise UnreadableCheckpoint(f"There is no LoRA file {path}.")
        return path
    found = [file for name in (OF_DIFFUSERS, ADAPTER) if (file := path / name).is_file()]
    if not found:
        raise UnreadableCheckpoint(
            f"{source} has neither {OF_DIFFUSERS} nor {ADAPTER}: name the LoRA's .safetensors file itself."
        )
    return found[0]


def read_contents(file: Path) -> LoraContents:
    """Return the contents of a safetensors file without its factors; raises UnreadableCheckpoint."""
    tensors, notes = read_header(file)
    strange = [
        f"{name} ({each.dtype})"
        for name, each in tensors.items()
        if each.dtype not in (ALPHAS if is_alpha(name) else FACTORS) and not other_kind(name)
    ]
    if strange:
        raise UnreadableCheckpoint(
            f"{file} has tensors of dtypes that are not supported: {shorten(strange)}."
        )
    with safe_open(file, "np") as opened:
        alphas = {name: read_alpha(opened.get_tensor(name)) for name in tensors if is_alpha(name)}
    settings = read_adapter_settings(notes.get(METADATA))
    is_of_peft = any(map(is_in_adapter, tensors)) and not any(map(other_kind, tensors))
    if is_of_peft and not settings and not alphas:
        settings = read_adapter_config(file)
    return LoraContents(
        shapes={name: each.shape for name, each in tensors.items()}, alphas=alphas, settings=settings
    )


def read_adapter_config(file: Path) -> dict[str, Any]:
    """Return peft's settings from the file beside its adapter `file`; raises UnreadableCheckpoint.

    Without them the scale is unknown.
    """
    beside = file.with_name(ADAPTER_CONFIG)
    if not beside.is_file():
        raise UnreadableCheckpoint(
            f"{file} is an adapter of peft, whose scale is in {ADAPTER_CONFIG}: put that file beside it."
        )
    settings = read_json(beside)
    kind = settings.get("peft_type")
    if kind != "LORA":
        raise UnreadableCheckpoint(f"{beside}: peft_type is {quoted(kind)}, and only 'LORA' is supported.")
    return {"lora_alpha": ALPHA_OF_PEFT} | settings


def is_in_adapter(key: str) -> bool:
    return key.startswith(OF_PEFT)


def is_alpha(key: str) -> bool:
    part = split_key(key)
    return part is not None and part[1] is Role.ALPHA


def read_alpha(tensor: npt.NDArray[Any]) -> float:
    """Return the only number in `tensor`, or NaN if it has another count of numbers."""
    return float(tensor.reshape(-1)[0]) if tensor.size == 1 else math.nan


def read_adapter_settings(text: str | None) -> dict[str, Any]:
    """Return peft's settings (`lora_alpha`, `r`, …, each after its component's name) from the metadata."""
    try:
        settings = json.loads(text) if text else {}
    except (ValueError, RecursionError):  # metadata of the same name from another program
        settings = {}
    return settings if isinstance(settings, dict) else {}


def sort_keys(keys: Iterable[str], shapes: Shapes, names: ForeignNames | None) -> tuple[Keys, list[str]]:
    """Return each layer's keys by role, and one clause for each kind of keys without a layer.

    A tensor of several layers counts only if none of them has tensors of its own.
    """
    exchanged, joint = exchanged_spellings(shapes, names), joint_spellings(shapes, names)
    known = exchanged | spellings(shapes, names)
    found: Keys = {}
    others: dict[str, list[str]] = {}
    unknown, repeated, of_several = [], [], []
    for key in sorted(keys):
        part = split_key(key)
        if kind := other_kind(key):
            others.setdefault(kind, []).append(key)
        elif part is not None and part[0] in joint:
            of_several.append((key, part[1], joint[part[0]]))
        elif part is None or part[0] not in known:
            unknown.append(key)
        else:
            layer = found.setdefault(known[part[0]], Found(exchanged=part[0] in exchanged))
            if layer.roles.setdefault(part[1], key) != key or layer.exchanged != (part[0] in exchanged):
                repeated.append(key)
    own = frozenset(found)
    for key, role, places in of_several:
        for index, place in enumerate(places if own.isdisjoint(places) else ()):
            layer = found.setdefault(place, Found(share=(index, len(places))))
            if layer.roles.setdefault(role, key) != key:
                repeated.append(key)
    problems = [f"{kind} is not supported: {shorten(names)}" for kind, names in others.items()]
    problems += [f"tensors of no layer of the model: {shorten(unknown)}"] if unknown else []
    problems += [f"tensors of one layer twice: {shorten(repeated)}"] if repeated else []
    return found, problems


def find_misfits(contents: LoraContents, keys: Keys, shapes: Shapes) -> list[str]:
    """Return one clause for each kind of misfit between the tensors and their layers or one another."""
    halves = {place for place, found in keys.items() if not {Role.DOWN, Role.UP} <= found.roles.keys()}
    whole = {place: found for place, found in keys.items() if place not in halves}
    misshapen = []
    for place, found in whole.items():
        down, up = (contents.shapes[found.roles[role]] for role in (Role.DOWN, Role.UP))
        if not fit(down, up, shapes[place], count=found.share[1]):
            misshapen.append(f"{found.roles[Role.DOWN]} {down} with {up}")
    alphas = [name for name, alpha in contents.alphas.items() if not math.isfinite(alpha)]
    kinds = (
        ("layers without one of their two factors", sorted(map(str, halves))),
        ("layers of another shape", misshapen),
        ("alphas that are not one number", alphas),
    )
    return [f"{what}: {shorten(names)}" for what, names in kinds if names]


def fit(down: tuple[int, ...], up: tuple[int, ...], shape: LayerShape, *, count: int = 1) -> bool:
    """Whether tensors of these shapes are the factors of `count` layers of this shape."""
    rank = down[0] if down else 0
    window = shape.window or (1, 1)
    downs = [(rank, shape.width_in, *window)] + ([(rank, shape.width_in)] if set(window) == {1} else [])
    rows = count * shape.width_out
    return rank > 0 and down in downs and up in ((rows, rank), (rows, rank, 1, 1))


def factors_of_layer(place: LayerPath, found: Found, contents: LoraContents) -> LayerFactors:
    """Return one layer's factors; the scale is by the layer's alpha, or else by peft's settings."""
    roles = found.roles
    rank = contents.shapes[roles[Role.DOWN]][0]
    if Role.ALPHA in roles:
        scale = contents.alphas[roles[Role.ALPHA]] / rank
    else:
        scale = scale_by_settings(place, rank, contents.settings)
    return LayerFactors(
        down=roles[Role.DOWN],
        up=roles[Role.UP],
        rank=rank,
        scale=scale,
        share=found.share,
        exchanged=found.exchanged,
    )


def scale_by_settings(place: LayerPath, rank: int, settings: Mapping[str, Any]) -> float:
    """Return a layer's scale by peft's settings: alpha / rank, or alpha / √rank with rank-stabilised LoRA.

    Without an alpha it is 1. In a file of a single network, settings have no component's name before them.
    """
    component = f"{place.component}."
    of_component = {
        key.removeprefix(component): value for key, value in settings.items() if key.startswith(component)
    }
    of_component = of_component or {key: value for key, value in settings.items() if "." not in key}
    path = place.path.removeprefix("text_model.")
    pattern = find_pattern((of_component.get("alpha_pattern") or {}).keys(), (path, f"text_model.{path}"))
    alpha = of_component.get("lora_alpha") if pattern is None else of_component["alpha_pattern"][pattern]
    if alpha is None:
        return 1.0
    return float(alpha) / (math.sqrt(rank) if of_component.get("use_rslora") else rank)


def read_factors(
    opened: Any, layer: LayerFactors, shape: LayerShape
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return `down` (rank, *window, width_in) and `up` (rank, width_out) with its scale, both float32.

    `opened` is the file opened by `safe_open`. Raises UnreadableCheckpoint for NaN and infinite values.
    """
    down = opened.get_tensor(layer.down).astype(np.float32)
    up = opened.get_tensor(layer.up).astype(np.float32)
    if not (np.isfinite(down).all() and np.isfinite(up).all()):
        raise UnreadableCheckpoint(f"{layer.down} or {layer.up} holds values that are not numbers.")
    down = down.reshape(layer.rank, shape.width_in, *shape.window)
    index, count = layer.share
    up = up.reshape(count, shape.width_out, layer.rank)[index]
    up = np.roll(up, len(up) // 2, axis=0) if layer.exchanged else up
    return np.moveaxis(down, 1, -1), up.T * np.float32(layer.scale)
