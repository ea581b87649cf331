"""A checkpoint in one file of the original layout equals its folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import diffusers
import huggingface_hub
import jax
import numpy as np
import pytest
import torch
from checkpoint_files import original_form, write_original
from checkpoints import make_tiny_checkpoint
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as torch_load
from safetensors.torch import save_file as torch_save

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.request import Sampler
from sdjax_engine.samplers import plan
from sdjax_engine.samplers.tables import Column
from sdjax_engine.weights import Checkpoint, Component, describe, load_checkpoint

FAMILIES = ("SD 1", "SD 1 inpainting", "SD 2", "SDXL", "SDXL inpainting")
UNTOLD = {"sample_size", "projection_dim", "attention_head_dim"}  # sizes of training, and of what is not used


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("folders")
    return {family: make_tiny_checkpoint(root / family, **original_form(family)) for family in FAMILIES}


@pytest.fixture(scope="module")
def loaded(folders: dict[str, Path]) -> dict[str, Checkpoint]:
    return {family: load_checkpoint(str(folder)) for family, folder in folders.items()}


def single_file(folder: Path, room: Path, **options: Any) -> Path:
    shutil.copytree(folder / "tokenizer", room / "tokenizer", dirs_exist_ok=True)
    return write_original(folder, room / "model.safetensors", **options)


def components(checkpoint: Checkpoint) -> list[Component]:
    return [checkpoint.components[name] for name in sorted(checkpoint.components)]


def leaves(component: Component) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(component.parameters)]


def told(component: Component) -> dict[str, Any]:
    return {key: value for key, value in component.config.items() if key not in UNTOLD}


@pytest.mark.parametrize("family", FAMILIES)
def test_networks_of_a_single_file_are_those_of_its_folder(
    family: str, folders: dict[str, Path], loaded: dict[str, Checkpoint], tmp_path: Path
) -> None:
    expected = loaded[family]

    ours = load_checkpoint(str(single_file(folders[family], tmp_path)))

    assert ours.pipeline == expected.pipeline
    for one, other in zip(components(ours), components(expected), strict=True):
        assert told(one) == told(other)
        assert all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def test_transformers_of_uneven_depth_are_found(tmp_path: Path) -> None:
    form = original_form("SDXL")
    uneven = {
        "layers_per_block": 2,
        "transformer_layers_per_block": (1, (1, 2)),
        "reverse_transformer_layers_per_block": ((2, 1, 3), 1),
    }
    folder = make_tiny_checkpoint(tmp_path / "folder", **form | {"unet": form["unet"] | uneven})

    ours = load_checkpoint(str(single_file(folder, tmp_path))).components["unet"]
    expected = load_checkpoint(str(folder)).components["unet"]

    assert all(np.array_equal(a, b) for a, b in zip(leaves(ours), leaves(expected), strict=True))


def test_text_encoder_is_read_with_the_names_of_early_files(
    folders: dict[str, Path], loaded: dict[str, Checkpoint], tmp_path: Path
) -> None:
    file = single_file(folders["SD 1"], tmp_path)
    prefix = "cond_stage_model.transformer."
    early = {name.replace(f"{prefix}text_model.", prefix): x for name, x in load_file(file).items()}
    save_file(early | {f"{prefix}embeddings.position_ids": np.arange(77)[None]}, file)

    ours = load_checkpoint(str(file)).components["text_encoder"]

    assert prefix + "final_layer_norm.weight" in early
    expected = loaded["SD 1"].components["text_encoder"]
    assert all(np.array_equal(a, b) for a, b in zip(leaves(ours), leaves(expected), strict=True))


@pytest.mark.parity
@pytest.mark.parametrize("family", FAMILIES)
def test_reference_reads_the_same_networks_from_the_file(
    family: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = folders[family]
    file = single_file(folder, tmp_path, whole_encoder=False)
    kind = getattr(diffusers, json.loads((folder / "model_index.json").read_text())["_class_name"])

    reference = kind.from_single_file(str(file), config=str(folder), local_files_only=True)

    for name in ("unet", "vae", "text_encoder", "text_encoder_2"):
        if (folder / name).is_dir():
            (stored,) = (folder / name).glob("*.safetensors")
            read = getattr(reference, name).state_dict()
            assert all(torch.equal(read[key], torch.from_numpy(x)) for key, x in load_file(stored).items())


CLIP_L, CLIP_G = "conditioner.embedders.0.", "conditioner.embedders.1.model."
POSITIONS = "transformer.text_model.embeddings.position_ids"


@pytest.mark.parity
@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("SDXL", {f"{CLIP_G}{POSITIONS}": torch.arange(77)[None]}),
        ("SDXL", {f"{CLIP_L}text_projection": torch.eye(64), f"{CLIP_L}logit_scale": torch.tensor(4.6)}),
        ("SDXL", {f"{CLIP_L}text_projection.weight": torch.eye(64)}),
        ("SD 2", {f"cond_stage_model.model.{POSITIONS}": torch.arange(77)[None]}),
        ("SD 1", {f"cond_stage_model.{POSITIONS}": torch.arange(77)[None]}),
        ("SD 1", {"cond_stage_model.transformer.text_projection.weight": torch.eye(64)}),
    ],
)
def test_tensors_that_other_programs_save_beside_the_networks_are_ignored_as_by_the_reference(
    family: str,
    more: dict[str, torch.Tensor],
    folders: dict[str, Path],
    loaded: dict[str, Checkpoint],
    tmp_path: Path,
) -> None:
    file = single_file(folders[family], tmp_path, whole_encoder=False)
    torch_save(torch_load(file) | more, file)
    kind = getattr(diffusers, loaded[family].pipeline)

    kind.from_single_file(str(file), config=str(folders[family]), local_files_only=True)
    ours = load_checkpoint(str(file))

    for one, other in zip(components(ours), components(loaded[family]), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def test_a_projection_named_as_a_linear_layer_is_not_turned(
    folders: dict[str, Path], loaded: dict[str, Checkpoint], tmp_path: Path
) -> None:
    file = single_file(folders["SDXL"], tmp_path)
    tensors = load_file(file)
    turned = tensors.pop(f"{CLIP_G}text_projection").T
    save_file(tensors | {f"{CLIP_G}text_projection.weight": np.ascontiguousarray(turned)}, file)

    ours, expected = (
        each.components["text_encoder_2"] for each in (load_checkpoint(str(file)), loaded["SDXL"])
    )

    assert all(np.array_equal(a, b) for a, b in zip(leaves(ours), leaves(expected), strict=True))


@pytest.mark.parametrize(
    ("unet", "middle"),
    [
        # SSD-1B and Vega: a middle of one residual block, uneven depths on the way up
        (
            {
                "mid_block_type": "UNetMidBlock2D",
                "layers_per_block": 2,
                "transformer_layers_per_block": (1, 2),
                "reverse_transformer_layers_per_block": ((2, 2, 4), 1),
            },
            "UNetMidBlock2D",
        ),
        ({"mid_block_type": None, "transformer_layers_per_block": (1, 3)}, None),  # Koala 700M
        ({"transformer_layers_per_block": (1, 3)}, "UNetMidBlock2DCrossAttn"),  # Koala 1B
    ],
    ids=["SSD-1B", "Koala 700M", "Koala 1B"],
)
def test_middles_of_distilled_networks_are_found(
    unet: dict[str, Any], middle: str | None, tmp_path: Path
) -> None:
    form = original_form("SDXL")
    folder = make_tiny_checkpoint(tmp_path / "folder", **form | {"unet": form["unet"] | unet})

    ours = load_checkpoint(str(single_file(folder, tmp_path))).components["unet"]
    expected = load_checkpoint(str(folder)).components["unet"]

    assert ours.config["mid_block_type"] == middle
    assert told(ours) == told(expected)
    assert all(np.array_equal(a, b) for a, b in zip(leaves(ours), leaves(expected), strict=True))


@pytest.mark.parity
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_weights_of_eight_bits_are_widened_with_their_scales(
    kind: torch.dtype, scaled: bool, folders: dict[str, Path], tmp_path: Path
) -> None:
    """The scaled form is ComfyUI's; the reference reads the values without their scales."""
    folder = folders["SDXL"]
    file = single_file(folder, tmp_path)
    tensors, more = torch_load(file), {}
    weights = [name for name, x in tensors.items() if name.startswith("model.diff") and x.ndim > 1]
    if scaled:
        more["model.diffusion_model.scaled_fp8"] = torch.zeros(2, dtype=kind)
        for index, name in enumerate(weights):
            stem = name.removesuffix(".weight")
            more[f"{stem}.scale_weight"] = torch.tensor(0.5 + index / 8)
            more[f"{stem}.scale_input"] = torch.tensor(1.0)
    narrow = {name: x.to(kind) if name in weights else x for name, x in tensors.items()}
    torch_save(narrow | more, file)
    wide = {
        name: x.to(torch.float32) * more.get(f"{name.removesuffix('.weight')}.scale_weight", 1)
        for name, x in narrow.items()
    }
    room = tmp_path / "room"
    room.mkdir()
    shutil.copytree(folder / "tokenizer", room / "tokenizer")
    torch_save(wide, room / "wide.safetensors")

    for dtype in ("float32", "bfloat16"):
        ours, expected = (
            load_checkpoint(str(each), dtype=dtype) for each in (file, room / "wide.safetensors")
        )
        for one, other in zip(components(ours), components(expected), strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))
    if not scaled:
        reference = diffusers.StableDiffusionXLPipeline.from_single_file(
            str(file), config=str(folder), local_files_only=True, torch_dtype=torch.float32
        )
        kernel = np.asarray(load_checkpoint(str(file)).components["unet"].parameters["conv_in.kernel"])
        assert np.array_equal(kernel, reference.unet.conv_in.weight.detach().numpy().transpose(2, 3, 1, 0))


@pytest.mark.parametrize(
    "wrong", [np.ones(3, np.float32), np.array(np.nan, np.float32), np.array(1, np.int8)], ids=str
)
def test_a_scale_that_is_no_number_is_left_over(
    wrong: np.ndarray, folders: dict[str, Path], tmp_path: Path
) -> None:
    file = single_file(folders["SD 1"], tmp_path)
    save_file(load_file(file) | {"model.diffusion_model.out.2.scale_weight": wrong}, file)

    with pytest.raises(UnreadableCheckpoint, match=r"in unet, 1 left over: .*scale_weight"):
        load_checkpoint(str(file))


YAML = "model:\n  target: ldm.models.diffusion.ddpm.LatentDiffusion\n  params:\n    timesteps: 1000\n"
OF_V = f'{YAML}    parameterization: "v"\n'
BASE = {"global_step": torch.tensor(875000)}  # of SD 2 base
OF_SDXL = (
    f"{YAML}    denoiser_config:\n      target: sgm.modules.diffusionmodules.denoiser.DiscreteDenoiser\n"
)


@pytest.mark.parametrize(
    ("family", "told", "expected"),
    [
        ("SD 2", (BASE, None), ("epsilon", 512)),
        ("SD 2", ({"global_step": torch.tensor(110000)}, None), ("v_prediction", 768)),
        ("SD 2", ({}, YAML), ("epsilon", 512)),
        ("SD 2", ({}, OF_V), ("v_prediction", 768)),
        ("SD 2", (BASE, OF_V), ("v_prediction", 768)),
        ("SD 1", ({}, OF_V), ("v_prediction", 512)),
        ("SD 1", ({}, YAML), ("epsilon", 512)),
        ("SDXL", ({"v_pred": torch.zeros(0)}, OF_SDXL), ("v_prediction", 1024)),
    ],
)
def test_step_and_the_original_codes_configuration_beside_a_file_tell_what_it_predicts(
    family: str,
    told: tuple[dict[str, torch.Tensor], str | None],
    expected: tuple[str, int],
    folders: dict[str, Path],
    tmp_path: Path,
) -> None:
    more, text = told
    file = write_original(folders[family], tmp_path / "model.safetensors")
    torch_save(torch_load(file) | more, file)
    if text is not None:
        (tmp_path / "model.yaml").write_text(text)

    described = describe(str(file))

    predicted = described.scheduler_config.get("prediction_type", "epsilon")
    assert (predicted, described.native_size[0]) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{YAML}    parameterization: x0\n", "parameterization is 'x0'"),
        ("model: [", "cannot be read"),
        ("[" * 60_000, "nested too deep"),
        ("model: 1", "has no model.params"),
        ("a: b\n" * 20_000, "more than"),
        ("model: !!python/object/apply:os.abort []", "has no model.params"),
    ],
    ids=["x0", "broken", "deep", "another file", "long", "a tag that runs code"],
)
def test_a_configuration_beside_a_file_that_is_wrong_is_refused(
    text: str, reason: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    file = write_original(folders["SD 1"], tmp_path / "model.safetensors")
    (tmp_path / "model.yaml").write_text(text)

    with pytest.raises(UnreadableCheckpoint, match=reason) as refused:
        describe(str(file))
    assert "model.yaml" in str(refused.value)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("SD 1", ("PNDMScheduler", "epsilon", 512)),
        ("SD 1 inpainting", ("PNDMScheduler", "epsilon", 512)),
        ("SD 2", ("DDIMScheduler", "v_prediction", 768)),
        ("SDXL", ("EulerDiscreteScheduler", "epsilon", 1024)),
        ("SDXL inpainting", ("EulerDiscreteScheduler", "epsilon", 1024)),
    ],
)
def test_schedule_and_size_are_those_of_the_family(
    family: str, expected: tuple[str, str, int], folders: dict[str, Path], tmp_path: Path
) -> None:
    scheduler, prediction, side = expected

    described = describe(str(write_original(folders[family], tmp_path / "some model.safetensors")))

    assert described.name == "some model"
    assert described.scheduler_config["_class_name"] == scheduler
    assert described.scheduler_config.get("prediction_type", "epsilon") == prediction
    assert described.native_size == (side, side)
    folder = describe(str(folders[family]))
    assert described.most_skipped == folder.most_skipped
    assert described.usual_layer == folder.usual_layer == (2 if family.startswith("SDXL") else 1)


@pytest.mark.parametrize(
    ("notes", "size"),
    [({}, (512, 512)), ({"modelspec.resolution": "640x384"}, (640, 384))],
    ids=["prediction", "prediction and size"],
)
def test_metadata_of_a_file_takes_precedence_over_its_family(
    notes: dict[str, str], size: tuple[int, int], folders: dict[str, Path], tmp_path: Path
) -> None:
    noted = {"modelspec.prediction_type": "epsilon", **notes}

    described = describe(str(write_original(folders["SD 2"], tmp_path / "model.safetensors", **noted)))

    assert described.scheduler_config["prediction_type"] == "epsilon"
    assert described.native_size == size


def test_marks_of_zero_terminal_noise_change_the_schedule(folders: dict[str, Path], tmp_path: Path) -> None:
    file = write_original(folders["SDXL"], tmp_path / "model.safetensors")
    marks = {"v_pred": np.zeros(0, np.float32), "ztsnr": np.zeros(0, np.float32)}
    save_file(load_file(file) | marks, file)

    config = describe(str(file)).scheduler_config

    assert config["prediction_type"] == "v_prediction"
    assert config["rescale_betas_zero_snr"] is True
    assert config["timestep_spacing"] == "trailing"


def test_schedule_beside_the_file_takes_precedence_over_its_family(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    file = write_original(folders["SD 2"], tmp_path / "turbo.safetensors")
    schedule = {"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "trailing"}
    (tmp_path / "turbo.scheduler_config.json").write_text(json.dumps(schedule))

    assert describe(str(file)).scheduler_config == schedule


def test_second_encoder_fills_prompts_up_with_zeros(folders: dict[str, Path], tmp_path: Path) -> None:
    first, second = load_checkpoint(str(single_file(folders["SDXL"], tmp_path))).tokenizers

    assert (first.pad_id, second.pad_id) == (first.end_id, 0)


def test_encoder_without_the_layer_that_is_not_used_loads_the_same(
    folders: dict[str, Path], loaded: dict[str, Checkpoint], tmp_path: Path
) -> None:
    file = single_file(folders["SD 2"], tmp_path, whole_encoder=False)
    bare, whole = (each.components["text_encoder"] for each in (load_checkpoint(str(file)), loaded["SD 2"]))

    assert told(bare) == told(whole)
    assert all(np.array_equal(a, b) for a, b in zip(leaves(bare), leaves(whole), strict=True))


def test_vocabulary_is_found_in_the_hubs_cache(
    folders: dict[str, Path],
    loaded: dict[str, Checkpoint],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = single_file(folders["SD 1"], tmp_path)
    repository = tmp_path / "models--openai--clip-vit-large-patch14"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    (repository / "snapshots").mkdir()
    (tmp_path / "tokenizer").rename(repository / "snapshots" / ("0" * 40))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))

    tokenizer = load_checkpoint(str(file)).tokenizers[0]

    assert np.array_equal(tokenizer.encode("a red star"), loaded["SD 1"].tokenizers[0].encode("a red star"))


def test_missing_vocabulary_error_names_the_folder_to_put_it(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "no cache"))
    file = write_original(folders["SD 1"], tmp_path / "model.safetensors")

    with pytest.raises(UnreadableCheckpoint) as caught:
        load_checkpoint(str(file))

    assert "openai/clip-vit-large-patch14" in str(caught.value)
    assert str(tmp_path / "tokenizer") in str(caught.value)


@pytest.mark.parametrize("family", ["SD 2", "SDXL"])
def test_the_padding_of_open_clip_is_a_token_by_itself_in_a_prompt_too(family: str, tmp_path: Path) -> None:
    """The folders of these families name `!` as their padding token; the hub's vocabulary is CLIP's."""
    folder = make_tiny_checkpoint(tmp_path / "folder", **original_form(family))
    last = max(folder.glob("tokenizer*"))
    settings = last / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"pad_token": "!"}))
    room = tmp_path / "room"
    shutil.copytree(folder / "tokenizer", room / "tokenizer")
    settings = room / "tokenizer" / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"pad_token": "<|endoftext|>"}))
    of_file = load_checkpoint(str(write_original(folder, room / "model.safetensors")))
    of_folder = load_checkpoint(str(folder))
    for one, other in zip(of_file.tokenizers, of_folder.tokenizers, strict=True):
        text = "a red star! wow"
        np.testing.assert_array_equal(one.encode(text), other.encode(text))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:__array__ implementation")  # the reference's arrays with this numpy
def test_the_spacing_of_timesteps_that_is_named_replaces_the_schedules(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """A file of SDXL-Lightning has no schedule of its own; its family's starts at timestep 751 of 4 steps."""
    file = str(single_file(folders["SDXL"], tmp_path))
    config = load_checkpoint(file, timestep_spacing="trailing").scheduler_config
    reference = diffusers.EulerDiscreteScheduler.from_config(
        load_checkpoint(file).scheduler_config, timestep_spacing="trailing"
    )
    reference.set_timesteps(4)

    assert plan(Sampler.EULER, 4, config).rows[:4, Column.TIMESTEP].tolist() == [999, 749, 499, 249]
    assert reference.timesteps.tolist() == [999, 749, 499, 249]
    assert describe(file, timestep_spacing="trailing").scheduler_config == config


def test_the_spacing_that_is_named_counts_where_the_schedule_lists_its_own_as_a_default(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    file = write_original(folders["SD 1"], tmp_path / "model.safetensors")
    beside = {"_class_name": "DDIMScheduler", "_use_default_values": ["timestep_spacing", "clip_sample"]}
    (tmp_path / "model.scheduler_config.json").write_text(json.dumps(beside))

    config = describe(str(file), timestep_spacing="trailing").scheduler_config

    assert config["_use_default_values"] == ["clip_sample"]
