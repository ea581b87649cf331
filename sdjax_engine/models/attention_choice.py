"""Which kernel computes an attention: a pure function of the shape and the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

Value = TypeVar("Value")

CUDNN_DTYPES = ("bfloat16", "float16")
CUDNN_WIDTH_STEP = 8
CUDNN_LEAST_QUERIES = 64
PALLAS_LEAST_QUERIES = 1024
PALLAS_QUERIES_STEP = 128
FEW_KEYS_BYTES = 2**21
"""Bytes of a row's keys in all heads, at most. Keys and values of two rows take half of a core's memory."""
CPU_SCORES = 2**19
"""Float32 scores that the CPU holds at once: 2 MiB, which fit in the cache of a core."""
ACCELERATOR_SCORES = 2**26
"""Float32 scores that an accelerator holds at once, without a fused kernel: 256 MiB."""


class Kernel(StrEnum):
    """The ways to compute attention; `attention_kernels` has the function of each."""

    CUDNN = "cudnn"
    FLASH = "flash"
    FEW_KEYS = "few keys"
    XLA = "xla"
    XLA_IN_PARTS = "xla in parts"
    BY_HEAD = "by head"
    BY_HEAD_IN_PARTS = "by head, in parts"


class AttentionForm(StrEnum):
    """Which tokens attend to which tokens, and whether keys are masked. A fused kernel may refuse a form."""

    PICTURES = "pictures"  # pixels to pixels
    PROMPTS = "prompts"  # pixels to a prompt's tokens
    PROMPTS_WITH_LENGTHS = "prompts with lengths"  # pixels to as many of a prompt's tokens as the row has
    JOINT_WITH_LENGTHS = "joint with lengths"  # tokens to as many of all tokens as the row has
    TEXTS = "texts"  # a prompt's tokens to earlier tokens (causal)


FUSED_KERNELS: Mapping[str, Mapping[AttentionForm, Kernel]] = {
    "gpu": dict.fromkeys(AttentionForm, Kernel.CUDNN),
    "tpu": {
        AttentionForm.PICTURES: Kernel.FLASH,
        AttentionForm.PROMPTS: Kernel.FEW_KEYS,
        AttentionForm.PROMPTS_WITH_LENGTHS: Kernel.FEW_KEYS,
        AttentionForm.JOINT_WITH_LENGTHS: Kernel.FLASH,
    },
}
"""The fused kernel of each platform for each form."""
LIBRARIES = {"gpu": "cuDNN", "tpu": "Pallas"}


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
    def form(self) -> AttentionForm:
        """Which tokens attend to which tokens, and whether keys are masked."""
        if self.causal:
            return AttentionForm.TEXTS
        alike = self.keys == self.queries
        if self.lengths:
            return AttentionForm.JOINT_WITH_LENGTHS if alike else AttentionForm.PROMPTS_WITH_LENGTHS
        return AttentionForm.PICTURES if alike else AttentionForm.PROMPTS

    @property
    def scores(self) -> int:
        """The number of attention scores: one per row, head, query and key."""
        return self.rows * self.heads * self.queries * self.keys

    @property
    def key_bytes(self) -> int:
        """The bytes of one row's keys."""
        return self.keys * self.heads * self.width * (4 if self.dtype == "float32" else 2)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A platform by JAX's name ("cpu", "gpu", "tpu"), and what its fused kernel supports.

    `widest` is the widest head that the fused kernel takes, for each form that works. `refused` says why each
    other form that was tried does not.
    """

    platform: str
    widest: Mapping[AttentionForm, int] = field(default_factory=dict)
    refused: Mapping[AttentionForm, str] = field(default_factory=dict)

    @property
    def key(self) -> dict[str, int]:
        """The numbers that the choice of a kernel depends on, for the key of compiled programs."""
        return {form.value: width for form, width in sorted(self.widest.items())}


def choose(shape: AttentionShape, backend: Backend) -> Kernel:
    """Return the fastest kernel that supports this shape with bounded memory."""
    if backend.platform == "cpu":
        in_parts = shape.scores > CPU_SCORES and not shape.causal
        return Kernel.BY_HEAD_IN_PARTS if in_parts else Kernel.BY_HEAD
    fused = FUSED_KERNELS.get(backend.platform, {}).get(shape.form)
    widest_head = backend.widest.get(shape.form, 0)
    if fused is not None and shape.width <= widest_head and SUITS[fused](shape):
        return fused
    in_parts = shape.scores > ACCELERATOR_SCORES and not shape.causal
    return Kernel.XLA_IN_PARTS if in_parts else Kernel.XLA


def suits_cudnn(shape: AttentionShape) -> bool:
    """Whether cuDNN's fused attention takes the shape; for few queries it is slower than XLA."""
    takes = shape.width % CUDNN_WIDTH_STEP == 0 and shape.dtype in CUDNN_DTYPES
    return takes and shape.queries >= CUDNN_LEAST_QUERIES


def suits_few_keys(shape: AttentionShape) -> bool:
    """Whether the TPU's kernel for prompts takes the shape: many queries, in whole blocks, and few keys."""
    long = shape.queries >= PALLAS_LEAST_QUERIES and shape.queries % PALLAS_QUERIES_STEP == 0
    return long and shape.key_bytes <= FEW_KEYS_BYTES


def suits_flash(shape: AttentionShape) -> bool:
    """Whether the TPU's kernel for pictures takes the shape: many queries, in whole blocks."""
    return shape.queries >= PALLAS_LEAST_QUERIES and shape.queries % PALLAS_QUERIES_STEP == 0


SUITS: Mapping[Kernel, Callable[[AttentionShape], bool]] = {
    Kernel.CUDNN: suits_cudnn,
    Kernel.FLASH: suits_flash,
    Kernel.FEW_KEYS: suits_few_keys,
}


def attention_line(backend: Backend, dtype: str) -> str:
    """Return the start-up's log line about attention in networks of this dtype."""
    if backend.platform == "cpu":
        return "attention: XLA, head by head, long ones in parts that fit into the cache"
    library = LIBRARIES.get(backend.platform)
    if library is None:
        return f"attention: XLA, because no other kernel is known for the platform {backend.platform}"
    if not backend.widest:
        return f"attention: XLA, because {refused_forms(library, backend)}"
    if backend.platform == "gpu" and dtype not in CUDNN_DTYPES:
        return f"attention: XLA, because cuDNN computes in {' and '.join(CUDNN_DTYPES)} and not in {dtype}"
    least = f" from {PALLAS_LEAST_QUERIES} tokens of a picture on" if backend.platform == "tpu" else ""
    line = f"attention: {library}{least} for heads up to {widths(backend)}, XLA for others"
    return f"{line}; {refused_forms(library, backend)}" if backend.refused else line


def widths(backend: Backend) -> str:
    """Return the widest heads as text: one number, or one for each group of forms."""
    alike = grouped(backend.widest)
    if len(alike) == 1:
        return f"{next(iter(alike))} wide"
    return ", ".join(f"{width} wide ({', '.join(forms)})" for width, forms in alike.items())


def refused_forms(library: str, backend: Backend) -> str:
    """Return which forms do not work, and why, as text; forms with the same reason are grouped."""
    alike = grouped(backend.refused)
    if len(alike) == 1 and not backend.widest:
        return f"{library} does not work here: {next(iter(alike))}"
    clauses = (f"for {', '.join(forms)}: {reason.rstrip('.')}" for reason, forms in alike.items())
    return f"{library} does not work here {'; '.join(clauses)}"


def grouped(of_forms: Mapping[AttentionForm, Value]) -> dict[Value, list[AttentionForm]]:
    """Return the forms of each value, in the order of the mapping."""
    found: dict[Value, list[AttentionForm]] = {}
    for form, value in of_forms.items():
        found.setdefault(value, []).append(form)
    return found
