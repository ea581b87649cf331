"""Reading a component's config.json: defaults for missing keys, a refusal for what we lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.wording import quoted

Config = Mapping[str, Any]
MOST = 2**31 - 1
MOST_BLOCKS = 16  # of a UNet or an autoencoder; known ones have four
MOST_LAYERS = 256
"""Of one network, all together: SDXL's UNet has 70 transformer blocks behind its 17 residual ones."""


def settle(
    config: Config,
    *,
    model: str,
    defaults: Config,
    supported: Mapping[str, tuple[Any, ...]],
    unused: frozenset[str] = frozenset(),
    strict: bool = True,
) -> dict[str, Any]:
    """Return the values of `defaults`' keys as `config` has them, missing ones as `defaults` has them.

    `supported` lists the only values a key may have; keys in `unused` change nothing at inference. With
    `strict` any other key must be switched off (null or false), so that no feature is left out silently.
    Raises UnreadableCheckpoint naming every value there is no support for.
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
    """Raise UnreadableCheckpoint naming the configuration values in `wrong`, if there are any."""
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
    """Whether a network can be built to this value of this key."""
    if key in defaults and not is_of_size(value):
        return False
    if key in supported:
        each = value if isinstance(value, tuple) else (value,)
        return all(any(one == choice for choice in supported[key]) for one in each)
    return key in defaults or key in unused or not strict or value is None or value is False


def is_of_size(value: object) -> bool:
    """Whether the numbers in a value, however nested, are no larger than a network's can be."""
    if isinstance(value, tuple):
        return all(map(is_of_size, value))
    return not isinstance(value, int | float) or abs(value) <= MOST


def per_block(value: Any, count: int) -> tuple[Any, ...]:
    """Return one value for each of `count` blocks: `value` itself where it is a list, else repeated."""
    return value if isinstance(value, tuple) else (value,) * count


def check_layers(model: str, *, key: str, value: Any) -> None:
    """Raise UnreadableCheckpoint where one of the numbers of layers in `value`, however nested, is too large.

    It is looked at before anything is built: a network of a million layers takes hours to describe.
    """
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, tuple):
            check_layers(model, key=key, value=each)
        elif isinstance(each, int | float) and each > MOST_LAYERS:
            raise UnreadableCheckpoint(
                f"{model} with {key}={quoted(value)} is not supported: {MOST_LAYERS} at most."
            )


def check_lengths(model: str, *, count: int, lists: Config) -> None:
    """Raise UnreadableCheckpoint naming the lists that have not one value for each of the `count` blocks."""
    if count > MOST_BLOCKS:
        raise UnreadableCheckpoint(f"{model} with {count} blocks is not supported: {MOST_BLOCKS} at most.")
    wrong = [
        f"{key}={quoted(value)}" for key, value in lists.items() if len(per_block(value, count)) != count
    ]
    if wrong:
        raise UnreadableCheckpoint(f"{model} has {count} blocks, which does not fit {', '.join(wrong)}.")


def check_divisible(model: str, *, widths: tuple[int, ...], parts: tuple[int, ...], what: str) -> None:
    """Raise UnreadableCheckpoint for a width that its number of groups or heads does not divide."""
    for width, count in zip(widths, parts, strict=True):
        if count < 1 or width % count:
            raise UnreadableCheckpoint(f"{model} cannot split {width} channels into {count} {what}.")


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(each) for each in value) if isinstance(value, list) else value
