"""Which attention kernels work on this process's devices: found once, by trying them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sdjax_engine.models.attention_choice import (
    FUSED_KERNELS,
    PALLAS_LEAST_QUERIES,
    AttentionForm,
    Backend,
    Kernel,
)
from sdjax_engine.models.attention_kernels import KERNELS
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.wording import first_line

CPU = Backend(platform="cpu")
WIDTHS = {"gpu": (256, 160, 128), "tpu": (512, 128)}
"""Widest heads to try, the widest first: on GPUs Hopper's, SD 1.5's, and that of GPUs before Hopper."""
NARROW = {"tpu": (40, 80, 160)}
"""Narrower heads that must work too: on TPUs SD 1.5's, which do not fill the lanes."""
TOKENS = {"gpu": 256, "tpu": PALLAS_LEAST_QUERIES}
PROMPT, LONGEST, LENGTHS = 77, 231, (231, 77)
"""Tokens in trials: of a picture, a prompt, a prompt of three chunks; how many of these count in each row."""
TOLERANCE = 2e-2


class Trial(NamedTuple):
    """The smallest attention that shows whether a kernel works for a form and a width of heads."""

    queries: Array
    keys_values: KeyValues
    causal: bool = False


ProblemWith = Callable[[Kernel, Trial], str | None]
"""Takes a kernel and a trial. Returns why the kernel fails, or None if it works."""


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
    """Return the platform with the widest head that its fused kernels take, for each form."""
    return tried(platform, kernel_problem)


def tried(platform: str, problem_with: ProblemWith) -> Backend:
    """Return the platform with the results of `problem_with`, which tries the kernel of each form."""
    fused = FUSED_KERNELS.get(platform, {})
    with ThreadPoolExecutor(max(len(fused), 1)) as pool:  # compiling takes seconds
        found = pool.map(lambda form: widest_head(platform, form, problem_with), fused)
        of_forms = dict(zip(fused, found, strict=True))
    return Backend(
        platform=platform,
        widest={form: width for form, width in of_forms.items() if isinstance(width, int)},
        refused={form: problem for form, problem in of_forms.items() if isinstance(problem, str)},
    )


def widest_head(platform: str, form: AttentionForm, problem_with: ProblemWith) -> int | str:
    """Return the widest head that a form's kernel takes, or why it takes none."""
    kernel = FUSED_KERNELS[platform][form]
    problems = []
    for width in WIDTHS[platform]:
        narrow = [each for each in NARROW.get(platform, ()) if each < width]
        trials = (trial(platform, form, each) for each in (width, *narrow))
        problem = next(filter(None, (problem_with(kernel, each) for each in trials)), None)
        if problem is None:
            return width
        problems.append(problem)
    return problems[-1]


def trial(platform: str, form: AttentionForm, width: int) -> Trial:
    """Return noise in the shapes of a form, with enough queries for the platform's fused kernel."""
    picture, prompt, long = (noise(2, length, 4, width) for length in (TOKENS[platform], PROMPT, LONGEST))
    match form:
        case AttentionForm.PICTURES:
            return Trial(picture, KeyValues(picture, picture))
        case AttentionForm.PROMPTS:
            return Trial(picture, KeyValues(prompt, prompt))
        case AttentionForm.PROMPTS_WITH_LENGTHS:
            return Trial(picture, KeyValues(long, long, jnp.asarray(LENGTHS, jnp.int32)))
        case AttentionForm.TEXTS:
            return Trial(prompt, KeyValues(prompt, prompt), causal=True)


def kernel_problem(kernel: Kernel, inputs: Trial) -> str | None:
    """Return one line that says why this kernel fails, or None if its result equals XLA's."""

    def compute(kernel: Kernel) -> np.ndarray:
        attend = jax.jit(KERNELS[kernel], static_argnames="causal")
        return np.asarray(attend(inputs.queries, inputs.keys_values, causal=inputs.causal), np.float32)

    try:
        error = float(np.abs(compute(kernel) - compute(Kernel.XLA)).max())
    except Exception as refusal:  # noqa: BLE001 - whatever a kernel dies of, there is another one
        return first_line(refusal)
    return None if error <= TOLERANCE else f"its results are off by {error:.1e}"


def noise(*shape: int) -> Array:
    """Standard noise in bfloat16 from a fixed seed."""
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), jnp.bfloat16)
