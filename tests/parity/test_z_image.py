"""Z-Image's denoising network against the reference with the same weights, several captions in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from checkpoints import randomise
from diffusers import ZImageTransformer2DModel as Reference
from networks import Array, Filled, channels_first, noise, relative_difference

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models import rotary, z_image
from sdjax_engine.models.config import settle_z_image_config
from sdjax_engine.models.z_image import Caption, ZImageTransformer2DModel, ZImageTransformerBlock

pytestmark = pytest.mark.parity

BOUND = 1e-4
CAPTIONS = (31, 32, 33, 100)
MOST = 128
TIMES = np.array([0.0, 0.3, 0.8, 0.95], np.float32)
SIZES: dict[str, Any] = {
    "dim": 50,
    "n_layers": 3,
    "n_refiner_layers": 2,
    "n_heads": 5,
    "n_kv_heads": 5,
    "in_channels": 16,
    "cap_feat_dim": 26,
    "axes_dims": (2, 4, 4),
    "axes_lens": (700, 40, 48),
}
WITH_PADDING, WITHOUT = (10, 14), (16, 8)
"""Latents of 35 patches, and of 32."""


@pytest.fixture(scope="module")
def reference() -> torch.nn.Module:
    return randomise(Reference(**SIZES), seed=22)


def texts() -> Array:
    """The states of captions; those beyond a caption's end are large, so that they must not count."""
    states = noise(len(CAPTIONS), MOST, SIZES["cap_feat_dim"], seed=3)
    states[np.arange(MOST) >= np.array(CAPTIONS)[:, None]] = 1e3
    return states


def expected(reference: torch.nn.Module, sample: Array) -> torch.Tensor:
    """The reference's prediction of each picture alone, `(n, channels, h, w)`."""
    pictures, states = channels_first(sample), torch.from_numpy(texts())
    with torch.no_grad():
        return torch.cat(
            [
                reference([picture[:, None]], torch.from_numpy(TIMES[row : row + 1]), [text[:length]])[0][
                    0
                ].transpose(0, 1)
                for row, (picture, text, length) in enumerate(zip(pictures, states, CAPTIONS, strict=True))
            ]
        )


def predict(network: ZImageTransformer2DModel, sample: jax.Array, states: jax.Array) -> jax.Array:
    caption = network.read(states, jnp.asarray(CAPTIONS, jnp.int32))
    return network(sample, jnp.asarray(TIMES), caption)


def difference(reference: torch.nn.Module, size: tuple[int, int], *, dtype: str = "float32") -> float:
    sample = noise(len(CAPTIONS), *size, SIZES["in_channels"])
    ours = Filled(ZImageTransformer2DModel, SIZES, reference, dtype=dtype)(sample, texts(), call=predict)
    return relative_difference(ours, expected(reference, sample))


@pytest.mark.parametrize(
    ("size", "dtype", "bound"),
    [
        (WITH_PADDING, "float32", BOUND),
        (WITHOUT, "float32", BOUND),
        (WITH_PADDING, "bfloat16", 5e-2),
    ],
)
def test_captions_and_times_of_all_kinds_in_one_batch_are_predicted_as_each_alone(
    reference: torch.nn.Module, size: tuple[int, int], dtype: str, bound: float
) -> None:
    assert difference(reference, size, dtype=dtype) <= bound


def without_padding(_: Array, x: jax.Array, __: int) -> jax.Array:
    return x


def of_the_text_alone(
    read: Callable[..., Caption], network: Any, states: jax.Array, lengths: jax.Array
) -> Caption:
    return read(network, states, lengths)._replace(lengths=lengths)


def behind_the_text(
    place: Callable[..., Any], network: Any, grid: Any, lengths: jax.Array, count: int
) -> Any:
    return place(network, grid, lengths - 1, count)


def of_silu(modulations: Callable[..., Any], block: Any, time: jax.Array | None) -> Any:
    return modulations(block, None if time is None else jax.nn.silu(time))


def channels_slowest(patches_of: Callable[..., jax.Array], sample: jax.Array, side: int) -> jax.Array:
    patches = patches_of(sample, side)
    by_pixel = patches.reshape(*patches.shape[:2], -1, sample.shape[-1])
    return by_pixel.swapaxes(2, 3).reshape(patches.shape)


def instead(replacement: Any) -> Callable[..., Any]:
    """A replacement that does not call the replaced function."""
    return lambda _replaced, *given: replacement(*given)


WRONG: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "the padding of a caption is not attended to": (ZImageTransformer2DModel, "read", of_the_text_alone),
    "a picture has no padding": (z_image, "padded_with", instead(without_padding)),
    "a picture lies one place nearer": (ZImageTransformer2DModel, "rotation_of_picture", behind_the_text),
    "blocks are modulated by the SiLU": (ZImageTransformerBlock, "modulations", of_silu),
    "channels are slowest in a patch": (z_image, "patches_of", channels_slowest),
    "halves turn together": (z_image, "turn_neighbours", instead(rotary.turn_halves)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_small_mistake_exceeds_the_bound(
    name: str, reference: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, attribute, wrong = WRONG[name]
    right = getattr(owner, attribute)
    monkeypatch.setattr(owner, attribute, lambda *given: wrong(right, *given))
    assert difference(reference, WITH_PADDING) > 10 * BOUND


def test_a_row_has_the_same_bits_beside_any_rows(reference: torch.nn.Module) -> None:
    ours = Filled(ZImageTransformer2DModel, SIZES, reference)
    sample, others = (noise(len(CAPTIONS), *WITH_PADDING, 16, seed=seed) for seed in (0, 1))
    states, other_states = texts(), texts()[::-1].copy()
    others[2], other_states[2] = sample[2], states[2]
    other_states[2, CAPTIONS[2] :] = -7.0
    ours_of = np.asarray(ours(sample, states, call=predict))
    np.testing.assert_array_equal(np.asarray(ours(others, other_states, call=predict))[2], ours_of[2])


@pytest.mark.parametrize(
    "overrides",
    [
        {"siglip_feat_dim": 1152},
        {"all_patch_size": (4,)},
        {"all_patch_size": (2, 4), "all_f_patch_size": (1, 1)},
        {"all_f_patch_size": (2,)},
        {"n_kv_heads": 1},
        {"qk_norm": False},
        {"axes_dims": (2, 4, 6)},
        {"axes_dims": (5, 5)},
        {"n_layers": 10**9},
        {"dim": 52},
        {"new_feature": True},
    ],
    ids=str,
)
def test_other_networks_are_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint):
        settle_z_image_config(SIZES | overrides)
