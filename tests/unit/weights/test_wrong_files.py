"""Single files that are no checkpoint or damaged: each is refused in one sentence with the fault."""

from __future__ import annotations

import io
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import original_form, write_original
from checkpoints import make_tiny_checkpoint
from PIL import Image
from safetensors.numpy import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights import describe, load_checkpoint

Tensors = dict[str, np.ndarray]
CONV_OUT = "model.diffusion_model.out.2.weight"
NORM = "first_stage_model.decoder.norm_out.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    room = tmp_path_factory.mktemp("whole")
    folder = make_tiny_checkpoint(room / "folder", **original_form("SD 1"))
    shutil.copytree(folder / "tokenizer", room / "tokenizer")
    return write_original(folder, room / "model.safetensors")


@pytest.fixture
def file(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole.parent / "tokenizer", tmp_path / "tokenizer")
    return Path(shutil.copy(whole, tmp_path / "model.safetensors"))


def with_bytes(content: bytes) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(content)


def with_tensors(change: Callable[[Tensors], Tensors]) -> Callable[[Path], object]:
    return lambda file: save_file(change(load_file(file)), file)


def only(*names: str) -> Callable[[Path], object]:
    return lambda file: save_file({name: np.zeros((4, 4), np.float32) for name in names}, file)


def truncate(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    return buffer.getvalue()


def zipped_pickle() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return buffer.getvalue()


def without(prefix: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: x for name, x in tensors.items() if not name.startswith(prefix)}


WRONG: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "empty": (with_bytes(b""), ("is empty",)),
    "truncated": (truncate, ("not a whole safetensors file",)),
    "picture": (with_bytes(picture()), ("not a whole safetensors file",)),
    "text": (with_bytes(b"<!DOCTYPE html><html>Please log in</html>"), ("not a whole safetensors file",)),
    "pickle": (with_bytes(pickle.dumps({"state_dict": {}})), ("is a pickle", "any code", "safetensors")),
    "zipped pickle": (with_bytes(zipped_pickle()), ("is a pickle", "any code", "safetensors")),
    "git pointer": (
        with_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        ("Git LFS", "git lfs pull"),
    ),
    "LoRA": (only("lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight"), ("LoRA",)),
    "LoRA of peft": (only("unet.down_blocks.0.attn1.to_q.lora_A.weight"), ("LoRA",)),
    "one network": (only("conv_in.weight", "down_blocks.0.resnets.0.conv1.weight"), ("one network",)),
    "ControlNet": (only("control_model.input_blocks.0.0.weight"), ("ControlNet",)),
    "Stable Diffusion 3": (
        only("model.diffusion_model.joint_blocks.0.context_block.attn.proj.weight"),
        ("Stable Diffusion 3",),
    ),
    "Flux": (only("double_blocks.0.img_attn.norm.key_norm.scale"), ("Flux",)),
    "refiner": (only("conditioner.embedders.0.model.text_projection"), ("refiner",)),
    "textual inversion": (only("emb_params"), ("textual inversion",)),
    "other tensors": (only("weight"), ("lacks a UNet and an autoencoder and a text encoder",)),
    "no text encoder": (with_tensors(without("cond_stage_model.")), ("lacks a text encoder.",)),
    "no autoencoder": (
        with_tensors(without("first_stage_model.")),
        ("lacks an autoencoder", "the key vae", "model.vae.safetensors"),
    ),
    "LCM": (
        with_tensors(
            lambda tensors: (
                tensors | {"model.diffusion_model.time_embed.cond_proj.weight": np.zeros((4, 4), np.float32)}
            )
        ),
        ("an LCM with its own conditioning", "as a folder"),
    ),
    "CosXL": (
        with_tensors(lambda tensors: tensors | {"edm_vpred.sigma_max": np.zeros((), np.float32)}),
        ("the EDM schedule",),
    ),
    "more networks": (
        with_tensors(lambda tensors: tensors | {"depth_model.head.weight": np.zeros(1, np.float32)}),
        ("belong to none", "depth_model.head.weight"),
    ),
    "missing tensor": (
        with_tensors(lambda tensors: {name: x for name, x in tensors.items() if name != NORM}),
        ("1 missing: decoder.conv_norm_out.weight",),
    ),
    "left-over tensor": (
        with_tensors(lambda tensors: tensors | {"model.diffusion_model.more": np.zeros(1, np.float32)}),
        ("1 left over: more",),
    ),
    "wrong shape": (
        with_tensors(lambda tensors: tensors | {NORM: np.zeros(7, np.float32)}),
        ("of the wrong shape: decoder.conv_norm_out.weight (7,) for (32,)",),
    ),
    "wrong dtype": (
        with_tensors(lambda tensors: tensors | {NORM: tensors[NORM].astype(np.int8)}),
        ("of a dtype that is not supported: decoder.conv_norm_out.weight (I8)",),
    ),
    "no matrix": (
        with_tensors(
            lambda tensors: (
                tensors | {"model.diffusion_model.input_blocks.0.0.weight": np.zeros(1, np.float32)}
            )
        ),
        ("lacks what tells the shape of its unet",),
    ),
    "fewer output channels": (
        with_tensors(lambda tensors: tensors | {CONV_OUT: tensors[CONV_OUT][:3]}),
        ("do not fit together", "latent_channels"),
    ),
    "no shape": (
        with_tensors(
            lambda tensors: {
                name: x for name, x in tensors.items() if name != "model.diffusion_model.out.2.weight"
            }
        ),
        ("lacks what tells the shape of its unet",),
    ),
}


def refusal(file: Path) -> str:
    with pytest.raises(UnreadableCheckpoint) as caught:
        load_checkpoint(str(file))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert file.name in sentence
    return sentence


@pytest.mark.parametrize(("breaking", "words"), WRONG.values(), ids=WRONG)
def test_wrong_file_is_refused_in_a_sentence(
    breaking: Callable[[Path], object], words: tuple[str, ...], file: Path
) -> None:
    breaking(file)

    sentence = refusal(file)

    assert all(word in sentence for word in words), sentence


def test_pickle_is_refused_by_its_name_before_it_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "model.ckpt"
    file.touch(mode=0o000)

    assert "pickled weights" in refusal(file)


def test_wrong_file_is_refused_when_it_is_only_described(file: Path) -> None:
    truncate(file)

    with pytest.raises(UnreadableCheckpoint, match="not a whole safetensors file"):
        describe(str(file))
