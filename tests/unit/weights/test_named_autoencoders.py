"""Another autoencoder than the checkpoint's, from a folder, file or hub, decodes as the reference does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import diffusers
import jax
import numpy as np
import pytest
import torch
from checkpoint_files import VAE, original_form, original_vae, write_original
from checkpoints import make_tiny_checkpoint
from safetensors.torch import load_file, save_file
from z_image_files import VAE as OF_Z_IMAGE
from z_image_files import make_tiny_z_image

from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights import Checkpoint, describe, load_checkpoint

OWN = "first_stage_model."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("one") / "folder", **original_form("SD 1"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with other weights than `folder`."""
    return make_tiny_checkpoint(tmp_path_factory.mktemp("two") / "folder", seed=9, **original_form("SD 1"))


@pytest.fixture
def file(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder / "tokenizer", tmp_path / "tokenizer")
    return write_original(folder, tmp_path / "x.safetensors")


def of_original_form(other: Path, room: Path, *, prefix: str = "") -> Path:
    tensors = load_file(write_original(other, room / "whole.safetensors"))
    own = {prefix + name.removeprefix(OWN): x for name, x in tensors.items() if name.startswith(OWN)}
    save_file(own, room / "vae.safetensors")
    return room / "vae.safetensors"


SOURCES: dict[str, Callable[[Path, Path], Path]] = {
    "a folder": lambda other, _: other / "vae",
    "a file with the folder's names": lambda other, _: next((other / "vae").glob("*.safetensors")),
    "a file in the original layout": of_original_form,
    "a file with the prefix of checkpoints": lambda other, room: of_original_form(other, room, prefix=OWN),
    "a whole checkpoint": lambda other, room: write_original(other, room / "whole.safetensors"),
}


def assert_is_vae_of(other: Path, ours: Checkpoint) -> None:
    reference = diffusers.AutoencoderKL.from_pretrained(other / "vae")
    latents = torch.randn((1, 4, 8, 8), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = reference.decode(latents).sample.numpy().transpose(0, 2, 3, 1)
    vae = ours.components["vae"]
    decoded = jax.jit(lambda x: vae.module().decode(x))(latents.numpy().transpose(0, 2, 3, 1))
    np.testing.assert_allclose(decoded, expected, atol=2e-5)
    assert vae.config["scaling_factor"] == reference.config.scaling_factor


@pytest.mark.parity
@pytest.mark.parametrize("source", SOURCES)
def test_pictures_are_decoded_by_the_named_autoencoder(
    source: str, folder: Path, other: Path, tmp_path: Path
) -> None:
    (tmp_path / "room").mkdir()
    vae = str(SOURCES[source](other, tmp_path / "room"))
    checkpoint = str(folder)

    ours = load_checkpoint(checkpoint, vae=vae, cache_dir=tmp_path / "cache")

    assert_is_vae_of(other, ours)
    assert describe(checkpoint, vae=vae).native_size == ours.native_size
    own = load_checkpoint(checkpoint, cache_dir=tmp_path / "cache")
    assert_is_vae_of(folder, own)


@pytest.mark.parity
@pytest.mark.parametrize("whole", [False, True], ids=["a file without one", "a file with its own"])
def test_the_autoencoder_beside_a_file_replaces_its_own(
    whole: bool, file: Path, other: Path, tmp_path: Path
) -> None:
    if not whole:
        tensors = load_file(file)
        save_file({name: x for name, x in tensors.items() if not name.startswith(OWN)}, file)
    of_original_form(other, tmp_path).rename(tmp_path / "x.vae.safetensors")

    assert_is_vae_of(other, load_checkpoint(str(file)))


def test_a_file_alone_has_the_scaling_of_the_checkpoints_family(other: Path, tmp_path: Path) -> None:
    xl = make_tiny_checkpoint(tmp_path / "xl", **original_form("SDXL"))

    ours = load_checkpoint(str(xl), vae=str(of_original_form(other, tmp_path)))

    assert ours.components["vae"].config["scaling_factor"] == 0.13025


def test_a_file_alone_has_the_scaling_of_a_folder_whose_latents_are_shifted(tmp_path: Path) -> None:
    z_image, file = make_tiny_z_image(tmp_path / "z_image"), tmp_path / "ae.safetensors"
    wide = {"norm_num_groups": 32, "block_out_channels": [32] * 4}  # no file in this layout has other groups
    save_file(original_vae(diffusers.AutoencoderKL(**OF_Z_IMAGE | wide).state_dict()), file)

    ours = load_checkpoint(str(z_image), vae=str(file)).components["vae"].config

    for key in ("scaling_factor", "shift_factor"):
        assert ours[key] == OF_Z_IMAGE[key]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("unet", r"unet/config.json is of the class UNet2DConditionModel, and vae takes an AutoencoderKL"),
        ("nothing", r"There is no folder “.*nothing”: name a folder with config.json and diffusion"),
        ("unet/diffusion_pytorch_model.safetensors", "holds no autoencoder.*correct the key vae"),
    ],
)
def test_another_network_is_refused_as_an_autoencoder(source: str, reason: str, folder: Path) -> None:
    with pytest.raises(UnreadableCheckpoint, match=reason):
        load_checkpoint(str(folder), vae=str(folder / source))


def test_latents_of_another_count_are_refused(folder: Path, tmp_path: Path) -> None:
    other = make_tiny_checkpoint(
        tmp_path / "other", vae=VAE | {"latent_channels": 8}, unet={"in_channels": 8, "out_channels": 8}
    )
    with pytest.raises(UnreadableCheckpoint, match="do not fit together: the UNet's out_channels"):
        load_checkpoint(str(folder), vae=str(other / "vae"))
