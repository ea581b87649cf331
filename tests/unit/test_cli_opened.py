"""`sdjax-bot check-config` refuses what a start refuses: files that are there, and do not suit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import original_form, write_original
from checkpoints import make_tiny_checkpoint, make_tiny_classifier, make_tiny_decoder
from safetensors.numpy import save_file
from watermarks import write_weights

from bot.cli.main import main


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("opened") / "checkpoint")


@pytest.fixture
def check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, checkpoint: Path
) -> Callable[[str], tuple[int, str]]:
    """Run the command on one model with these keys; return its exit status and what it says."""
    monkeypatch.chdir(tmp_path)

    def run(keys: str) -> tuple[int, str]:
        source = "" if "checkpoint =" in keys else f'checkpoint = "{checkpoint}"\n'
        Path("bot.toml").write_text(f'[[models]]\nname = "x"\n{source}{keys}\n')
        monkeypatch.setattr("sys.argv", ["sdjax-bot", "check-config", "--config", "bot.toml"])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, said.out + said.err

    return run


Check = Callable[[str], tuple[int, str]]


def other(checkpoint: Path, folder: Path, **settings: object) -> str:
    """Return the key of a copy of the checkpoint with another schedule."""
    folder.mkdir()
    for part in checkpoint.iterdir():
        if part.name != "scheduler":
            (folder / part.name).symlink_to(part)
    schedule = json.loads((checkpoint / "scheduler" / "scheduler_config.json").read_text())
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(schedule | settings))
    return f'checkpoint = "{folder}"'


def test_files_that_suit_are_in_order(check: Check, tmp_path: Path) -> None:
    decoder = make_tiny_decoder(
        tmp_path / "decoder", decoder_block_out_channels=(8,) * 4, num_decoder_blocks=(1,) * 4
    )
    assert check(f'preview_decoder = "{decoder}"') == (0, "bot.toml is in order; it offers x.\n")


def test_an_unknown_scheduler_is_refused_with_the_key_that_helps(
    check: Check, checkpoint: Path, tmp_path: Path
) -> None:
    keys = other(checkpoint, tmp_path / "other", _class_name="KDPM2DiscreteScheduler")
    status, said = check(keys)
    assert status == 2
    assert "models[1]: scheduler_config.json: _class_name is KDPM2DiscreteScheduler" in said
    assert "in the key sampler" in said
    assert check(f'{keys}\nsampler = "euler"')[0] == 0


def test_a_network_of_the_edm_schedule_is_refused_with_a_sampler_too(
    check: Check, checkpoint: Path, tmp_path: Path
) -> None:
    keys = other(checkpoint, tmp_path / "other", _class_name="EDMEulerScheduler")
    status, said = check(f'{keys}\nsampler = "euler"')
    assert (status, "EDM schedule" in said) == (2, True)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ('loras = { ink = "ink.safetensors" }', "ink.safetensors does not fit the model as a LoRA"),
        (
            'vae = "decoder"',
            "decoder/config.json is of the class AutoencoderTiny, and vae takes an AutoencoderKL",
        ),
        ('preview_decoder = "decoder"', "decoder decodes 4 latent channels to 2 times the size"),
        ('picture_classifier = "classifier"\npicture_levels = { nice = "none" }', "bare, gore"),
        ('sizes = ["72x68"]', "68 is not a multiple of 8"),
        ('sampler = "flow_euler"', "x cannot be painted with its sampler flow_euler"),
    ],
)
def test_files_that_do_not_suit_are_refused_before_a_start(
    keys: str, reason: str, check: Check, tmp_path: Path
) -> None:
    save_file(
        {"lora_unet_nothing.lora_down.weight": np.ones((2, 2), np.float32)}, tmp_path / "ink.safetensors"
    )
    make_tiny_decoder(tmp_path / "decoder")
    make_tiny_classifier(tmp_path / "classifier")
    status, said = check(keys)
    assert status == 2
    assert reason in said


def test_every_refused_model_is_named(check: Check) -> None:
    Path("bad.safetensors").write_bytes(b"")
    status, said = check(
        'checkpoint = "bad.safetensors"\n[[models]]\nname = "y"\ncheckpoint = "bad.safetensors"'
    )
    assert status == 2
    assert all(f"models[{number}]: bad.safetensors is empty" in said for number in (1, 2))


def test_few_steps_of_a_file_without_a_schedule_get_a_hint(check: Check, tmp_path: Path) -> None:
    folder = make_tiny_checkpoint(tmp_path / "xl", **original_form("SDXL"))
    (tmp_path / "tokenizer").symlink_to(folder / "tokenizer")
    file = write_original(folder, tmp_path / "lightning.safetensors")
    few = f'checkpoint = "{file}"\nnum_inference_steps = 4'
    hint = "lightning.safetensors has no schedule of its own: if it is a Turbo, Lightning or Hyper, set"
    said = [check(each) for each in (few, f'{few}\ntimestep_spacing = "trailing"', f'{few}\nsampler = "lcm"')]
    assert [(status, hint in text) for status, text in said] == [(0, True), (0, False), (0, False)]


def test_weights_of_a_watermark_are_opened(check: Check, tmp_path: Path) -> None:
    folder = f'[provenance]\nwatermark = "{write_weights(tmp_path)}"'
    assert check(folder) == (0, "bot.toml is in order; it offers x.\n")
    (tmp_path / "decoder_P.ckpt").write_bytes(b"words")
    status, said = check(folder)
    assert status == 2
    assert f"provenance.watermark: {tmp_path}/decoder_P.ckpt is no whole file of torch: " in said
    assert said.count("\n") == 1
    assert (
        "provenance.watermark: there is no file or folder “nowhere.here”"
        in check('[provenance]\nwatermark = "nowhere.here"')[1]
    )
