"""The inputs of a call: its arrays, and the form of its compiled program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, kw_only=True)
class CallForm:
    """The static part of a compiled program, besides the shapes of its arrays.

    `guided` is False if the guidance is exactly 1: the unconditional half then has no weight.
    """

    height: int
    width: int
    guided: bool
    latents_only: bool = False
    checked: bool = False


class Inputs(NamedTuple):
    """The arrays of a call on one device; an array that the pipeline does not use is None.

    Pictures and latents are channels first, as in the removed classes.
    """

    prompt_ids: Any  # (n, length) int32, or (n, encoders, length)
    neg_prompt_ids: Any  # the same
    key: Any
    guidance_scale: Any  # (n,) float32
    noise: Any = None  # (n, c, h, w), standard normal
    image: Any = None  # (n, 3, height, width) from -1 to 1
    mask: Any = None  # (n, 1, height, width), 1 where to paint


def guidance_of(guidance_scale: Any, lead: tuple[int, ...]) -> jax.Array:
    """Return the guidance of each row, float32 of shape `lead`: (n,), or (devices, n).

    `guidance_scale` may be one number, or an array whose axes are the first axes of `lead`.
    """
    scale = jnp.asarray(guidance_scale, jnp.float32)
    trailing = (1,) * max(0, len(lead) - scale.ndim) if scale.ndim else ()
    return jnp.broadcast_to(scale.reshape(*scale.shape, *trailing), lead)


def is_guided(guidance_scale: Any) -> bool:
    """Whether the unconditional half has any weight. A traced guidance counts as guided."""
    return isinstance(guidance_scale, jax.core.Tracer) or bool(np.any(np.asarray(guidance_scale) != 1))
