"""Reading a component's config.json: defaults for missing keys, an error for unsupported values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.wording import quoted

Config = Mapping[str, Any]
MOST = 2**31 - 1
MOST_BLOCKS = 16  # of a UNet or an autoencoder; known networks have four
MOST_LAYERS = 256
"""Layers of one network in all: SDXL's UNet has 70 transformer blocks and 17 residual blocks."""


def settle(
    config: Config,
    *,
    model: str,
    defaults: Config,
    supported: Mapping[str, tuple[Any, ...]],
    unused: frozenset[str] = frozenset(),
    strict: bool = True,
) -> dict[str, Any]:
    """Return the values of the keys of `defaults`: from `config`, or else from `defaults`.

    `supported` lists the only values that a key may have. Keys in `unused` change nothing at inference. With
    `strict` any other key must be off (null or false), so that no feature is left out silently.
    Raises UnreadableCheckpoint that names every unsupported value.
    """
    values = {key: as_tuple(value) for key, value in config.items() if not key.startswith("_")}
    wrong = [
        f"{key}={quoted(value)}"
        for key, value in values.items()
        if not is_supported(key, value, defaults=defaults, supported=supported, unused=unused, strict=strict)
    ]
    refuse(model, wrong)
    return dict(defaults) | {key: value for key, value in values.items() if key in defaults}


def refuse(model: str, wrong: Sequence[str]) -> None:
    """Raise UnreadableCheckpoint that names the configuration values in `wrong`, if there are any."""
    if wrong:
        raise UnreadableCheckpoint(f"{model} with {', '.join(wrong)} is not supported.")


def is_supported(
    key: str,
    value: object,
    *,
    defaults: Config,
    supported: Mapping[str, tuple[Any, ...]],
    unused: frozenset[str],
    strict: bool,
) -> bool:
    """Whether a network can be built with this value of this key."""
    if key in defaults and not is_of_size(value):
        return False
    if key in supported:
        each = value if isinstance(value, tuple) else (value,)
        return all(any(one == choice for choice in supported[key]) for one in each)
    return key in defaults or key in unused or not strict or value is None or value is False


def is_of_size(value: object) -> bool:
    """Whether all numbers in a value, nested lists included, are within the limits of a network."""
    if isinstance(value, tuple):
        return all(map(is_of_size, value))
    return not isinstance(value, int | float) or abs(value) <= MOST


def per_block(value: Any, count: int) -> tuple[Any, ...]:
    """Return one value for each of `count` blocks: `value` itself if it is a list, else `value` repeated."""
    return value if isinstance(value, tuple) else (value,) * count


def check_layers(model: str, *, key: str, value: Any) -> None:
    """Raise UnreadableCheckpoint if a number of layers in `value`, nested lists included, is too large.

    Call it before anything is built: to describe a network of a million layers takes hours.
    """
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, tuple):
            check_layers(model, key=key, value=each)
        elif isinstance(each, int | float) and each > MOST_LAYERS:
            raise UnreadableCheckpoint(
                f"{model} with {key}={quoted(value)} is not supported: {MOST_LAYERS} at most."
            )


def check_lengths(model: str, *, count: int, lists: Config) -> None:
    """Raise UnreadableCheckpoint that names the lists whose length is not the number of blocks, `count`."""
    if count > MOST_BLOCKS:
        raise UnreadableCheckpoint(f"{model} with {count} blocks is not supported: {MOST_BLOCKS} at most.")
    wrong = [
        f"{key}={quoted(value)}" for key, value in lists.items() if len(per_block(value, count)) != count
    ]
    if wrong:
        raise UnreadableCheckpoint(f"{model} has {count} blocks, which does not fit {', '.join(wrong)}.")


def check_divisible(model: str, *, widths: tuple[int, ...], parts: tuple[int, ...], what: str) -> None:
    """Raise UnreadableCheckpoint for a width that is no multiple of its number of groups or heads."""
    for width, count in zip(widths, parts, strict=True):
        if count < 1 or width % count:
            raise UnreadableCheckpoint(f"{model} cannot split {width} channels into {count} {what}.")


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(each) for each in value) if isinstance(value, list) else value
