"""Invalid decoders of previews, each in one sentence that says what to change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from checkpoints import configure, make_tiny_decoder
from safetensors.numpy import load_file, save_file

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.families.family import Latents
from sdjax_engine.weights import Component
from sdjax_engine.weights.companions import load_preview_decoder

WEIGHTS = "diffusion_pytorch_model.safetensors"
ANY = "decoder.layers.0.weight"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_decoder(tmp_path_factory.mktemp("decoder"))


def load(source: Path | str, cache_dir: Path | None = None) -> Component:
    return load_preview_decoder(
        str(source),
        latents=Latents(cell=2, channels=4, multiple=2),
        dtype="float32",
        put=jax.device_put,
        cache_dir=cache_dir,
    )


configured = partial(configure, "config.json")


def keep(wanted: Callable[[str], bool]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        save_file({name: tensor for name, tensor in tensors.items() if wanted(name)}, folder / WEIGHTS)

    return change


def leave_a_pickle(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "diffusion_pytorch_model.bin")


def add_a_tensor(folder: Path) -> None:
    save_file(load_file(folder / WEIGHTS) | {"decoder.more": np.zeros(1, np.float32)}, folder / WEIGHTS)


REFUSED: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "another class": (configured(_class_name="AutoencoderKL"), ("AutoencoderKL", "AutoencoderTiny", "taesd")),
    "no class": (configured(_class_name=None), ("None", "AutoencoderTiny")),
    "other channels": (configured(latent_channels=16), ("16 latent channels", "delete the key")),
    "another factor": (
        configured(decoder_block_out_channels=[8, 8, 8], num_decoder_blocks=[1, 1, 1]),
        ("4 times the size", "delete the key"),
    ),
    "another upsampling": (configured(upsample_fn="bilinear"), ("upsample_fn", "bilinear")),
    "another scale of upsampling": (configured(upsampling_scaling_factor=3), ("upsampling_scaling_factor",)),
    "widths that differ": (configured(decoder_block_out_channels=[8, 4]), ("decoder_block_out_channels",)),
    "no widths": (configured(decoder_block_out_channels=[], num_decoder_blocks=[]), ("decoder_block",)),
    "lists of two lengths": (configured(num_decoder_blocks=[1]), ("2 blocks", "num_decoder_blocks")),
    "no list": (configured(num_decoder_blocks=1), ("num_decoder_blocks",)),
    "too many layers": (configured(num_decoder_blocks=[1, 10**6]), ("256 at most",)),
    "no scale": (configured(scaling_factor=0), ("scaling_factor",)),
    "an unknown activation": (configured(act_fn="sine"), ("sine",)),
    "an unknown switch": (configured(middle_block=True), ("middle_block",)),
    "no configuration": (lambda folder: (folder / "config.json").unlink(), ("config.json",)),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), (WEIGHTS,)),
    "a pickle": (leave_a_pickle, ("pickled",)),
    "a tensor less": (keep(lambda name: name != ANY), ("1 missing", ANY)),
    "a tensor more": (add_a_tensor, ("1 left over", "decoder.more")),
    "another width": (
        configured(decoder_block_out_channels=[16, 16]),
        ("of the wrong shape", "decoder.layers.0"),
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_invalid_decoders_raise_one_sentence(change: str, folder: Path) -> None:
    spoil, words = REFUSED[change]
    spoil(folder)
    with pytest.raises(UnreadableCheckpoint) as caught:
        load(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize("source", ["no/such/folder", "../nowhere", "file.safetensors"])
def test_missing_decoders_raise_one_sentence(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.safetensors").write_bytes(b"")
    with pytest.raises(UnreadableCheckpoint, match=r"There is no folder .* or a hub id"):
        load(source)


def test_a_decoder_needs_no_encoder_and_is_read_the_same_from_the_cache(folder: Path, tmp_path: Path) -> None:
    whole = load(folder)
    keep(lambda name: name.startswith("decoder."))(folder)
    converted, kept = (load(folder, tmp_path / "cache") for _ in range(2))
    assert list((tmp_path / "cache" / "weights").glob("*.safetensors"))
    for each in (converted, kept):
        assert each.parameters.keys() == whole.parameters.keys()
        for key, array in whole.parameters.items():
            np.testing.assert_array_equal(np.asarray(each.parameters[key]), np.asarray(array))
