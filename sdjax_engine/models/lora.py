"""LoRA on the devices (Hu et al. 2021): a bank of rows for each layer; every seat gathers its own rows.

A LoRA of rank r adds up · down · x to a layer: down has r rows of the input's width, up has r rows of the
output's width. A bank concatenates the rows of many LoRAs; row 0 is all zeros. Which rows apply to a picture
is data, two short arrays per seat, so that pictures with different LoRAs share a batch and a program.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import jax.numpy as jnp
from flax import nnx
from jax import Array

from sdjax_engine.models.layers import Conv, Linear
from sdjax_engine.models.lora_bank import Bank, Factors

Module = TypeVar("Module", bound=nnx.Module)


def layers_of(network: nnx.Module) -> dict[str, Linear | Conv]:
    """Return every layer that an adapter can be set on, by its path with dots."""
    return {
        ".".join(map(str, path)): module
        for path, module in nnx.iter_modules(network)
        if isinstance(module, Linear | Conv)
    }


def attach(network: Module, bank: Bank, rows: Array, scales: Array) -> Module:
    """Set the LoRAs in `rows` (seats, rank) int32, with strengths `scales` (seats, rank), on `network`.

    The network's batch may have several consecutive rows for each seat. Call it on a module that was made
    inside the traced function. Returns `network`.
    """
    layers = layers_of(network)
    for path, factors in bank.items():
        layer = layers[path]
        adapt = partial(adapt_conv, layer) if isinstance(layer, Conv) else adapt_linear
        layer.adapter = partial(adapt, factors, rows, scales)
    return network


def adapt_linear(factors: Factors, rows: Array, scales: Array, x: Array) -> Array:
    """Return the LoRAs' addition to a linear map of `x` (n, ..., width_in): `(n, ..., width_out)`."""
    down, up = gather(factors, rows)
    tokens = x.astype(down.dtype).reshape(rows.shape[0], -1, x.shape[-1])
    inner = jnp.einsum("sti,sri->str", tokens, down, preferred_element_type=jnp.float32)
    return widen(inner, up, scales).reshape(*x.shape[:-1], up.shape[-1])


def adapt_conv(layer: Conv, factors: Factors, rows: Array, scales: Array, x: Array) -> Array:
    """Return the LoRAs' addition to the convolution `layer` of `x` (n, h, w, width_in).

    One matrix product gives each pixel's contribution through each place of the window. The contributions are
    then shifted and summed. A convolution with its own kernel for each row of a batch is slow on all
    platforms.
    """
    down, up = gather(factors, rows)
    seats, rank = rows.shape
    n, height, width, _ = x.shape
    pixels = x.astype(down.dtype).reshape(seats, -1, x.shape[-1])
    places = jnp.einsum("spi,srhwi->sphwr", pixels, down, preferred_element_type=jnp.float32)
    inner = sum_window(places.reshape(n, height, width, *layer.kernel_size, rank), layer)
    outer = widen(inner.reshape(seats, -1, rank), up, scales)
    return outer.reshape(*inner.shape[:-1], up.shape[-1])


def gather(factors: Factors, rows: Array) -> Factors:
    """Return each seat's own rows: `down` (seats, rank, *window, width_in), `up` (seats, rank, width_out)."""
    return Factors(*(each.at[rows].get(mode="promise_in_bounds") for each in factors))


def widen(inner: Array, up: Array, scales: Array) -> Array:
    """Return `(seats, tokens, width_out)` of `inner` (seats, tokens, rank) float32."""
    return jnp.einsum("str,sro->sto", (inner * scales[:, None, :]).astype(up.dtype), up)


def sum_window(places: Array, layer: Conv) -> Array:
    """Sum `places` (n, h, w, *window, rank) over the window, with the strides and padding of `layer`."""
    (above, below), (left, right) = sides_of(layer)
    places = jnp.pad(places, ((0, 0), (above, below), (left, right), (0, 0), (0, 0), (0, 0)))
    high, wide = places.shape[3:5]
    stride_y, stride_x = both_axes(layer.strides)
    end_y, end_x = places.shape[1] - high + 1, places.shape[2] - wide + 1
    taps = [
        places[:, y : y + end_y : stride_y, x : x + end_x : stride_x, y, x]
        for y in range(high)
        for x in range(wide)
    ]
    return sum(taps[1:], taps[0])


def sides_of(layer: Conv) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the pixels of padding (above, below), (left, right)."""
    padding = layer.padding
    if isinstance(padding, int):
        return (padding, padding), (padding, padding)
    (above, below), (left, right) = padding
    return (above, below), (left, right)


def both_axes(value: int | tuple[int, int]) -> tuple[int, int]:
    """Return `value` as a pair, one number for each axis."""
    return (value, value) if isinstance(value, int) else value
