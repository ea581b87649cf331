"""SD 3.5's denoising network and its T5 encoder against the reference with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import randomise
from diffusers import SD3Transformer2DModel as Reference
from networks import Array, Filled, channels_first, noise, relative_difference
from transformers import T5Config
from transformers import T5EncoderModel as ReferenceT5

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models import joint_attention, sd3, t5
from sdjax_engine.models.sd3 import SD3Transformer2DModel
from sdjax_engine.models.sd3_config import settle_sd3_config, settle_t5_config
from sdjax_engine.models.t5 import T5EncoderModel

pytestmark = pytest.mark.parity

BOUND = 1e-4
MEDIUM: dict[str, Any] = {
    "in_channels": 16,
    "num_layers": 4,
    "attention_head_dim": 12,
    "num_attention_heads": 3,
    "joint_attention_dim": 28,
    "caption_projection_dim": 36,
    "pooled_projection_dim": 24,
    "pos_embed_max_size": 19,
    "dual_attention_layers": (0, 1),
    "qk_norm": "rms_norm",
}
FORMS = {"medium": MEDIUM, "first of its kind": MEDIUM | {"dual_attention_layers": (), "qk_norm": None}}


def inputs(rows: int = 2) -> tuple[Array, Array, Array, Array]:
    """Latents with sides of 5 and 7 patches, noise levels, a prompt's states and its pooled vector."""
    timesteps = np.array([800.0, 100.0], np.float32)
    return noise(rows, 10, 14, 16), timesteps, noise(rows, 50, 28, seed=1), noise(rows, 24, seed=2)


def difference(form: str = "medium") -> float:
    reference = randomise(Reference(**FORMS[form]), seed=41)
    sample, timesteps, states, pooled = inputs()
    with torch.no_grad():
        theirs = reference(
            channels_first(sample), *map(torch.from_numpy, (states, pooled, timesteps)), return_dict=False
        )[0]
    ours = Filled(SD3Transformer2DModel, FORMS[form], reference)(
        sample, timesteps, states, pooled, call=lambda net, x, t, *prompt: net(x, t, net.read(*prompt))
    )
    return relative_difference(ours, theirs)


@pytest.mark.parametrize("form", FORMS)
def test_the_prediction_is_the_references(form: str) -> None:
    assert difference(form) <= BOUND


class Swapped(joint_attention.Modulation):
    """Gives scale and shift in each other's place."""

    def __call__(self, time: Any) -> Any:
        first, second, *others = super().__call__(time)
        return second, first, *others


def test_swapped_scales_and_shifts_exceed_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sd3, "Modulation", Swapped)
    assert difference() > 10 * BOUND


def test_the_middle_of_the_table_of_positions_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_the_corner(self: sd3.PatchEmbed, sample: Any) -> Any:
        x = self.proj(sample)
        table = self.pos_embed[...].reshape(1, self.side, self.side, -1)
        return x + table[:, : x.shape[1], : x.shape[2]]

    monkeypatch.setattr(sd3.PatchEmbed, "__call__", from_the_corner)
    assert difference() > 10 * BOUND


def test_a_picture_larger_than_the_table_is_refused() -> None:
    reference = randomise(Reference(**MEDIUM), seed=41)
    _, timesteps, states, pooled = inputs()
    with pytest.raises(ValueError, match="19 patches"):
        Filled(SD3Transformer2DModel, MEDIUM, reference)(
            noise(2, 40, 14, 16),
            *(timesteps, states, pooled),
            call=lambda net, x, t, *prompt: net(x, t, net.read(*prompt)),
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"patch_size": 4},
        {"qk_norm": "layer_norm"},
        {"caption_projection_dim": 40},
        {"dual_attention_layers": [9]},
        {"num_layers": 10**6},
    ],
)
def test_a_network_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=next(iter(wrong))):
        settle_sd3_config(MEDIUM | wrong)


T5_SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 28,
    "d_kv": 6,
    "d_ff": 37,
    "num_layers": 3,
    "num_heads": 5,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "feed_forward_proj": "gated-gelu",
}


def difference_of_t5() -> float:
    reference = randomise(ReferenceT5(T5Config(**T5_SIZES, dropout_rate=0.0)), seed=44)
    ids = np.random.default_rng(3).integers(0, T5_SIZES["vocab_size"], (2, 256)).astype(np.int32)
    ids[0, 100:] = 0  # padding, which is attended to
    with torch.no_grad():
        theirs = reference(torch.from_numpy(ids).long())[0]
    return relative_difference(Filled(T5EncoderModel, T5_SIZES, reference)(ids), theirs)


def test_the_states_of_t5_are_the_references() -> None:
    assert difference_of_t5() <= BOUND


def test_biases_of_distances_the_other_way_round_exceed_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    right = t5.buckets_of_distances
    monkeypatch.setattr(t5, "buckets_of_distances", lambda *sizes: right(*sizes).T)
    assert difference_of_t5() > 10 * BOUND


@pytest.mark.parametrize(
    "wrong",
    [
        {"feed_forward_proj": "relu"},
        {"num_layers": 10**6},
        {"relative_attention_num_buckets": 7},
        {"d_kv": 0},
    ],
)
def test_a_t5_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=next(iter(wrong))):
        settle_t5_config(T5_SIZES | wrong)
