"""Finished pictures with image prompts against the reference's pipelines, in float32."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
from checkpoints import (
    FAMILIES,
    UNET,
    UNET_XL,
    make_tiny_checkpoint,
    make_tiny_controlnet,
    make_tiny_image_prompt,
)
from engines import SMALLEST, file_of, like
from lora_files import attention_layers, random_factors, write_diffusers
from pictures import LanePainter, Pixels, as_latents

from sdjax_engine.denoising.noise import OF_START_PICTURE, fresh_noise, initial_noise
from sdjax_engine.families.stable_diffusion.image_prompt import UNetImagePrompts
from sdjax_engine.request import ControlType, Lora, Offer, Request, Sampler

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]

WIDTH, HEIGHT, TOLERANCE = 16, 24, 4e-3  # the autoencoder halves both
ROWS, COLUMNS = np.mgrid[0:30, 0:50]
SHOWN = np.stack([ROWS * 8, COLUMNS * 5, (ROWS // 5 % 2) * 255], axis=-1).astype(np.uint8)
UNETS: dict[str, dict[str, Any]] = {
    "SD 1": UNET
    | SMALLEST["unet"]
    | {"up_block_types": ("CrossAttnUpBlock2D",), "mid_block_type": "UNetMidBlock2DCrossAttn"},
    "SDXL": UNET_XL
    | SMALLEST["unet"]
    | {
        "up_block_types": ("CrossAttnUpBlock2D",),
        "attention_head_dim": (4,),
        "transformer_layers_per_block": (2,),
    },
}
CASES = [(family, plus) for family in UNETS for plus in (False, True)]
IDS = [f"{family} {'Plus' if plus else 'plain'}" for family, plus in CASES]


def asked(**changes: Any) -> Request:
    values = {
        "seed": 11,
        "sampler": Sampler.EULER,
        "num_inference_steps": 5,
        "height": HEIGHT,
        "width": WIDTH,
        "negative_prompt": "a blue star",
        "image_prompt": file_of(SHOWN),
    }
    return like(**(values | changes))


def painter(
    folder: Path,
    family: str,
    *,
    plus: bool,
    nets: Sequence[str] = (),
    loras: Mapping[str, Path] = MappingProxyType({}),
) -> LanePainter:
    """A checkpoint of this family, with an IP-Adapter, these ControlNets and LoRAs."""
    values = FAMILIES[family] | {
        "unet": UNETS[family],
        "vae": SMALLEST["vae"],
        "scheduler": {"_class_name": "EulerDiscreteScheduler"},
    }
    make_tiny_checkpoint(folder / "model", **values)
    offer = Offer(
        model="tiny",
        sizes=((WIDTH, HEIGHT),),
        num_inference_steps=4,
        guidance_scale=5.0,
        sampler=Sampler.EULER,
        image_prompts=True,
        controlnets=tuple(nets),
        loras=tuple(loras),
    )
    return LanePainter(
        folder / "model",
        offer,
        image_prompt=make_tiny_image_prompt(folder, unet=UNETS[family], plus=plus),
        loras=loras,
        controlnets={name: make_tiny_controlnet(folder / name, unet=UNETS[family]) for name in nets},
    )


def reference_picture(folder: Path, request: Request, **further: Any) -> Pixels:
    """Paint the request with the reference's pipeline."""
    made = diffusers.DiffusionPipeline.from_pretrained(folder / "model", **further)
    made.load_ip_adapter(
        str(folder), subfolder="", weight_name="ip-adapter.safetensors", image_encoder_folder="image_encoder"
    )
    made.set_ip_adapter_scale(request.image_prompt_strength)
    made.set_progress_bar_config(disable=True)
    images = made(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        height=request.height,
        width=request.width,
        latents=as_latents(initial_noise(jnp.uint32(request.seed), (HEIGHT // 2, WIDTH // 2, 4))),
        ip_adapter_image=PIL.Image.fromarray(SHOWN),
        output_type="np",
    ).images
    picture: Pixels = images[0]
    return picture


def largest_difference(ours: Pixels, theirs: Pixels) -> float:
    return float(np.abs(ours - theirs).max())


@pytest.mark.parametrize(("family", "plus"), CASES, ids=IDS)
def test_pictures_with_image_prompts_in_one_batch_are_the_references_each_alone(
    family: str, plus: bool, tmp_path: Path
) -> None:
    paints = painter(tmp_path, family, plus=plus)
    for guidance in (5.0, 1.0):
        shown = [asked(image_prompt_strength=each, guidance_scale=guidance) for each in (0.6, 1.0, 0.0)]
        plain = asked(image_prompt=None, guidance_scale=guidance)

        *ours, without = paints.paint([*shown, plain])

        for request, one in zip(shown, ours, strict=True):
            difference = largest_difference(one, reference_picture(tmp_path, request))
            print(f"\n{family}, guidance {guidance}, {request.image_prompt_strength}: {difference:.1e}")
            assert difference <= TOLERANCE
        assert largest_difference(ours[1], without) > 10 * TOLERANCE
        np.testing.assert_array_equal(ours[2], without)


def of_pixels(self: UNetImagePrompts, parameters: Any, pixels: jax.Array, absent: jax.Array) -> jax.Array:
    """As `encode`, but no picture is a black one."""
    return ENCODE(self, parameters, jnp.where(absent[:, None, None, None], 0, pixels), absent & False)


ENCODE = UNetImagePrompts.encode


@pytest.mark.parametrize("plus", [False, True])
def test_a_black_picture_for_the_negative_prompt_exceeds_the_bound(
    plus: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UNetImagePrompts, "encode", of_pixels)
    paints = painter(tmp_path, "SD 1", plus=plus)

    (ours,) = paints.paint([asked()])

    assert largest_difference(ours, reference_picture(tmp_path, asked())) > TOLERANCE


def test_a_control_picture_and_an_image_prompt_work_together_as_in_the_reference(tmp_path: Path) -> None:
    paints = painter(tmp_path, "SD 1", plus=False, nets=("canny",))
    control = np.ascontiguousarray(SHOWN[:24, :16])
    request = asked(
        image_prompt_strength=0.7, control_image=file_of(control), control_type=ControlType.PICTURE
    )

    both, alone = paints.paint([request, asked(image_prompt_strength=0.7)])

    assert largest_difference(both, alone) > 10 * TOLERANCE
    assert (
        largest_difference(alone, reference_picture(tmp_path, asked(image_prompt_strength=0.7))) <= TOLERANCE
    )
    net = diffusers.ControlNetModel.from_pretrained(tmp_path / "canny", low_cpu_mem_usage=False)
    pipeline = diffusers.StableDiffusionControlNetPipeline.from_pretrained(tmp_path / "model", controlnet=net)
    pipeline.load_ip_adapter(
        str(tmp_path),
        subfolder="",
        weight_name="ip-adapter.safetensors",
        image_encoder_folder="image_encoder",
    )
    pipeline.set_ip_adapter_scale(0.7)
    [theirs] = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        image=PIL.Image.fromarray(control),
        ip_adapter_image=PIL.Image.fromarray(SHOWN),
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        latents=as_latents(initial_noise(jnp.uint32(request.seed), (HEIGHT // 2, WIDTH // 2, 4))),
        output_type="np",
    ).images
    difference = largest_difference(both, theirs)
    print(f"\nwith a control picture: {difference:.1e}")
    assert difference <= TOLERANCE


def test_a_start_picture_a_lora_and_an_image_prompt_work_together_as_in_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny_checkpoint(tmp_path / "first", **FAMILIES["SD 1"] | {"unet": UNETS["SD 1"]})
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "first")
    factors = random_factors(pipeline, attention_layers, rank=3, seed=3)
    file = write_diffusers(tmp_path / "ink.safetensors", factors)
    start = np.ascontiguousarray(SHOWN[:24, 20:36])
    request = asked(
        init_image=file_of(start),
        strength=0.6,
        image_prompt_strength=0.6,
        loras=(Lora(name="ink", weight=0.7),),
    )
    paints = painter(tmp_path, "SD 1", plus=True, loras={"ink": file})

    ours, without = paints.paint([request, like(request, loras=())])

    shape, seed = (HEIGHT // 2, WIDTH // 2, 4), jnp.uint32(request.seed)
    of_picture = as_latents(fresh_noise(seed, jnp.uint32(OF_START_PICTURE), shape))
    made = diffusers.StableDiffusionImg2ImgPipeline.from_pretrained(tmp_path / "model")
    vae, painting = importlib.import_module("diffusers.models.autoencoders.vae"), type(made).__module__
    monkeypatch.setattr(vae, "randn_tensor", lambda *_, **__: of_picture)
    noise = as_latents(initial_noise(seed, shape))
    monkeypatch.setattr(importlib.import_module(painting), "randn_tensor", lambda *_, **__: noise)
    made.load_lora_weights(file, adapter_name="ink")
    made.set_adapters(["ink"], [0.7])
    made.load_ip_adapter(
        str(tmp_path),
        subfolder="",
        weight_name="ip-adapter.safetensors",
        image_encoder_folder="image_encoder",
    )
    made.set_ip_adapter_scale(0.6)
    [theirs] = made(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        image=PIL.Image.fromarray(start),
        strength=0.6,
        ip_adapter_image=PIL.Image.fromarray(SHOWN),
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        output_type="np",
    ).images
    difference = largest_difference(ours, theirs)
    print(f"\nfrom a picture, with a LoRA: {difference:.1e}")
    assert difference <= TOLERANCE
    assert largest_difference(ours, without) > TOLERANCE
