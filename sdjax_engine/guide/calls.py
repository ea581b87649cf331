"""What a call asks for: arrays, and what its compiled program depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a compiled program depends on besides the shapes of its arrays.

    `guided` is False where the guidance is exactly 1: the unconditional half then has no weight.
    """

    height: int
    width: int
    guided: bool
    latents_only: bool = False
    checked: bool = False


class Inputs(NamedTuple):
    """One device's arrays of a call; what a pipeline has no use for is None.

    Pictures and latents are channels first, as the removed classes had them.
    """

    prompt_ids: Any  # (n, length) int32, or (n, encoders, length)
    neg_prompt_ids: Any  # the same
    key: Any
    guidance_scale: Any  # (n,) float32
    noise: Any = None  # (n, c, h, w), standard
    image: Any = None  # (n, 3, height, width) from -1 to 1
    mask: Any = None  # (n, 1, height, width), 1 where to paint


def guidance_of(guidance_scale: Any, lead: tuple[int, ...]) -> jax.Array:
    """Return the guidance of each row, float32 of shape `lead`: (n,), or (devices, n).

    It may be given as one number, or with the axes of `lead` from the first on.
    """
    scale = jnp.asarray(guidance_scale, jnp.float32)
    trailing = (1,) * max(0, len(lead) - scale.ndim) if scale.ndim else ()
    return jnp.broadcast_to(scale.reshape(*scale.shape, *trailing), lead)


def is_guided(guidance_scale: Any) -> bool:
    """Whether the unconditional half has any weight, as far as is known before the program runs."""
    return isinstance(guidance_scale, jax.core.Tracer) or bool(np.any(np.asarray(guidance_scale) != 1))
