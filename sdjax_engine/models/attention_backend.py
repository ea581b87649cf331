"""Which attention kernels work on this process's devices: found once, by trying them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sdjax_engine.models.attention_choice import FLASH_LEAST_TOKENS, Backend, Kernel, Use
from sdjax_engine.models.attention_kernels import KERNELS
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.wording import first_line

Problem = Callable[[Use, int], str | None]
"""Takes a use and the width of a head. Returns why the kernel fails for them, or None if it works."""

CPU = Backend(platform="cpu")
CUDNN_WIDTHS = (256, 128)  # since Hopper; before Hopper
FLASH_WIDTH = 512
TOKENS, PROMPT = 256, 77
LONGEST, LENGTHS = 231, (231, 77)
"""Shapes of the trial: tokens of a picture, of a prompt; keys of several prompts, and their lengths."""
TOLERANCE = 2e-2


@cache
def found_backend() -> Backend:
    """Return JAX's default platform, and the widest head that its fused kernel computes correctly.

    The first call compiles and runs tiny programs if the platform is an accelerator.
    """
    platform = jax.default_backend()
    if platform == "cpu":
        return CPU
    with ThreadPoolExecutor(1) as apart:  # a traced function may be the caller; another thread is not traced
        return apart.submit(try_kernels, platform).result()


def try_kernels(platform: str) -> Backend:
    """Return the platform with the widest head that its fused kernel takes, for each use."""
    match platform:
        case "gpu":
            return tried(platform, "cuDNN", CUDNN_WIDTHS, dict.fromkeys(Use, problem_of_cudnn))
        case "tpu":
            kernel = {Use.PICTURES: problem_of_flash}
            return tried(platform, "Pallas flash attention", (FLASH_WIDTH,), kernel)
    return Backend(platform=platform)


def tried(platform: str, name: str, widths: Sequence[int], problems: Mapping[Use, Problem]) -> Backend:
    """Return the widest head that a kernel takes, for each use; each use is tried on its own."""
    widest: dict[Use, int] = {}
    refused: dict[Use, str] = {}
    for use, problem_with in problems.items():
        for width in widths:
            problem = problem_with(use, width)
            if problem is None:
                widest[use] = width
                refused.pop(use, None)
                break
            refused[use] = problem
    if not refused:
        return Backend(platform=platform, widest=widest)
    which = f" for {', '.join(refused)}" if widest else ""
    said = f"{name} does not work here{which}: {next(iter(refused.values()))}"
    return Backend(platform=platform, widest=widest, problem=said)


def problem_of_cudnn(use: Use, width: int) -> str | None:
    """Return why cuDNN's kernel fails for this use and width of a head, or None if it works."""
    picture, prompt, long = (noise(2, tokens, 2, width) for tokens in (TOKENS, PROMPT, LONGEST))
    match use:
        case Use.PICTURES:
            return problem_of(Kernel.CUDNN, picture, KeyValues(picture, picture))
        case Use.TEXTS:
            return problem_of(Kernel.CUDNN, prompt, KeyValues(prompt, prompt), causal=True)
        case Use.PROMPTS:
            lengths = jnp.asarray(LENGTHS, jnp.int32)
            both = KeyValues(prompt, prompt), KeyValues(long, long, lengths)
            return next(filter(None, (problem_of(Kernel.CUDNN, picture, each) for each in both)), None)


def problem_of_flash(use: Use, width: int) -> str | None:  # noqa: ARG001 - pictures are its only use
    """Return why flash attention fails for this width of a head, or None if it works."""
    picture = noise(1, FLASH_LEAST_TOKENS, 1, width)
    return problem_of(Kernel.FLASH, picture, KeyValues(picture, picture))


def problem_of(kernel: Kernel, queries: Array, keys_values: KeyValues, *, causal: bool = False) -> str | None:
    """Return one line that says why this kernel fails, or None if its result equals XLA's."""

    def compute(kernel: Kernel) -> np.ndarray:
        attend = jax.jit(KERNELS[kernel], static_argnames="causal")
        return np.asarray(attend(queries, keys_values, causal=causal), np.float32)

    try:
        error = float(np.abs(compute(kernel) - compute(Kernel.XLA)).max())
    except Exception as refusal:  # noqa: BLE001 - whatever a kernel dies of, there is another one
        return first_line(refusal)
    return None if error <= TOLERANCE else f"its results are off by {error:.1e}"


def noise(*shape: int) -> Array:
    """Standard noise in bfloat16 from a fixed seed."""
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), jnp.bfloat16)
