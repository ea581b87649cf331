"""A UNet's config.json is read as in the reference; unsupported values are refused by name."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from checkpoints import UNET
from flax import nnx

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.unet import UNet2DConditionModel, settle_unet_config
from sdjax_engine.models.unet_config import down_layers, mid_layers, up_layers

TWO_BLOCKS: dict[str, Any] = {
    "block_out_channels": [32, 64],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "attention_head_dim": [5, 4],
}
NESTED: dict[str, Any] = TWO_BLOCKS | {
    "transformer_layers_per_block": [1, [2, 4]],
    "reverse_transformer_layers_per_block": [[4, 2, 1], 1],
}


def layers_of(config: dict[str, Any]) -> list[tuple[int, ...]]:
    values = settle_unet_config(config)
    down, up = ([each(values, block) for block in range(2)] for each in (down_layers, up_layers))
    return [*down, mid_layers(values), *up]


def test_one_number_of_layers_is_that_of_every_transformer() -> None:
    layers = layers_of(TWO_BLOCKS | {"transformer_layers_per_block": [1, 10]})

    assert layers == [(), (10, 10), (10,), (), (10, 10, 10)]


def test_layers_may_differ_from_transformer_to_transformer() -> None:
    assert layers_of(NESTED) == [(), (2, 4), (2,), (), (4, 2, 1)]


@pytest.mark.parametrize("mid_block_type", [None, "UNetMidBlock2D"])
def test_a_block_in_the_middle_may_have_no_transformer(mid_block_type: str | None) -> None:
    assert layers_of(NESTED | {"mid_block_type": mid_block_type})[2] == ()


def test_heads_are_checked_only_for_blocks_with_attention() -> None:
    values = settle_unet_config(TWO_BLOCKS)

    assert values["num_attention_heads"] == (5, 4)


@pytest.mark.parametrize("config", [TWO_BLOCKS, NESTED], ids=["plain", "nested"])
def test_a_checked_config_is_checked_to_itself(config: dict[str, Any]) -> None:
    values = settle_unet_config(config)

    assert settle_unet_config(values) == values


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"transformer_layers_per_block": [1, [2, 4]]}, "transformer_layers_per_block"),
        ({**NESTED, "reverse_transformer_layers_per_block": [[4, 2], 1]}, "reverse_transformer"),
        ({"transformer_layers_per_block": [1, -1]}, "transformer_layers_per_block"),
        ({"transformer_layers_per_block": [1, 2, 3]}, "transformer_layers_per_block"),
        ({"only_cross_attention": [True, 1]}, "only_cross_attention"),
        ({"attention_head_dim": [5, 7]}, "7 heads"),
        ({"addition_embed_type": "text_time"}, "addition_time_embed_dim=None"),
        ({"addition_embed_type": "text_image"}, "addition_embed_type='text_image'"),
        ({"encoder_hid_dim_type": "text_proj"}, "encoder_hid_dim_type='text_proj'"),
        ({"class_embed_type": "timestep"}, "class_embed_type='timestep'"),
        ({"num_class_embeds": 10}, "num_class_embeds=10"),
        ({"mid_block_type": "UNetMidBlock2DSimpleCrossAttn"}, "UNetMidBlock2DSimpleCrossAttn"),
        ({"dual_cross_attention": True}, "dual_cross_attention=True"),
    ],
)
def test_unsupported_values_are_refused_by_name(overrides: dict[str, Any], named: str) -> None:
    with pytest.raises(UnreadableCheckpoint, match=named):
        settle_unet_config(TWO_BLOCKS | overrides)


@pytest.mark.parametrize(("width", "guidance"), [(24, None), (None, np.ones(1))])
def test_a_network_is_given_the_guidance_if_it_is_trained_on_it_and_only_then(
    width: int | None, guidance: Any
) -> None:
    config = UNET | {"time_cond_proj_dim": width}
    network = nnx.eval_shape(lambda: UNet2DConditionModel(config, dtype="float32"))
    with pytest.raises(ValueError, match="time_cond_proj_dim"):
        network.embed_time(jnp.zeros(1), guidance)
