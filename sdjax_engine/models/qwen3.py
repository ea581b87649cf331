"""The language model Qwen3 (Yang et al. 2025, arXiv 2505.09388) as a text encoder: `Qwen3Model`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike

from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import (
    SIDE_BY_SIDE,
    Config,
    settle_qwen3_config,
    settle_qwen3_states_config,
)
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.layers import RMSNorm, Shared, embedding, linear
from sdjax_engine.models.rotary import Rotation, frequencies, rotation_of_halves, turn_halves


class Qwen3Model(nnx.Module):
    """Encodes token ids by the first `depth` layers. It has no final norm and no head."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        values = settle_qwen3_config(config)
        shared = Shared(dtype=dtype)
        self.embed_tokens = embedding(values["vocab_size"], values["hidden_size"], shared)
        self.layers = nnx.List(Qwen3DecoderLayer(values, shared) for _ in range(values["depth"]))
        self.of_a_head = values["head_dim"]
        self.theta = values["rope_theta"]

    def __call__(self, input_ids: Array) -> Array:
        """Return the states after the last layer, (n, length, width), of `input_ids` (n, length) int32.

        A state depends on its own and on earlier tokens only, so that padding behind a text changes nothing.
        The reference masks padding too, which changes the states of padding alone.
        """
        return self.states(input_ids, (len(self.layers),))[0]

    def states(
        self, input_ids: Array, after: Sequence[int], *, lengths: Array | None = None
    ) -> tuple[Array, ...]:
        """Return the states after these numbers of layers, (n, length, width) each.

        With `lengths` (n,) no token attends to padding, so that the states of padding are the reference's
        too.
        """
        x = self.embed_tokens(input_ids)
        positions = jnp.arange(input_ids.shape[-1], dtype=jnp.float32)
        rotation = rotation_of_halves(positions[None, :, None] * frequencies(self.of_a_head, self.theta))
        found = {0: x}
        for number, layer in enumerate(self.layers, start=1):
            found[number] = x = layer(x, rotation, lengths)
        return tuple(found[number] for number in after)


class Qwen3States(Qwen3Model):
    """Encodes token ids by the states after several layers, side by side, as FLUX.2 klein reads them."""

    def __init__(self, config: Config, *, dtype: DTypeLike) -> None:
        super().__init__(settle_qwen3_states_config(config), dtype=dtype)

    def __call__(self, input_ids: Array, lengths: Array) -> Array:  # type: ignore[override]
        """Return the states (n, length, 3 · width), those of padding behind `lengths` (n,) included."""
        return jnp.concatenate(self.states(input_ids, SIDE_BY_SIDE, lengths=lengths), axis=-1)


class Qwen3DecoderLayer(nnx.Module):
    """Self-attention and a gated perceptron, each behind a norm and with a residual."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, eps = values["hidden_size"], values["rms_norm_eps"]
        self.input_layernorm = RMSNorm(width, shared, eps=eps)
        self.self_attn = Qwen3Attention(values, shared)
        self.post_attention_layernorm = RMSNorm(width, shared, eps=eps)
        self.mlp = Qwen3MLP(width, values["intermediate_size"], shared)

    def __call__(self, x: Array, rotation: Rotation, lengths: Array | None) -> Array:
        x = x + self.self_attn(self.input_layernorm(x), rotation, lengths)
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen3Attention(nnx.Module):
    """Causal self-attention; several heads of queries share one head of keys and values."""

    def __init__(self, values: Config, shared: Shared) -> None:
        width, of_a_head = values["hidden_size"], values["head_dim"]
        heads, few = values["num_attention_heads"], values["num_key_value_heads"]
        self.of_a_head = of_a_head
        self.sharing = heads // few
        self.q_proj = linear(width, heads * of_a_head, shared, bias=False)
        self.k_proj = linear(width, few * of_a_head, shared, bias=False)
        self.v_proj = linear(width, few * of_a_head, shared, bias=False)
        self.o_proj = linear(heads * of_a_head, width, shared, bias=False)
        self.q_norm = RMSNorm(of_a_head, shared, eps=values["rms_norm_eps"])
        self.k_norm = RMSNorm(of_a_head, shared, eps=values["rms_norm_eps"])

    def __call__(self, x: Array, rotation: Rotation, lengths: Array | None) -> Array:
        queries, keys, values = map(self.split, (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        queries = turn_halves(self.q_norm(queries), rotation)
        keys = turn_halves(self.k_norm(keys), rotation)
        keys, values = (jnp.repeat(each, self.sharing, axis=2) for each in (keys, values))
        for_all = KeyValues(keys, values, lengths)
        return self.o_proj(attend(queries, for_all, causal=True).reshape(*x.shape[:-1], -1))

    def split(self, x: Array) -> Array:
        return x.reshape(*x.shape[:-1], -1, self.of_a_head)


class Qwen3MLP(nnx.Module):
    """A linear map times the SiLU of a second, and a third that makes the result narrow again."""

    def __init__(self, width: int, inner: int, shared: Shared) -> None:
        self.gate_proj = linear(width, inner, shared, bias=False)
        self.up_proj = linear(width, inner, shared, bias=False)
        self.down_proj = linear(inner, width, shared, bias=False)

    def __call__(self, x: Array) -> Array:
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))
