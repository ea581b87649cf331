"""The transformer of CLIP's text and picture encoders."""

from __future__ import annotations

from flax import nnx
from jax import Array

from sdjax_engine.models.activations import Activation, activation
from sdjax_engine.models.attention import attend
from sdjax_engine.models.config import Config
from sdjax_engine.models.cross_attention_inputs import KeyValues
from sdjax_engine.models.layers import LayerNorm, Shared, linear


class CLIPEncoder(nnx.Module):
    """The stack of transformer layers."""

    def __init__(self, values: Config, shared: Shared, *, causal: bool) -> None:
        self.layers = nnx.List(
            CLIPEncoderLayer(values, shared, causal=causal) for _ in range(values["num_hidden_layers"])
        )

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return the input and the output of the last layer, each in the shape of `x`."""
        before = x
        for layer in self.layers:
            before, x = x, layer(x)
        return before, x


class CLIPEncoderLayer(nnx.Module):
    """Self-attention and a two-layer perceptron, each with a residual."""

    def __init__(self, values: Config, shared: Shared, *, causal: bool) -> None:
        width, eps = values["hidden_size"], values["layer_norm_eps"]
        self.layer_norm1 = LayerNorm(width, shared, eps=eps)
        self.self_attn = CLIPAttention(width, shared, heads=values["num_attention_heads"], causal=causal)
        self.layer_norm2 = LayerNorm(width, shared, eps=eps)
        act = activation(values["hidden_act"], model="CLIP")
        self.mlp = CLIPMLP(width, values["intermediate_size"], act, shared)

    def __call__(self, x: Array) -> Array:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class CLIPAttention(nnx.Module):
    """Self-attention; if causal, a token attends to itself and to earlier tokens."""

    def __init__(self, width: int, shared: Shared, *, heads: int, causal: bool) -> None:
        self.heads = heads
        self.causal = causal
        self.q_proj = linear(width, width, shared)
        self.k_proj = linear(width, width, shared)
        self.v_proj = linear(width, width, shared)
        self.out_proj = linear(width, width, shared)

    def __call__(self, x: Array) -> Array:
        by_head = (*x.shape[:-1], self.heads, -1)
        queries, keys, values = (proj(x).reshape(by_head) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(attend(queries, KeyValues(keys, values), causal=self.causal).reshape(x.shape))


class CLIPMLP(nnx.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, width: int, inner: int, act: Activation, shared: Shared) -> None:
        self.fc1 = linear(width, inner, shared)
        self.fc2 = linear(inner, width, shared)
        self.act = act

    def __call__(self, x: Array) -> Array:
        return self.fc2(self.act(self.fc1(x)))
