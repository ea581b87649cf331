"""ControlNets against the reference's on torch, with every weight random: the reference starts at zero."""

from __future__ import annotations

from typing import Any

import diffusers
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from checkpoints import UNET, UNET_XL, randomise
from networks import Array, Filled, channels_first, noise, relative_difference

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.controlnet import ControlNetModel, ControlNetUnionModel
from sdjax_engine.models.controlnet_config import settle_controlnet_config, settle_controlnet_union_config
from sdjax_engine.models.unet import Residuals, UNet2DConditionModel

pytestmark = pytest.mark.parity

BOUND = 1e-4
STRENGTHS = np.array([0.7, 0.0, 1.3], np.float32)
TIMESTEPS = np.array([981.0, 501.0, 20.5], np.float32)
OF_UNETS_ONLY = ("sample_size", "up_block_types", "out_channels")


def half_of(unet: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The configuration of a ControlNet for this UNet."""
    half = {key: value for key, value in unet.items() if key not in OF_UNETS_ONLY}
    return half | {"in_channels": 4, "conditioning_embedding_out_channels": (8, 16, 12, 24)} | more


UNEVEN = UNET | {
    "block_out_channels": (16, 32, 48),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 2,
}
NETWORKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SD 1": (UNET, {}),
    "SD 2": (UNET | {"use_linear_projection": True, "attention_head_dim": (2, 4)}, {}),
    "three blocks, colours reversed": (UNEVEN, {"controlnet_conditioning_channel_order": "bgr"}),
    "SD 1 inpainting": (UNET | {"in_channels": 9}, {}),
    "SDXL": (UNET_XL, {}),
}


def inputs_of(unet: dict[str, Any]) -> dict[str, Array]:
    """Three rows of everything, with sides that differ."""
    found = {
        "sample": noise(3, 8, 6, unet.get("in_channels", 4)),
        "timesteps": TIMESTEPS,
        "context": noise(3, 9, unet["cross_attention_dim"], seed=1),
        "picture": np.random.default_rng(2).random((3, 64, 48, 3), np.float32),
    }
    if unet.get("addition_embed_type"):
        sizes = np.array([[64, 48, 0, 0, 64, 48]] * 3, np.float32)
        found |= {"text_embeds": noise(3, 40, seed=3), "time_ids": sizes}
    return found


def row(inputs: dict[str, Array], index: int) -> dict[str, torch.Tensor]:
    """One row of the inputs, as the reference takes it."""
    return {
        name: channels_first(array[index : index + 1])
        if array.ndim == 4
        else torch.from_numpy(array[index : index + 1])
        for name, array in inputs.items()
    }


def reference_control(
    net: torch.nn.Module, one: dict[str, torch.Tensor], strength: float, **more: Any
) -> Any:
    picture = [one["picture"]] if more else one["picture"]
    with torch.no_grad():
        return net(
            one["sample"][:, :4],
            one["timesteps"],
            one["context"],
            picture,
            conditioning_scale=strength,
            added_cond_kwargs={name: one[name] for name in ("text_embeds", "time_ids") if name in one},
            **more,
        )


def reference_sample(net: torch.nn.Module, one: dict[str, torch.Tensor], control: Any) -> torch.Tensor:
    residuals = (
        {}
        if control is None
        else {
            "down_block_additional_residuals": control.down_block_res_samples,
            "mid_block_additional_residual": control.mid_block_res_sample,
        }
    )
    with torch.no_grad():
        return net(
            one["sample"],
            one["timesteps"],
            one["context"],
            added_cond_kwargs={name: one[name] for name in ("text_embeds", "time_ids") if name in one},
            **residuals,
        ).sample


def residuals_of(net: Any, inputs: dict[str, Array], types: Array | None = None) -> Residuals:
    """Ours of all rows at once; what depends on the picture alone is computed apart."""
    pictures = (inputs["picture"],) if types is None else (inputs["picture"], types)
    condition = net(*pictures, call=lambda net, *given: net.embed(*given))
    sizes = {name: inputs[name] for name in ("text_embeds", "time_ids") if name in inputs}
    projected = net(inputs["context"], call=lambda net, context: net.project(context))
    made: Residuals = net(inputs["sample"][..., :4], inputs["timesteps"], projected, condition, **sizes)
    return made


@pytest.mark.parametrize(("unet", "own"), NETWORKS.values(), ids=NETWORKS)
def test_rows_of_their_own_strength_and_timestep_are_what_the_reference_makes_of_each_alone(
    unet: dict[str, Any], own: dict[str, Any]
) -> None:
    config = half_of(unet, **own)
    their_net = randomise(diffusers.ControlNetModel(**config), seed=5)
    their_unet = randomise(diffusers.UNet2DConditionModel(**unet), seed=6)
    inputs = inputs_of(unet)
    sizes = {name: inputs[name] for name in ("text_embeds", "time_ids") if name in inputs}
    ours = Filled(UNet2DConditionModel, unet, their_unet)

    control = residuals_of(Filled(ControlNetModel, config, their_net), inputs).scaled(jnp.asarray(STRENGTHS))
    painted = ours(inputs["sample"], TIMESTEPS, inputs["context"], control=control, **sizes)
    plain = ours(inputs["sample"], TIMESTEPS, inputs["context"], **sizes)

    worst = 0.0
    for index, strength in enumerate(STRENGTHS):
        one = row(inputs, index)
        theirs = reference_control(their_net, one, float(strength))
        expected = (*theirs.down_block_res_samples, theirs.mid_block_res_sample)
        for mine, reference in zip((*control.skips, control.middle), expected, strict=True):
            scale = max(float(reference.abs().max()), 1e-3)
            difference = np.abs(np.asarray(mine[index]) - reference[0].numpy().transpose(1, 2, 0)).max()
            assert difference <= BOUND * scale
            worst = max(worst, difference / scale)
        assert (
            relative_difference(painted[index : index + 1], reference_sample(their_unet, one, theirs))
            <= BOUND
        )
    print(f"\nresiduals: {worst:.1e}")
    np.testing.assert_allclose(painted[1], plain[1], rtol=0, atol=1e-6 * float(np.abs(plain).max()))
    assert float(np.abs(np.asarray(painted - plain))[[0, 2]].max()) > 1e-2


def test_a_row_of_strength_0_is_the_same_whatever_its_control_picture_is() -> None:
    config = half_of(UNET)
    net = Filled(ControlNetModel, config, randomise(diffusers.ControlNetModel(**config), seed=5))
    inputs = inputs_of(UNET)
    one = residuals_of(net, inputs).scaled(jnp.asarray(STRENGTHS))
    inputs["picture"][1] = np.inf
    other = residuals_of(net, inputs).scaled(jnp.asarray(STRENGTHS))

    for mine, again in zip((*one.skips, one.middle), (*other.skips, other.middle), strict=True):
        np.testing.assert_array_equal(mine, again)
        assert not np.asarray(mine[1]).any()


def test_what_is_easily_mistaken_exceeds_the_bound() -> None:
    """The picture's colours from -1 to 1, and a strength of the picture instead of the residuals."""
    config = half_of(UNET)
    their_net = randomise(diffusers.ControlNetModel(**config), seed=5)
    inputs, net = inputs_of(UNET), Filled(ControlNetModel, config, their_net)
    expected = reference_control(their_net, row(inputs, 0), 0.7).mid_block_res_sample
    half = jnp.full(3, 0.7)

    right = residuals_of(net, inputs).scaled(half)
    signed = residuals_of(net, inputs | {"picture": 2 * inputs["picture"] - 1}).scaled(half)
    condition = net(inputs["picture"], call=lambda net, picture: net.embed(picture))
    weaker = condition._replace(features=0.7 * condition.features)
    of_picture = net(inputs["sample"], TIMESTEPS, inputs["context"], weaker)

    assert relative_difference(right.middle[:1], expected) <= BOUND
    for wrong in (signed, of_picture):
        assert relative_difference(wrong.middle[:1], expected) > 10 * BOUND


def test_the_union_knows_its_type_as_the_reference_does_for_one_picture() -> None:
    union = {"num_control_type": 6, "num_trans_channel": 32, "num_trans_head": 4, "num_proj_channel": 32}
    config = half_of(UNET_XL, **union)
    theirs = randomise(diffusers.ControlNetUnionModel(**config), seed=8)
    inputs, types = inputs_of(UNET_XL), np.array([0, 3, 5], np.int32)

    ours = residuals_of(Filled(ControlNetUnionModel, config, theirs), inputs, types)

    differ, worst = [], 0.0
    for index, kind in enumerate(types):
        told = torch.zeros(1, 6)
        told[0, kind] = 1
        expected = reference_control(
            theirs, row(inputs, index), 1.0, control_type=told, control_type_idx=[int(kind)]
        )
        pairs = zip(
            (*ours.skips, ours.middle),
            (*expected.down_block_res_samples, expected.mid_block_res_sample),
            strict=True,
        )
        for mine, reference in pairs:
            worst = max(worst, relative_difference(mine[index : index + 1], reference))
        told[0] = torch.roll(told[0], 1)
        wrong = reference_control(
            theirs, row(inputs, index), 1.0, control_type=told, control_type_idx=[int(kind)]
        )
        differ.append(relative_difference(ours.middle[index : index + 1], wrong.mid_block_res_sample))
    print(f"\nunion: {worst:.1e}")
    assert worst <= BOUND < min(differ)


@pytest.mark.parametrize(
    ("settle", "config", "message"),
    [
        (settle_controlnet_config, {"global_pool_conditions": True}, "global_pool_conditions=True"),
        (settle_controlnet_config, {"class_embed_type": "timestep"}, "class_embed_type"),
        (settle_controlnet_config, {"conditioning_channels": 4}, "conditioning_channels=4"),
        (settle_controlnet_config, {"conditioning_embedding_out_channels": []}, "conditioning_embedding_out"),
        (settle_controlnet_config, {"attention_head_dim": 7}, "ControlNetModel cannot split"),
        (settle_controlnet_union_config, {"addition_time_embed_dim": 8, "num_proj_channel": 8}, "num_proj"),
        (
            settle_controlnet_union_config,
            {"addition_time_embed_dim": 8, "num_trans_layer": 999},
            "256 at most",
        ),
    ],
)
def test_a_configuration_that_is_not_supported_is_refused_by_name(
    settle: Any, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnreadableCheckpoint, match=message):
        settle(config)
