"""`sdjax-bot imagine` with the real engine."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import c2pa
import huggingface_hub
import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
from checkpoint_files import original_form, write_original
from checkpoints import make_tiny_checkpoint, make_tiny_controlnet, make_tiny_image_prompt
from flux2_klein_files import make_tiny_flux2_klein
from lora_files import write_three
from manifests import read_manifest

import bot.cli.imagine as one_shot
from bot.cli.main import main
from bot.config import EngineSection, ModelConfig
from bot.provenance.certificates import self_made
from bot.provenance.manifests import ManifestSigner, unmarked
from bot.provenance.signing import Signing
from sdjax_engine.images import read_recipe

Imagine = Callable[..., int]
PROMPT = "a red circle on a white background"


@pytest.fixture
def imagine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_checkpoint: Path, program_folder: Path
) -> Imagine:
    """Runs the command in a folder of its own; returns its exit status."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(program_folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, model: Path | str = tiny_checkpoint) -> int:
        named = ["--model", str(model)] if model else []
        monkeypatch.setattr("sys.argv", ["sdjax-bot", "imagine", *arguments, *named])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code

    return run


def pixels(file: Path) -> npt.NDArray[np.uint8]:
    return np.asarray(PIL.Image.open(file).convert("RGB"))


@pytest.mark.slow
def test_the_same_command_gives_the_same_bytes_and_a_grids_tiles_are_the_seeds_alone(
    imagine: Imagine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imagine(PROMPT, "--steps", "3", "--seed", "7", "--json") == 0
    told = capsys.readouterr()
    assert told.err == ""
    answer = json.loads(told.out)
    assert answer["files"] == ["tiny-7.png"]  # named after model and seed, never after the prompt
    assert answer["seeds"] == [7]
    assert answer["recipe"]["sampler"] == "pndm"  # the checkpoint's own, as is the size
    assert (answer["recipe"]["width"], answer["recipe"]["height"]) == (64, 64)
    assert set(answer["timings"]) == {"load", "paint", "total"}
    recipe = read_recipe(tmp_path / "tiny-7.png")
    assert (recipe.prompt, recipe.seed, recipe.num_inference_steps) == (PROMPT, 7, 3)

    assert imagine(PROMPT, "--steps", "3", "--seed", "7", "-o", "again.png") == 0
    again, first = ((tmp_path / name).read_bytes() for name in ("again.png", "tiny-7.png"))
    assert unmarked(again) == unmarked(first) != first
    assert imagine(PROMPT, "--steps", "3", "--seed", "7", "--no-sign") == 0
    assert (tmp_path / "tiny-7.png").read_bytes() == unmarked(first)  # the same picture, the same name
    assert not (tmp_path / "tiny-7-2.png").exists()

    assert imagine(PROMPT, "--steps", "3", "--seed", "6", "--variants", "2", "-o", "grid.png") == 0
    grid = pixels(tmp_path / "grid.png")
    assert grid.shape == (64, 128, 3)
    assert np.array_equal(grid[:, 64:], pixels(tmp_path / "tiny-7.png"))


@pytest.mark.slow
def test_a_folder_a_single_file_and_a_hub_id_paint_the_same(
    imagine: Imagine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One name of the model in all three, so that they share their programs.
    folder = make_tiny_checkpoint(tmp_path / "folder" / "tiny", **original_form("SD 1"))
    (tmp_path / "one").mkdir()
    file = write_original(folder, tmp_path / "one" / "tiny.safetensors")
    shutil.copytree(folder / "tokenizer", tmp_path / "one" / "tokenizer")
    commit = "1" * 40  # as a download leaves it; tests have no hub
    repository = tmp_path / "hub" / "models--someone--tiny"
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    how = ("--steps", "2", "--seed", "7", "--size", "64x64", "--guidance", "1", "--sampler", "ddim")
    for name, model in (("a", folder), ("b", file), ("c", Path("someone/tiny"))):
        assert imagine(PROMPT, *how, "-o", f"{name}.png", model=model) == 0
    assert np.array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))
    assert np.array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "c.png"))


@pytest.mark.slow
def test_a_picture_is_started_from_masked_and_enlarged_and_names_a_signed_start_picture_as_its_parent(
    imagine: Imagine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ("--steps", "4", "--seed", "7")
    start = io.BytesIO()
    PIL.Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint32).reshape(64, 64, 3).astype(np.uint8)).save(
        start, "JPEG"
    )
    (tmp_path / "start.png").write_bytes(ManifestSigner(self_made()).sign(start.getvalue()))
    PIL.Image.new("L", (64, 64), 255).save(tmp_path / "mask.png")
    how = ("--image", "start.png", "--mask", "mask.png", "--strength", "0.5", "--enlarge", "96x96")
    long = PROMPT + " and a small star" * 100
    assert imagine(long, *quick, *how, "-o", "x.png") == 0
    assert pixels(tmp_path / "x.png").shape == (96, 96, 3)
    assert "left out: " in capsys.readouterr().err
    found = read_manifest((tmp_path / "x.png").read_bytes())
    assert found.state == "Valid"
    [parent] = found.manifest["ingredients"]
    assert parent["relationship"] == "parentOf"
    of_start = parent["validation_results"]["activeManifest"]
    assert "assertion.dataHash.match" in {each["code"] for each in of_start["success"]}
    assert [each["code"] for each in of_start["failure"]] == ["signingCredential.untrusted"]
    [actions] = [each["data"]["actions"] for each in found.manifest["assertions"]]
    assert [action["action"] for action in actions] == ["c2pa.opened", "c2pa.edited"]
    assert actions[1]["digitalSourceType"].endswith("/compositeWithTrainedAlgorithmicMedia")


def test_a_picture_keeps_the_composition_of_a_control_picture_by_a_controlnet_that_is_named(
    imagine: Imagine,
    tmp_path: Path,
    tiny_checkpoint: Path,
    program_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unet, vae = (json.loads((tiny_checkpoint / part / "config.json").read_text()) for part in ("unet", "vae"))
    widths = [8] * len(vae["block_out_channels"])
    make_tiny_controlnet(tmp_path / "canny", unet=unet, conditioning_embedding_out_channels=widths)
    PIL.Image.new("RGB", (96, 64), "navy").save(tmp_path / "drawing.png")
    quick = ("--steps", "2", "--seed", "7", "--size", "64x64")
    control = ("--control", "drawing.png", "--controlnet", "canny", "--control-type", "picture")
    for name, how in (("plain", ()), ("held", control), ("weak", (*control, "--control-strength", "0"))):
        assert imagine(PROMPT, *quick, *how, "-o", f"{name}.png") == 0, capsys.readouterr().err
    assert not np.array_equal(pixels(tmp_path / "plain.png"), pixels(tmp_path / "held.png"))
    assert np.array_equal(pixels(tmp_path / "plain.png"), pixels(tmp_path / "weak.png"))
    with PIL.Image.open(tmp_path / "held.png") as held:
        recipe = json.loads(held.info["sdjax"])["request"]
    assert (recipe["controlnet"], recipe["control_type"]) == ("canny", "picture")
    (tmp_path / "bot.toml").write_text(
        f'[[models]]\nname = "tiny"\ncheckpoint = "{tiny_checkpoint}"\n'
        f'controlnets = {{ canny = {{ source = "{tmp_path}/canny", types = ["picture"] }} }}\n'
        f'[engine]\ncache_dir = "{program_folder}/sdjax-bot"\n'
    )
    how = ("--config", "bot.toml", *quick, "--control", "drawing.png")
    picture = ("--control-type", "picture", "-o", "named.png")
    assert imagine(PROMPT, *how, *picture, model="tiny") == 0, capsys.readouterr().err
    assert np.array_equal(pixels(tmp_path / "named.png"), pixels(tmp_path / "held.png"))
    assert imagine(PROMPT, *how, "--control-type", "pose", "-o", "no.png", model="tiny") == 2
    assert "of the type pose: choose from picture" in capsys.readouterr().err


def test_a_picture_is_a_prompt_by_an_adapter_that_is_named_or_that_the_model_has(
    imagine: Imagine, tmp_path: Path, tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unet = json.loads((tiny_checkpoint / "unet" / "config.json").read_text())
    known = {key: value for key, value in unet.items() if not key.startswith("_")}
    adapter = make_tiny_image_prompt(tmp_path / "adapter", unet=known)
    PIL.Image.new("RGB", (96, 64), "navy").save(tmp_path / "shown.png")
    quick = ("--steps", "2", "--seed", "7", "--size", "64x64")
    shown = (*quick, "--image-prompt", "shown.png")
    named = (*shown, "--ip-adapter", str(adapter))
    weak = (*named, "--image-prompt-strength", "0")
    for name, how in (("plain", quick), ("named", named), ("weak", weak)):
        assert imagine(PROMPT, *how, "-o", f"{name}.png") == 0, capsys.readouterr().err
    (tmp_path / "bot.toml").write_text(
        f'[[models]]\nname = "tiny"\ncheckpoint = "{tiny_checkpoint}"\nimage_prompt = "{adapter}"\n'
        '[engine]\ndtype = "float32"\n'
    )
    assert imagine(PROMPT, *shown, "--config", "bot.toml", "-o", "had.png", model="tiny") == 0
    assert not np.array_equal(pixels(tmp_path / "plain.png"), pixels(tmp_path / "named.png"))
    assert np.array_equal(pixels(tmp_path / "plain.png"), pixels(tmp_path / "weak.png"))
    assert np.array_equal(pixels(tmp_path / "had.png"), pixels(tmp_path / "named.png"))
    with PIL.Image.open(tmp_path / "named.png") as painted:
        recipe = json.loads(painted.info["sdjax"])["request"]
    assert recipe["image_prompt_strength"] == 0.6
    capsys.readouterr()
    assert imagine(PROMPT, *shown) == 2
    assert "--image-prompt needs --ip-adapter: the file of an IP-Adapter" in capsys.readouterr().err


@pytest.mark.slow
def test_pictures_that_a_prompt_speaks_of_are_given_by_reference(
    imagine: Imagine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    klein = make_tiny_flux2_klein(tmp_path / "klein")
    for name in ("navy", "gold"):
        PIL.Image.new("RGB", (96, 80), name).save(tmp_path / f"{name}.png")
    quick = ("--steps", "1", "--seed", "7", "--size", "64x64")
    navy, gold = ("--reference", "navy.png"), ("--reference", "gold.png")
    for name, how in (("none", ()), ("one", navy), ("both", (*navy, *gold)), ("turned", (*gold, *navy))):
        assert imagine(PROMPT, *quick, *how, "-o", f"{name}.png", model=klein) == 0, capsys.readouterr().err
    assert (
        len({pixels(tmp_path / f"{name}.png").tobytes() for name in ("none", "one", "both", "turned")}) == 4
    )
    given = [(tmp_path / f"{name}.png").read_bytes() for name in ("gold", "navy")]
    assert read_recipe(tmp_path / "turned.png", pictures=given).references == tuple(given)
    assert imagine(PROMPT, *quick, *navy * 5, model=klein) == 2
    assert "5 reference pictures are not possible" in capsys.readouterr().err
    assert imagine(PROMPT, *quick, *navy) == 1
    assert "takes no reference pictures" in capsys.readouterr().err


def test_only_what_the_picture_needs_is_compiled(
    tiny_checkpoint: Path, program_folder: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    options = one_shot.Options(
        prompt=PROMPT,
        guidance_scale=5.0,
        num_inference_steps=1,
        model=ModelConfig(name="tiny", checkpoint=str(tiny_checkpoint)),
        engine=EngineSection(cache_dir=str(program_folder / "sdjax-bot")),
    )
    one_shot.imagine(
        options,
        output=tmp_path / "x.png",
        signing=Signing(),
        report=told.append,
    )
    assert [line for line in told if "guided" in line]
    assert not [line for line in told if "unguided" in line]


def test_a_file_that_cannot_be_signed_is_not_written(
    imagine: Imagine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise c2pa.C2paError("the key is gone")

    monkeypatch.setattr("bot.provenance.signing.with_packet", fail)
    assert imagine(PROMPT, "--steps", "1", "-o", "x.png") == 1
    assert not (tmp_path / "x.png").exists()
    said = capsys.readouterr().err
    assert "The picture cannot be signed: the key is gone. --no-sign writes it without marks." in said


def test_the_tag_of_a_lora_in_the_prompt_gives_its_weight_and_another_is_named(
    imagine: Imagine, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_three(tiny_checkpoint, tmp_path)["one"]
    prompt = f"{PROMPT} <lora:one:0.25> <lora:two:1>"
    assert imagine(prompt, "--lora", str(file), "--steps", "1", "--json") == 0
    said = capsys.readouterr()
    recipe = json.loads(said.out)["recipe"]
    assert recipe["loras"] == [{"name": "one", "weight": 0.25}]
    assert recipe["prompt"] == f"{PROMPT} <lora:two:1>"
    assert "<lora:two:1> was read as part of the prompt: name the LoRA's file with --lora." in said.err


@pytest.mark.slow
def test_a_configuration_names_the_model_its_defaults_and_its_loras(
    imagine: Imagine,
    tiny_checkpoint: Path,
    program_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkpoint, cache = json.dumps(str(tiny_checkpoint)), json.dumps(str(program_folder / "sdjax-bot"))
    ink = json.dumps(str(write_three(tiny_checkpoint, tmp_path)["one"]))
    (tmp_path / "bot.toml").write_text(
        f"""
        [engine]
        cache_dir = {cache}
        [[models]]
        name = "demo"
        [[models]]
        name = "tiny"
        checkpoint = {checkpoint}
        num_inference_steps = 2
        guidance_scale = 3.5
        loras = {{ ink = {ink}, unused = "gone.safetensors" }}
        """
    )
    configured = ("--config", "bot.toml")
    assert imagine(PROMPT, *configured, "--lora", "ink:0.5", "--json", model="tiny") == 0
    recipe = json.loads(capsys.readouterr().out)["recipe"]
    assert recipe["loras"] == [{"name": "ink", "weight": 0.5}]
    assert (recipe["model"], recipe["num_inference_steps"], recipe["guidance_scale"]) == ("tiny", 2, 3.5)
    assert recipe["sampler"] == "pndm"  # the checkpoint's own

    for arguments, model, said in (
        (configured, "other", "There is no model “other”; there are demo, tiny."),
        (
            (*configured, "--lora", "oil"),
            "tiny",
            "there is no file oil, and the model has only the LoRAs ink",
        ),
        ((*configured, "--revision", "main"), "tiny", "--revision and --variant are for --model alone"),
        (("--config", "gone.toml"), "", "gone.toml cannot be read"),
    ):
        assert imagine(PROMPT, *arguments, model=model) == 2
        told = capsys.readouterr().err
        assert said in told
        assert told.count("\n") == 1


@pytest.mark.parametrize("output", ["no such folder/x.png", "."])
def test_an_unwritable_output_is_an_error_before_painting(
    imagine: Imagine, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    assert imagine(PROMPT, "-o", output) in (1, 2)
    told = capsys.readouterr().err
    assert told.startswith("sdjax-bot: ")
    assert told.count("\n") == 1


def test_an_unreadable_checkpoint_is_one_sentence(
    imagine: Imagine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imagine(PROMPT, model=tmp_path / "gone") == 2
    assert "There is no folder or file" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert imagine(PROMPT, model=tmp_path / "empty") == 1
    told = capsys.readouterr().err
    assert told.startswith("sdjax-bot: ")
    assert told.count("\n") == 1
