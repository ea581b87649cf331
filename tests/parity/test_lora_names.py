"""The names in LoRA files for a whole SDXL, against the reference's own reading of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from diffusers.loaders.lora_conversion_utils import _convert_unet_lora_key, _maybe_map_sgm_blocks_to_diffusers
from diffusers.utils.state_dict_utils import convert_unet_state_dict_to_peft

from sdjax_engine.models.lora_bank import LayerPath
from sdjax_engine.weights.lora_names import Role, original_names, spellings, split_key

pytestmark = pytest.mark.parity

BLOCK = ("attn1.to_q", "attn1.to_out.0", "attn2.to_k", "ff.net.0.proj", "ff.net.2")
RESNET = ("conv1", "conv2", "time_emb_proj")
DEPTHS = {"down": (0, 2, 10), "up": (10, 2, 0)}


def transformer(depth: int) -> list[str]:
    inner = [f"transformer_blocks.{block}.{name}" for block in range(depth) for name in BLOCK]
    return ["proj_in", "proj_out", *inner] if depth else []


def sdxl_layers() -> list[str]:
    """The paths of every kind of layer of SDXL's UNet."""
    paths = ["conv_in", "conv_out", "time_embedding.linear_1", "time_embedding.linear_2"]
    paths += ["add_embedding.linear_1", "add_embedding.linear_2"]
    for way, layers in (("down", 2), ("up", 3)):
        for block, depth in enumerate(DEPTHS[way]):
            for layer in range(layers):
                inside = {"resnets": (*RESNET, "conv_shortcut"), "attentions": transformer(depth)}
                paths += [
                    f"{way}_blocks.{block}.{part}.{layer}.{name}"
                    for part, names in inside.items()
                    for name in names
                ]
            if block < 2:
                paths.append(f"{way}_blocks.{block}.{way}samplers.0.conv")
    paths += [f"mid_block.resnets.{index}.{name}" for index in range(2) for name in RESNET]
    return [*paths, *(f"mid_block.attentions.0.{name}" for name in transformer(10))]


def reference_path(key: str) -> str:
    """The path of the layer that the reference takes a key of kohya's scripts for."""
    config = SimpleNamespace(layers_per_block=2)
    [mapped] = _maybe_map_sgm_blocks_to_diffusers({key: 0}, config)
    [path] = convert_unet_state_dict_to_peft({_convert_unet_lora_key(mapped): 0})
    return str(path).removesuffix(".lora_A.weight")


@pytest.mark.parametrize("original", [True, False])
def test_every_layer_of_sdxl_is_found_by_kohyas_names(original: bool) -> None:
    paths = sdxl_layers()
    known = spellings(LayerPath(component="unet", path=path) for path in paths)
    names = original_names(paths) if original else dict(zip(paths, paths, strict=True))
    assert names.keys() == set(paths)
    for path, name in names.items():
        key = f"lora_unet_{name.replace('.', '_')}.lora_down.weight"
        written, role = split_key(key) or ("", None)
        assert (known[written].path, role) == (path, Role.DOWN)
        if original or not path.startswith("add_embedding"):  # which the reference knows as label_emb only
            assert reference_path(key) == path


def test_names_of_common_files_are_understood() -> None:
    known = spellings(LayerPath(component="unet", path=path) for path in sdxl_layers())
    expected = {
        "lora_unet_input_blocks_4_1_transformer_blocks_1_attn2_to_k": (
            "down_blocks.1.attentions.0.transformer_blocks.1.attn2.to_k"
        ),
        "lora_unet_input_blocks_3_0_op": "down_blocks.0.downsamplers.0.conv",
        "lora_unet_middle_block_1_transformer_blocks_9_ff_net_0_proj": (
            "mid_block.attentions.0.transformer_blocks.9.ff.net.0.proj"
        ),
        "lora_unet_output_blocks_2_2_conv": "up_blocks.0.upsamplers.0.conv",
        "lora_unet_output_blocks_8_0_skip_connection": "up_blocks.2.resnets.2.conv_shortcut",
        "lora_unet_label_emb_0_0": "add_embedding.linear_1",
    }
    assert {name: known[name].path for name in expected} == expected
