"""Networks apart from their parameters; parameters are nested dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

from sdjax_engine.guide.painting import channels_first, channels_last
from sdjax_engine.models.attention import GEGLU, Transformer2DModel
from sdjax_engine.models.unet import Residuals
from sdjax_engine.weights import Component
from sdjax_engine.weights.networks import Blueprint, Layout, layout_of, nested


class Settings(dict[str, Any]):
    """A dictionary: `settings.sample_size` is `settings["sample_size"]`."""

    def __getattr__(self, name: str) -> Any:
        """Return the entry of this name; raises AttributeError."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no setting {name!r}") from None


Params = dict[str, Any]
"""Nested dictionaries of arrays; the keys are the parts of the reference's parameter names."""

REMOVED_NORM_EPS = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class UnboundNetwork:
    """A network without parameters. `config` is its checked configuration, whose keys are attributes too."""

    blueprint: Blueprint = field(repr=False)
    config: Settings

    def bind(self, params: Params) -> Any:
        """Return the module with these parameters, for use within one traced function."""
        return nnx.merge(self.blueprint.layout.graphdef, nnx.restore_int_paths(params))


class Output(Settings):
    """What a network returns: entries by name, which are attributes too, and by position."""

    def __getitem__(self, key: Any) -> Any:
        """Return the entry of this name, or the one at this position."""
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the entries in order."""
        return tuple(self.values())


class UnboundUNet(UnboundNetwork):
    """The UNet; `apply` evaluates it as that of the removed class did."""

    def apply(  # noqa: PLR0917 – the removed class's order
        self,
        variables: Params,
        sample: Any,
        timesteps: Any,
        encoder_hidden_states: Any,
        added_cond_kwargs: Mapping[str, Any] | None = None,
        down_block_additional_residuals: Any = None,
        mid_block_additional_residual: Any = None,
        return_dict: bool = True,
        train: bool = False,  # noqa: ARG002 – there is no dropout
    ) -> Any:
        """Return an output with `sample`, (n, c, h, w), of latents (n, c, h, w) and encodings of texts.

        `variables` is `{"params": params["unet"]}`. The residuals are those of a ControlNet, channels last as
        there. Raises ValueError for residuals of the skips without that of the mid block, and the reverse.
        """
        residuals = down_block_additional_residuals, mid_block_additional_residual
        if residuals.count(None) == 1:
            raise ValueError("the residuals of a ControlNet are those of the skips and that of the mid block")
        control = None if residuals[1] is None else Residuals(tuple(residuals[0]), residuals[1])
        unet = self.bind(variables["params"])
        x = channels_last(sample)
        steps = jnp.broadcast_to(jnp.atleast_1d(jnp.asarray(timesteps, jnp.float32)), (len(x),))
        prompt = unet.project(jnp.asarray(encoder_hidden_states))
        m = unet(x, steps, prompt, control=control, **(added_cond_kwargs or {}))
        output = Output(sample=channels_first(m))
        return output if return_dict else output.to_tuple()


class DiagonalGaussian(NamedTuple):
    """The distribution of a picture's latents, channels last: (n, h, w, c)."""

    mean: jax.Array
    logvar: jax.Array

    @property
    def std(self) -> jax.Array:
        """The standard deviation."""
        return jnp.exp(0.5 * self.logvar)

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw latents."""
        return self.mean + self.std * jax.random.normal(key, self.mean.shape)

    def mode(self) -> jax.Array:
        """Return the most probable latents."""
        return self.mean


class UnboundVae(UnboundNetwork):
    """The autoencoder: `vae.apply({"params": params["vae"]}, latents, method=vae.decode)`."""

    def apply(
        self, variables: Params, sample: Any, *, method: Any = None, return_dict: bool = True, **options: Any
    ) -> Any:
        """Return what `encode` or `decode` returns with these parameters; ValueError for another method."""
        if method not in (self.encode, self.decode):
            raise ValueError("`method` must be the network's own `encode` or `decode`")
        output = method(sample, vae=self.bind(variables["params"]), **options)
        return output if return_dict else output.to_tuple()

    def encode(self, sample: Any, deterministic: bool = True, *, vae: Any = None) -> Output:  # noqa: ARG002
        """Return an output with `latent_dist` of pictures (n, 3, height, width) from -1 to 1; for `apply`."""
        return Output(latent_dist=DiagonalGaussian(*_bound(vae).encode(channels_last(sample))))

    def decode(self, latents: Any, deterministic: bool = True, *, vae: Any = None) -> Output:  # noqa: ARG002
        """Return an output with `sample`, (n, 3, height, width), of latents in either order; for `apply`."""
        last = latents.shape[-1] == self.config["latent_channels"]
        return Output(sample=channels_first(_bound(vae).decode(latents if last else channels_last(latents))))


class UnboundTextEncoder(UnboundNetwork):
    """A text encoder: `text_encoder(ids, params=params["text_encoder"])[0]`."""

    def __call__(self, input_ids: Any, params: Params, **_options: Any) -> Output:
        """Return `last_hidden_state` (n, length, width) and `pooler_output` of ids (n, length)."""
        made = self.bind(params)(jnp.asarray(input_ids))
        return Output(last_hidden_state=made.hidden, pooler_output=made.pooled)


def _bound(network: Any) -> Any:
    if network is None:
        raise ValueError("the network has no parameters by itself: call it by `apply`")
    return network


Unbound = TypeVar("Unbound", bound=UnboundNetwork)


def take_apart(component: Component, kind: type[Unbound]) -> tuple[Unbound, Params]:
    """Return a component's network, of this kind, and its parameters in host memory."""
    params = nested(jax.device_get(component.parameters))
    return kind(blueprint=component.blueprint, config=Settings(component.config)), params


class TanhGEGLU(nnx.Module):  # type: ignore[misc]
    """GEGLU with the tanh approximation of GELU."""

    def __init__(self, exact: GEGLU) -> None:
        self.proj = exact.proj

    def __call__(self, x: jax.Array) -> jax.Array:
        """`x` is `(n, tokens, width)`."""
        values, gate = jax.numpy.split(self.proj(x), 2, axis=-1)
        return values * jax.nn.gelu(gate, approximate=True)


def as_removed(unet: Component) -> Component:
    """Return a UNet or a ControlNet as the removed Flax class had it.

    It differs from the reference's torch class in two ways: its transformers approximated GELU by tanh, and
    their first norm had an epsilon of 1e-5 instead of 1e-6. Names and shapes of the parameters are the same.
    """

    def make() -> Layout:
        layout = unet.blueprint.layout
        module = nnx.merge(layout.graphdef, layout.state)
        for _, part in nnx.iter_modules(module):
            if isinstance(part, Transformer2DModel):
                part.norm.eps = REMOVED_NORM_EPS
                for block in part.transformer_blocks:
                    block.ff.net[0] = TanhGEGLU(block.ff.net[0])
        return layout_of(module)

    return replace(unet, blueprint=Blueprint(make))
