"""LoRA files are read strictly: every tensor belongs to a layer, or one sentence names the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.models.lora_bank import LayerPath, LayerShape
from sdjax_engine.weights.lora import read_factors, read_lora

TO_Q = LayerPath(component="unet", path="down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q")
TO_OUT = LayerPath(component="unet", path="down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0")
CONV = LayerPath(component="unet", path="down_blocks.0.resnets.0.conv1")
Q_PROJ = LayerPath(component="text_encoder", path="encoder.layers.0.self_attn.q_proj")
SECOND = LayerPath(component="text_encoder_2", path="text_model.encoder.layers.0.mlp.fc1")
SHAPES = {
    TO_Q: LayerShape(width_in=6, width_out=4),
    TO_OUT: LayerShape(width_in=4, width_out=4),
    CONV: LayerShape(width_in=6, width_out=5, window=(3, 3)),
    Q_PROJ: LayerShape(width_in=3, width_out=3),
    SECOND: LayerShape(width_in=3, width_out=7),
}
ATTN = "down_blocks.0.attentions.0.transformer_blocks.0.attn1"
KOHYA = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"
PEFT = f"unet.{ATTN}.to_q"
Tensors = dict[str, npt.NDArray[Any]]


def ones(*shape: int) -> npt.NDArray[np.float32]:
    return np.ones(shape, np.float32)


def kohya(name: str = KOHYA, *, rank: int = 2, **more: npt.NDArray[Any]) -> Tensors:
    pair = {f"{name}.lora_down.weight": ones(rank, 6), f"{name}.lora_up.weight": ones(4, rank)}
    return pair | {f"{name}.{key}": value for key, value in more.items()}


def saved(folder: Path, tensors: Tensors, *, settings: Mapping[str, Any] | None = None) -> Path:
    notes = None if settings is None else {"lora_adapter_metadata": json.dumps(settings)}
    save_file(tensors, folder / "lora.safetensors", metadata=notes)
    return folder / "lora.safetensors"


@pytest.mark.parametrize(
    ("down", "up", "place"),
    [
        (f"{KOHYA}.lora_down.weight", f"{KOHYA}.lora_up.weight", TO_Q),
        (f"{PEFT}.lora_A.weight", f"{PEFT}.lora_B.weight", TO_Q),
        (f"{PEFT}.lora_A.default.weight", f"{PEFT}.lora_B.default.weight", TO_Q),
        (f"{PEFT}.lora.down.weight", f"{PEFT}.lora.up.weight", TO_Q),
        (f"{ATTN}.processor.to_q_lora.down.weight", f"{ATTN}.processor.to_q_lora.up.weight", TO_Q),
        (f"unet.{ATTN}.processor.to_out_lora.down.weight", f"unet.{ATTN}.to_out_lora.up.weight", TO_OUT),
        (f"base_model.model.{ATTN}.to_q.lora_A.weight", f"{ATTN}.to_q.lora_B.weight", TO_Q),
        (f"{KOHYA[:10]}input_blocks_1_0_in_layers_2.lora_down.weight", "", CONV),
        ("lora_te_text_model_encoder_layers_0_self_attn_q_proj.lora_down.weight", "", Q_PROJ),
        ("lora_te1_text_model_encoder_layers_0_self_attn_q_proj.lora_down.weight", "", Q_PROJ),
        ("lora_te2_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", "", SECOND),
        ("text_encoder.text_model.encoder.layers.0.self_attn.to_q_lora.down.weight", "", Q_PROJ),
        ("text_encoder.encoder.layers.0.self_attn.q_proj.lora_linear_layer.down.weight", "", Q_PROJ),
        ("text_encoder_2.text_model.encoder.layers.0.mlp.fc1.lora_A.weight", "", SECOND),
    ],
)
def test_every_usual_spelling_finds_its_layer(down: str, up: str, place: LayerPath, tmp_path: Path) -> None:
    up = up or down.replace("lora_A", "lora_B").replace("lora_down", "lora_up").replace(".down.", ".up.")
    shape = SHAPES[place]
    window = shape.window and (1, 1)
    tensors = {down: ones(2, shape.width_in, *shape.window), up: ones(shape.width_out, 2, *window)}
    adapter_config(tmp_path)  # for the spelling of peft's own files
    lora = read_lora(saved(tmp_path, tensors), SHAPES)
    assert (list(lora.layers), lora.rank) == ([place], 2)
    with safe_open(lora.file, "np") as opened:
        factors = read_factors(opened, lora.layers[place], shape)
    assert [each.shape for each in factors] == [(2, *shape.window, shape.width_in), (2, shape.width_out)]


def adapter_config(folder: Path, **settings: Any) -> Path:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({"peft_type": "LORA", "r": 4} | settings))
    return file


def scale(folder: Path, tensors: Tensors, settings: Mapping[str, Any] | None = None) -> float:
    [layer] = read_lora(saved(folder, tensors, settings=settings), SHAPES).layers.values()
    return layer.scale


def test_alpha_over_rank_scales_each_layer(tmp_path: Path) -> None:
    assert scale(tmp_path, kohya(alpha=np.array(1.0, np.float16))) == 0.5
    assert scale(tmp_path, kohya(alpha=np.array([8.0], np.float32), rank=4)) == 2.0
    assert scale(tmp_path, kohya(rank=4)) == 1.0
    for kind in (np.int64, np.int32, np.uint8):  # diffusers' own converter writes int64
        assert scale(tmp_path, kohya(alpha=np.array(8, kind), rank=4)) == 2.0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"unet.lora_alpha": 3}, 0.75),
        ({"lora_alpha": 3}, 0.75),
        ({"text_encoder.lora_alpha": 3}, 1.0),
        ({"unet.lora_alpha": 3, "unet.alpha_pattern": {"to_q": 8, "to_v": 1}}, 2.0),
        ({"unet.lora_alpha": 3, "unet.alpha_pattern": {"^to_q": 8, r".*\.attn\d\.to_(k|q)": 1}}, 0.25),
        ({"unet.lora_alpha": 3, "unet.use_rslora": True}, 1.5),
        ({}, 1.0),
    ],
)
def test_pefts_settings_scale_layers_without_alpha(
    settings: Mapping[str, Any], expected: float, tmp_path: Path
) -> None:
    tensors = {f"{PEFT}.lora_A.weight": ones(4, 6), f"{PEFT}.lora_B.weight": ones(4, 4)}
    assert scale(tmp_path, tensors, settings) == expected


def test_the_factors_hold_the_scale_and_are_in_the_banks_layout(tmp_path: Path) -> None:
    name = "lora_unet_down_blocks_0_resnets_0_conv1"
    down = np.arange(2 * 6 * 9, dtype=np.float32).reshape(2, 6, 3, 3)
    up = np.arange(10, dtype=np.float32).reshape(5, 2, 1, 1)
    tensors = {f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up}
    lora = read_lora(saved(tmp_path, tensors | {f"{name}.alpha": ones(1)}), SHAPES)
    with safe_open(lora.file, "np") as opened:
        ours = read_factors(opened, lora.layers[CONV], SHAPES[CONV])
    np.testing.assert_array_equal(ours[0], down.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(ours[1], 0.5 * up[:, :, 0, 0].T)


def test_a_folder_that_diffusers_saved_is_read(tmp_path: Path) -> None:
    saved(tmp_path, kohya()).rename(tmp_path / "pytorch_lora_weights.safetensors")
    assert list(read_lora(tmp_path, SHAPES).layers) == [TO_Q]


PEFT_ALONE = {f"base_model.model.{ATTN}.to_q.lora_{each}.weight": ones(4, 4) for each in "AB"} | {
    f"base_model.model.{ATTN}.to_q.lora_A.weight": ones(4, 6)
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"lora_alpha": 16}, 4.0),
        ({"lora_alpha": 16, "use_rslora": True}, 8.0),
        ({"lora_alpha": 16, "alpha_pattern": {"attn1.to_q": 2}}, 0.5),
        ({}, 2.0),  # peft's own default of alpha is 8
    ],
)
def test_the_scale_of_an_adapter_of_peft_is_in_the_file_beside_it(
    settings: Mapping[str, Any], expected: float, tmp_path: Path
) -> None:
    adapter_config(tmp_path, **settings)
    saved(tmp_path, PEFT_ALONE).rename(tmp_path / "adapter_model.safetensors")
    for path in (tmp_path, tmp_path / "adapter_model.safetensors"):
        [layer] = read_lora(path, SHAPES).layers.values()
        assert layer.scale == expected


def test_an_adapter_of_peft_without_its_scale_or_of_another_method_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, PEFT_ALONE).rename(tmp_path / "adapter_model.safetensors")
    with pytest.raises(UnreadableCheckpoint, match=r"whose scale is in adapter_config\.json: put that file"):
        read_lora(tmp_path, SHAPES)
    adapter_config(tmp_path, peft_type="IA3")
    with pytest.raises(UnreadableCheckpoint, match=r"adapter_config\.json: peft_type is 'IA3', and only"):
        read_lora(tmp_path, SHAPES)


def test_a_folder_without_a_lora_is_refused_with_the_names_that_it_may_have(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"has neither pytorch_lora_weights\..* nor adapter_model"):
        read_lora(tmp_path, SHAPES)


PROMPTS = "down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k"
SD_1 = SHAPES | {
    LayerPath(component="unet", path=PROMPTS.replace("_0_", ".0.").replace("attn2_", "attn2.")): LayerShape(
        width_in=768, width_out=4
    )
}


def pair(name: str, width: int = 6) -> Tensors:
    return {f"{name}.lora_down.weight": ones(2, width), f"{name}.lora_up.weight": ones(4, 2)}


@pytest.mark.parametrize(
    ("tensors", "family"),
    [
        (pair("lora_te2_text_model_encoder_layers_0_mlp_fc1") | pair("lora_te2_more"), "SDXL"),
        (pair("lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k", 2048), "SDXL"),
        (pair("lora_unet_input_blocks_4_1_proj_in"), "SDXL"),
        (pair(f"lora_unet_{PROMPTS}", 1024), "SD 2"),
        (pair("lora_unet_double_blocks_0_img_attn_proj"), "Flux"),
        (pair("lora_unet_joint_blocks_0_x_block_attn_proj"), "Stable Diffusion 3"),
        ({"transformer.transformer_blocks.0.attn.to_q.lora_A.weight": ones(2, 6)}, "a transformer"),
    ],
)
def test_a_lora_of_another_family_is_refused_with_the_families(
    tensors: Tensors, family: str, tmp_path: Path
) -> None:
    shapes = {place: each for place, each in SD_1.items() if place is not SECOND}
    with pytest.raises(UnreadableCheckpoint, match=rf"it was made for {family}.*, and the model is SD 1; "):
        read_lora(saved(tmp_path, tensors), shapes)


def test_a_misfit_of_the_models_own_family_names_no_family(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint) as refused:
        read_lora(saved(tmp_path, kohya("lora_unet_nothing") | pair(f"lora_unet_{PROMPTS}", 768)), SD_1)
    assert "made for" not in str(refused.value)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        (kohya(dora_scale=ones(1, 6)), rf"DoRA is not supported: {KOHYA}\.dora_scale"),
        (kohya() | {f"{PEFT}.lora_magnitude_vector": ones(4)}, "DoRA is not supported"),
        (kohya(hada_w1_a=ones(2, 2)), r"LoHa is not supported: .*hada_w1_a"),
        (kohya(lokr_w1=ones(2, 2)), r"LoKr is not supported: .*lokr_w1"),
        (kohya() | {f"{KOHYA}.on_input": np.array(True)}, r"IA3 is not supported: .*on_input"),
        ({f"base_model.model.{ATTN}.to_q.ia3_l": ones(4, 1)}, "IA3 is not supported"),
        ({f"{KOHYA}.{each}.weight": ones(4, 4) for each in ("a1", "a2")}, r"GLoRA is not supported: .*a1"),
        (kohya() | {f"{KOHYA}.lora_mid.weight": ones(2, 2, 3, 3)}, "core tensor"),
        (kohya("lora_unet_no_such_layer"), r"tensors of no layer of the model: lora_unet_no_such_layer"),
        (
            kohya() | {"bundle_emb.style.string_to_param": ones(1)},
            r"a LoRA with embeddings in its file is not supported: bundle_emb\.style",
        ),
        (kohya() | {f"{PEFT}.lora_A.weight": ones(2, 6)}, r"tensors of one layer twice: unet\."),
        ({f"{KOHYA}.lora_down.weight": ones(2, 6)}, r"layers without one of their two factors: unet\."),
        ({f"{KOHYA}.alpha": ones(1)}, "layers without one of their two factors"),
        (kohya() | {f"{KOHYA}.lora_down.weight": ones(2, 7)}, r"layers of another shape: .*\(2, 7\)"),
        (kohya() | {f"{KOHYA}.lora_up.weight": ones(4, 3)}, r"layers of another shape: .*\(4, 3\)"),
        (kohya() | {f"{KOHYA}.lora_down.weight": ones(2, 6, 3, 3)}, "layers of another shape"),
        (kohya(alpha=ones(2)), rf"alphas that are not one number: {KOHYA}\.alpha"),
        (
            kohya() | {f"{KOHYA}.lora_up.weight": np.ones((4, 2), np.int8)},
            r"not supported: .*\(I8\)",
        ),
        ({}, "as a LoRA: no tensors"),
    ],
)
def test_unfitting_tensors_are_refused_by_name(tensors: Tensors, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=reason) as refused:
        read_lora(saved(tmp_path, tensors), SHAPES)
    assert "\n" not in str(refused.value)


def test_all_faults_are_in_one_error(tmp_path: Path) -> None:
    tensors = kohya("lora_unet_else", dora_scale=ones(1)) | {f"{KOHYA}.alpha": ones(1)}
    with pytest.raises(UnreadableCheckpoint, match=r"DoRA .*; tensors of no layer .*; layers without one"):
        read_lora(saved(tmp_path, tensors), SHAPES)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 and so on", "is a pickle"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{", "is not a whole safetensors file"),
    ],
)
def test_a_file_of_another_kind_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "lora.safetensors").write_bytes(content)
    with pytest.raises(UnreadableCheckpoint, match=reason):
        read_lora(tmp_path / "lora.safetensors", SHAPES)


@pytest.mark.parametrize("start", [b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"])
def test_a_file_whose_length_of_the_header_begins_like_a_pickle_is_read(start: bytes, tmp_path: Path) -> None:
    file, wanted = tmp_path / "lora.safetensors", int.from_bytes(start, "little")
    save_file(dict(kohya()), file, metadata={"note": ""})
    length = int.from_bytes(file.read_bytes()[:8], "little")
    save_file(dict(kohya()), file, metadata={"note": "-" * (wanted - length)})
    assert file.read_bytes().startswith(start)
    assert read_lora(file, SHAPES).layers


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"There is no LoRA file .*nowhere\.safetensors"):
        read_lora(tmp_path / "nowhere.safetensors", SHAPES)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match="has settings of no LoRA"):
        read_lora(saved(tmp_path, kohya(), settings={"unet.lora_alpha": "much"}), SHAPES)


@pytest.mark.parametrize(
    "pattern", ["(.*)*!", "(.|.)" * 30 + "!", ".*" * 30 + "!", "(?x:(.|.) *)!", "[", "a{99999999999}"]
)
def test_regular_expressions_that_could_take_exponential_time_are_refused(
    pattern: str, tmp_path: Path
) -> None:
    tensors = {f"{PEFT}.lora_A.weight": ones(4, 6), f"{PEFT}.lora_B.weight": ones(4, 4)}
    settings = {"unet.lora_alpha": 3, "unet.alpha_pattern": {pattern: 1}}
    with pytest.raises(UnreadableCheckpoint, match=r"settings of no LoRA: .* in alpha_pattern"):
        read_lora(saved(tmp_path, tensors, settings=settings), SHAPES)


def test_values_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    tensors = kohya()
    tensors[f"{KOHYA}.lora_up.weight"][0, 0] = np.nan
    lora = read_lora(saved(tmp_path, tensors), SHAPES)
    with safe_open(lora.file, "np") as opened, pytest.raises(UnreadableCheckpoint, match="not numbers"):
        read_factors(opened, lora.layers[TO_Q], SHAPES[TO_Q])
