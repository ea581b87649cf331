"""What this process's devices can do for attention: found out once, by trying."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sdjax_engine.models.attended import KeyValues
from sdjax_engine.models.attention_choice import FLASH_LEAST_TOKENS, Backend, Kernel
from sdjax_engine.models.attention_kernels import KERNELS
from sdjax_engine.wording import first_line

CPU = Backend(platform="cpu")
CUDNN_WIDTHS = (256, 128)  # from Hopper on; before
FLASH_WIDTH = 512
TOKENS, LONGEST, LENGTHS = 256, 231, (231, 77)
"""A tried picture's tokens; the prompts' keys, and how many of them count."""
TOLERANCE = 2e-2


@cache
def found_backend() -> Backend:
    """Return what JAX computes on by default, and the widest head its fused kernel was seen to work with.

    The first call compiles and runs tiny programs where there is an accelerator.
    """
    platform = jax.default_backend()
    if platform == "cpu":
        return CPU
    with ThreadPoolExecutor(1) as apart:  # the first call may be within a traced function, which this is not
        return apart.submit(try_kernels, platform).result()


def try_kernels(platform: str) -> Backend:
    """Return the platform with the widest head that its fused kernel takes, or with what went wrong."""
    tried = {"gpu": ("cuDNN", CUDNN_WIDTHS), "tpu": ("Pallas flash attention", (FLASH_WIDTH,))}
    name, widths = tried.get(platform, ("", ()))
    problem = None
    for width in widths:
        problem = problem_of_cudnn(width) if platform == "gpu" else problem_of_flash(width)
        if problem is None:
            return Backend(platform=platform, widest_head=width)
    return Backend(platform=platform, problem=problem and f"{name} does not work here: {problem}")


def problem_of_cudnn(width: int) -> str | None:
    """Return what goes wrong with heads of this width, of pictures and of prompts; None: nothing."""
    picture, prompt = noise(2, TOKENS, 2, width), noise(2, LONGEST, 2, width)
    lengths = jnp.asarray(LENGTHS, jnp.int32)
    both = KeyValues(picture, picture), KeyValues(prompt, prompt, lengths)
    return next(filter(None, (problem_of(Kernel.CUDNN, picture, each) for each in both)), None)


def problem_of_flash(width: int) -> str | None:
    """Return what goes wrong with heads of this width; None: nothing."""
    picture = noise(1, FLASH_LEAST_TOKENS, 1, width)
    return problem_of(Kernel.FLASH, picture, KeyValues(picture, picture))


def problem_of(kernel: Kernel, queries: Array, keys_values: KeyValues) -> str | None:
    """Return why this kernel cannot be used, in one line, or None where it computes what XLA computes."""

    def compute(kernel: Kernel) -> np.ndarray:
        attend = jax.jit(KERNELS[kernel], static_argnames="causal")
        return np.asarray(attend(queries, keys_values, causal=False), np.float32)

    try:
        error = float(np.abs(compute(kernel) - compute(Kernel.XLA)).max())
    except Exception as refusal:  # noqa: BLE001 - whatever a kernel dies of, there is another one
        return first_line(refusal)
    return None if error <= TOLERANCE else f"its results are off by {error:.1e}"


def noise(*shape: int) -> Array:
    """Standard noise in bfloat16, always the same."""
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), jnp.bfloat16)
