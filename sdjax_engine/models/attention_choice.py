"""Which kernel computes an attention: a pure function of the shape and the backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

CUDNN_DTYPES = ("bfloat16", "float16")
CUDNN_WIDTH_STEP = 8
CUDNN_LEAST_QUERIES = 64
FLASH_LEAST_TOKENS = 1024
FLASH_TOKENS_STEP = 128
CPU_SCORES = 2**19
"""Float32 scores that the CPU holds at once: 2 MiB, which fit in the cache of a core."""
ACCELERATOR_SCORES = 2**26
"""Float32 scores that an accelerator holds at once, without a fused kernel: 256 MiB."""


class Kernel(StrEnum):
    """The ways to compute attention; `attention_kernels` has the function of each."""

    CUDNN = "cudnn"
    FLASH = "flash"
    XLA = "xla"
    XLA_IN_PARTS = "xla in parts"
    BY_HEAD = "by head"
    BY_HEAD_IN_PARTS = "by head, in parts"


class Use(StrEnum):
    """Which tokens attend to which tokens; a fused kernel may support only some uses."""

    PICTURES = "pictures"  # pixels to pixels
    PROMPTS = "prompts"  # pixels to a prompt's tokens
    TEXTS = "texts"  # a prompt's tokens to earlier tokens (causal)


@dataclass(frozen=True, kw_only=True)
class AttentionShape:
    """The shape of an attention: `rows` of `queries` to `keys`, in `heads` of this `width` and dtype.

    With `lengths`, each row has its own number of keys. With `causal`, a query sees no later key.
    """

    rows: int
    queries: int
    keys: int
    heads: int
    width: int
    dtype: str
    causal: bool = False
    lengths: bool = False

    @property
    def use(self) -> Use:
        """Which tokens attend to which tokens."""
        if self.causal:
            return Use.TEXTS
        return Use.PROMPTS if self.lengths or self.keys != self.queries else Use.PICTURES

    @property
    def scores(self) -> int:
        """The number of attention scores: one per row, head, query and key."""
        return self.rows * self.heads * self.queries * self.keys


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A platform by JAX's name ("cpu", "gpu", "tpu"), and what its fused kernel supports.

    `widest` is the widest head that the fused kernel takes, for each supported use. `problem` says why a use
    is not supported.
    """

    platform: str
    widest: Mapping[Use, int] = field(default_factory=dict)
    problem: str | None = None

    @property
    def facts(self) -> dict[str, int]:
        """The numbers that the choice of a kernel depends on, for the key of compiled programs."""
        return {use.value: width for use, width in sorted(self.widest.items())}


def choose(shape: AttentionShape, backend: Backend) -> Kernel:
    """Return the fastest kernel that supports this shape with bounded memory."""
    if backend.platform == "cpu":
        in_parts = shape.scores > CPU_SCORES and not shape.causal
        return Kernel.BY_HEAD_IN_PARTS if in_parts else Kernel.BY_HEAD
    if backend.platform == "gpu" and takes_cudnn(shape, backend.widest.get(shape.use, 0)):
        return Kernel.CUDNN
    if backend.platform == "tpu" and takes_flash(shape, backend.widest.get(shape.use, 0)):
        return Kernel.FLASH
    in_parts = shape.scores > ACCELERATOR_SCORES and not shape.causal
    return Kernel.XLA_IN_PARTS if in_parts else Kernel.XLA


def takes_cudnn(shape: AttentionShape, widest_head: int) -> bool:
    """Whether to use cuDNN's fused attention; for few queries it is slower than XLA."""
    fits = shape.width <= widest_head and shape.width % CUDNN_WIDTH_STEP == 0
    return fits and shape.dtype in CUDNN_DTYPES and shape.queries >= CUDNN_LEAST_QUERIES


def takes_flash(shape: AttentionShape, widest_head: int) -> bool:
    """Whether the TPU's kernel supports the shape: long self-attention, in whole blocks."""
    long = min(shape.queries, shape.keys) >= FLASH_LEAST_TOKENS
    whole = shape.queries % FLASH_TOKENS_STEP == 0 and shape.keys % FLASH_TOKENS_STEP == 0
    return long and whole and shape.width <= widest_head and not (shape.causal or shape.lengths)


def describe(backend: Backend, dtype: str) -> str:
    """Return the start-up's log line about attention in networks of this dtype."""
    if backend.platform == "cpu":
        return "attention: XLA, head by head, long ones in parts that fit into the cache"
    if backend.problem is not None and not backend.widest:
        return f"attention: XLA, because {backend.problem}"
    if backend.platform == "gpu" and dtype not in CUDNN_DTYPES:
        return f"attention: XLA, because cuDNN computes in {' and '.join(CUDNN_DTYPES)} and not in {dtype}"
    if backend.platform == "gpu":
        line = f"attention: cuDNN for heads up to {max(backend.widest.values())} wide, XLA for others"
        return line if backend.problem is None else f"{line}; {backend.problem}"
    if backend.platform == "tpu":
        return f"attention: Pallas flash attention from {FLASH_LEAST_TOKENS} tokens on, XLA for others"
    return f"attention: XLA, because no other kernel is known for the platform {backend.platform}"
