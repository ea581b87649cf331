"""Pictures painted from a picture, against the reference's pipelines for image to image and inpainting.

Same checkpoint, same noise: the reference is handed what ours draws from the request's seed. The networks
have few layers, and the autoencoder divides sides by 8, as do those of true size. Differences are the largest
of any value on the scale from 0 to 1. Run with `-s` to see the figures.
"""

from __future__ import annotations

import functools
import importlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from checkpoints import FAMILIES, make_tiny_checkpoint
from diffusers import (
    StableDiffusionImg2ImgPipeline,
    StableDiffusionInpaintPipeline,
    StableDiffusionXLImg2ImgPipeline,
    StableDiffusionXLInpaintPipeline,
)
from engines import SMALLEST, like
from pictures import LanePainter, Pixels, as_latents
from PIL import Image as Pictures

from sdjax_engine.denoising.noise import OF_KEPT_PICTURE, OF_START_PICTURE, fresh_noise, initial_noise
from sdjax_engine.request import Offer, Request, Sampler
from sdjax_engine.samplers import SAMPLERS
from sdjax_engine.weights.files import read_json

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

WIDTH, HEIGHT, STEPS = 48, 64, 8
TOLERANCE = 2e-3
OFFER = Offer(
    model="tiny",
    sizes=((WIDTH, HEIGHT),),
    num_inference_steps=STEPS,
    guidance_scale=4.0,
    sampler=Sampler.DDIM,
)
FEW_LAYERS = SMALLEST | {"vae": {"block_out_channels": (8,) * 4, "mid_block_add_attention": False}}
DETERMINISTIC = (Sampler.DDIM, Sampler.PNDM, Sampler.EULER, Sampler.DPMPP_2M, Sampler.DPMPP_2M_KARRAS)
Reference = Callable[..., Any]


def file_of(picture: Pictures.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def start() -> Pictures.Image:
    """A picture with something different everywhere."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    channels = (rows * 4 % 256, columns * 5 % 256, (rows + 2 * columns) * 3 % 256)
    return Pictures.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def mask() -> Pictures.Image:
    """A mask, white in a part whose edges are between latent pixels."""
    drawn = np.zeros((HEIGHT, WIDTH), np.uint8)
    drawn[13:43, 5:30] = 255
    return Pictures.fromarray(drawn)


def request_for(sampler: Sampler, **changes: Any) -> Request:
    return like(
        prompt="a red circle",
        negative_prompt="a blue star",
        seed=41,
        num_inference_steps=STEPS,
        guidance_scale=4.0,
        sampler=sampler,
        height=HEIGHT,
        width=WIDTH,
        init_image=file_of(start()),
        **changes,
    )


IMAGE_TO_IMAGE = [
    request_for(sampler, strength=strength)
    for sampler in DETERMINISTIC
    for strength in ((0.3, 0.75, 1.0) if sampler is Sampler.DDIM else (0.6,))
]
INPAINTING = [
    request_for(sampler, strength=strength, mask_image=file_of(mask()))
    for sampler in DETERMINISTIC
    for strength in ((0.5, 1.0) if sampler is Sampler.DDIM else (0.75,))
]


OF_XL = (
    request_for(Sampler.EULER, strength=0.6),
    request_for(Sampler.EULER, strength=0.75, mask_image=file_of(mask())),
)


def name(request: Request) -> str:
    return f"{request.sampler}-{request.strength:g}"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny", **FEW_LAYERS)


@pytest.fixture(scope="module")
def inpainting_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / "inpainting"
    return make_tiny_checkpoint(folder, **FEW_LAYERS | {"unet": FEW_LAYERS["unet"] | {"in_channels": 9}})


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> dict[Request, Pixels]:
    requests = IMAGE_TO_IMAGE + INPAINTING
    return dict(zip(requests, LanePainter(checkpoint, OFFER).paint(requests), strict=True))


@pytest.fixture(scope="module")
def ours_nine(inpainting_checkpoint: Path) -> dict[Request, Pixels]:
    return dict(zip(INPAINTING, LanePainter(inpainting_checkpoint, OFFER).paint(INPAINTING), strict=True))


@pytest.fixture(scope="module")
def xl_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    unet = FEW_LAYERS["unet"] | {"attention_head_dim": 4, "transformer_layers_per_block": 1}
    values = FAMILIES["SDXL"] | {"unet": unet, "vae": FEW_LAYERS["vae"]}
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "xl", **values)


@pytest.fixture(scope="module")
def ours_xl(xl_checkpoint: Path) -> dict[Request, Pixels]:
    return dict(zip(OF_XL, LanePainter(xl_checkpoint, OFFER).paint(OF_XL), strict=True))


@pytest.fixture(scope="module")
def pipeline() -> Callable[[Any, Path], Any]:
    """Returns the reference's pipeline of a class for a checkpoint, which is loaded once."""

    @functools.cache
    def load(kind: Any, folder: Path) -> Any:
        loaded = kind.from_pretrained(folder)
        loaded.set_progress_bar_config(disable=True)
        return loaded

    return load


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch, pipeline: Callable[[Any, Path], Any]) -> Reference:
    """Paints a request with the reference and our noise; `purposes` are those of the pictures' noise."""

    def paint(kind: Any, folder: Path, request: Request, *purposes: int, **further: Any) -> Pixels:
        shape = (request.height // 8, request.width // 8, 4)
        seed = jnp.uint32(request.seed)
        order = iter(purposes)

        def of_the_picture(*_shape: Any, **_how: Any) -> torch.Tensor:
            return as_latents(fresh_noise(seed, jnp.uint32(next(order)), shape))

        def of_the_painting(*_shape: Any, **_how: Any) -> torch.Tensor:
            return as_latents(initial_noise(seed, shape))

        vae = importlib.import_module("diffusers.models.autoencoders.vae")
        monkeypatch.setattr(vae, "randn_tensor", of_the_picture)
        monkeypatch.setattr(importlib.import_module(kind.__module__), "randn_tensor", of_the_painting)
        paints = pipeline(kind, folder)
        settings = {
            Sampler.DPMPP_2M_KARRAS: {"use_karras_sigmas": True},
            Sampler.DDIM: {"clip_sample": False},
        }
        scheduler = getattr(importlib.import_module("diffusers"), SAMPLERS[request.sampler].reference)
        config = read_json(folder / "scheduler" / "scheduler_config.json")
        paints.scheduler = scheduler.from_config(config, **settings.get(request.sampler, {}))
        painted: Pixels = paints(
            prompt=request.prompt,
            negative_prompt=request.negative_prompt,
            image=start(),
            strength=request.strength,
            num_inference_steps=request.num_inference_steps,
            guidance_scale=request.guidance_scale,
            output_type="np",
            **further,
        ).images[0]
        return painted

    return paint


def check(what: str, ours: Pixels, theirs: Pixels) -> None:
    difference = float(np.abs(ours - theirs).max())
    print(f"\n{what}: {difference:.1e}")
    assert difference <= TOLERANCE


@pytest.mark.parametrize("request_", IMAGE_TO_IMAGE, ids=name)
def test_a_picture_from_a_picture_is_the_references(
    request_: Request, ours: dict[Request, Pixels], checkpoint: Path, reference: Reference
) -> None:
    theirs = reference(StableDiffusionImg2ImgPipeline, checkpoint, request_, OF_START_PICTURE)
    check(f"image to image, {name(request_)}", ours[request_], theirs)


@pytest.mark.parametrize("request_", INPAINTING, ids=name)
def test_inpainting_equals_the_reference(
    request_: Request, ours: dict[Request, Pixels], checkpoint: Path, reference: Reference
) -> None:
    purposes = (OF_START_PICTURE, OF_KEPT_PICTURE)
    how = {"mask_image": mask(), "height": HEIGHT, "width": WIDTH}
    theirs = reference(StableDiffusionInpaintPipeline, checkpoint, request_, *purposes, **how)
    check(f"inpainting, {name(request_)}", ours[request_], theirs)


@pytest.mark.parametrize("request_", INPAINTING, ids=name)
def test_an_inpainting_network_paints_as_in_the_reference(
    request_: Request, ours_nine: dict[Request, Pixels], inpainting_checkpoint: Path, reference: Reference
) -> None:
    purposes = (OF_KEPT_PICTURE,) if request_.strength == 1 else (OF_START_PICTURE, OF_KEPT_PICTURE)
    how = {"mask_image": mask(), "height": HEIGHT, "width": WIDTH}
    theirs = reference(StableDiffusionInpaintPipeline, inpainting_checkpoint, request_, *purposes, **how)
    check(f"nine channels, {name(request_)}", ours_nine[request_], theirs)


@pytest.mark.parametrize("request_", OF_XL, ids=["image to image", "inpainting"])
def test_sdxl_paints_from_a_picture_as_the_reference(
    request_: Request, ours_xl: dict[Request, Pixels], xl_checkpoint: Path, reference: Reference
) -> None:
    kind, how = StableDiffusionXLImg2ImgPipeline, {}
    if request_.mask_image is not None:
        kind = StableDiffusionXLInpaintPipeline
        how = {"mask_image": mask(), "height": HEIGHT, "width": WIDTH}
    theirs = reference(kind, xl_checkpoint, request_, OF_START_PICTURE, OF_KEPT_PICTURE, **how)
    check(f"SDXL, {name(request_)}", ours_xl[request_], theirs)
