"""The decoder of previews against the reference's `AutoencoderTiny` on torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_checkpoint, make_tiny_decoder
from diffusers import AutoencoderTiny
from diffusers.image_processor import VaeImageProcessor
from engines import PLAIN, SMALLEST, TINY, like
from networks import Filled, channels_first, noise, relative_difference

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.denoising.estimates import LONGEST_SIDE, pooled
from sdjax_engine.families.family import Latents
from sdjax_engine.lane.device_lane import DeviceLane
from sdjax_engine.memory import devices
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.models import autoencoders
from sdjax_engine.request import Sampler
from sdjax_engine.weights import load_checkpoint
from sdjax_engine.weights.companions import load_preview_decoder

pytestmark = pytest.mark.parity

BOUNDS = {"float32": 1e-5, "bfloat16": 5e-2}
DECODERS: dict[str, dict[str, Any]] = {
    "as in TAESD": {"decoder_block_out_channels": (16,) * 4, "num_decoder_blocks": (3, 3, 3, 1)},
    "without blocks in the middle": {
        "decoder_block_out_channels": (12,) * 3,
        "num_decoder_blocks": (2, 0, 1),
    },
    "other values": {"act_fn": "silu", "latent_channels": 16, "scaling_factor": 0.4},
}


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoded_picture_is_the_references(name: str, dtype: str, tmp_path: Path) -> None:
    folder = make_tiny_decoder(tmp_path, **DECODERS[name])
    reference = AutoencoderTiny.from_pretrained(folder).eval()
    config = reference.config
    factor = 2 ** (len(config["num_decoder_blocks"]) - 1)
    decoder = load_preview_decoder(
        str(folder),
        latents=Latents(cell=factor, channels=config["latent_channels"], multiple=factor),
        dtype=dtype,
        put=jax.device_put,
    )
    latents = 2 * noise(2, 6, 8, config["latent_channels"])  # some beyond the limit of tanh
    with torch.no_grad():
        theirs = reference.decode(channels_first(latents)).sample
    ours = jax.jit(lambda parameters, x: decoder.module(parameters).decode(x))(decoder.parameters, latents)
    assert ours.shape == (2, 6 * factor, 8 * factor, 3)
    difference = relative_difference(ours, theirs)
    print(f"\ntiny autoencoder, {name}, {dtype}: {difference:.1e}")
    assert difference <= BOUNDS[dtype]


def test_a_decoder_of_true_size_is_the_references() -> None:
    reference = AutoencoderTiny().eval()
    assert sum(parameter.numel() for parameter in reference.decoder.parameters()) == 1_222_531
    latents = noise(1, 8, 8, 4)
    with torch.no_grad():
        theirs = reference.decode(channels_first(latents)).sample
    without_encoder = torch.nn.ModuleDict({"decoder": reference.decoder})
    ours = Filled(autoencoders.AutoencoderTiny, {}, without_encoder)
    difference = relative_difference(ours(latents, call=lambda model, x: model.decode(x)), theirs)
    print(f"\ntiny autoencoder of true size: {difference:.1e}")
    assert difference <= BOUNDS["float32"]


@pytest.mark.parametrize(("height", "width"), [(256, 64), (512, 264), (640, 1216), (8, 520)])
def test_large_pictures_are_means_of_squares(height: int, width: int) -> None:
    picture = noise(1, height, width, 3)
    small = np.asarray(pooled(jax.numpy.asarray(picture)))[0]
    side = -(-max(height, width) // LONGEST_SIDE)
    assert max(small.shape) <= LONGEST_SIDE
    assert small.shape == (-(-height // side), -(-width // side), 3)
    rows, columns = height // side, width // side
    whole = picture[0, : rows * side, : columns * side].reshape(rows, side, columns, side, 3)
    np.testing.assert_allclose(small[:rows, :columns], whole.mean(axis=(1, 3)), atol=1e-6)


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> tuple[DeviceLane, DeviceLane, Path]:
    """A lane with a decoder, one without, and the decoder's folder."""
    room = tmp_path_factory.mktemp("lanes")
    folder = make_tiny_decoder(room / "decoder", scaling_factor=0.7)
    checkpoint = make_tiny_checkpoint(room / "checkpoint", **SMALLEST)
    devices.setup_cpu(2)
    compiler = Compiler(mesh=devices.open_mesh(), report=lambda _line: None)
    put = partial(devices.replicate, mesh=compiler.mesh)
    model = LoadedModel(TINY, load_checkpoint(str(checkpoint), put=put), compiler)
    lanes = []
    for decoder in (
        load_preview_decoder(
            str(folder), latents=Latents(cell=2, channels=4, multiple=2), dtype="float32", put=put
        ),
        None,
    ):
        model.preview_decoder = decoder
        lanes.append(
            DeviceLane(
                *(PLAIN.lane, model),
                seats_per_device=2,
                compiler=compiler,
                start_pictures=False,
                previews=True,
            )
        )
    return lanes[0], lanes[1], folder


@pytest.mark.parametrize("sampler", [Sampler.DDIM, Sampler.PNDM, Sampler.EULER_ANCESTRAL])
def test_previews_equal_the_references_decoding_of_the_estimates(
    lane: tuple[DeviceLane, DeviceLane, Path], sampler: Sampler
) -> None:
    decoding, estimating, folder = lane
    assert decoding.decodes_previews
    assert not estimating.decodes_previews
    rows = []
    for each in (decoding, estimating):
        each.reset()
        prepared = {
            seat: each._model.prepare(like(seed=seat, sampler=sampler, num_inference_steps=9))
            for seat in (0, 3)
        }
        each.admit(prepared)
        each.denoise(dict.fromkeys(prepared, (0, 5)))
        weights = {seat: tuple(map(float, one.estimates[4])) for seat, one in prepared.items()}
        rows.append(each.estimate(weights).fetch())
    pixels, latents = rows
    expected = reference_pixels(folder, latents[[0, 3]])
    assert pixels.shape == (4, 16, 16, 3)
    assert np.abs(pixels[[0, 3]].astype(int) - expected).max() <= 1
    assert expected.std() > 10, "there is nothing to see"
    assert not pixels[[1, 2]].any(), "seats without a preview are left black"


def reference_pixels(folder: Path, latents: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The pixels (n, h, w, 3) of latents in the UNet's space, as the reference's pipelines make them."""
    reference = AutoencoderTiny.from_pretrained(folder).eval()
    with torch.no_grad():
        decoded = reference.decode(channels_first(latents) / reference.config["scaling_factor"]).sample
    pictures = VaeImageProcessor().postprocess(decoded, output_type="pil")
    return np.stack([np.asarray(picture, int) for picture in pictures])
