"""Finished pictures of SD 3.5 against the reference's pipelines: same checkpoint, same noise.

Differences are the largest of any value on the scale from 0 to 1, in float32. Run with `-s` to see the
figures.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
import torch
from diffusers import (
    StableDiffusion3Img2ImgPipeline,
    StableDiffusion3InpaintPipeline,
    StableDiffusion3Pipeline,
)
from engines import file_of, like
from pictures import LanePainter, Pixels, as_latents
from sd3_files import build_unigram_tokenizer, make_tiny_sd3

from sdjax_engine.denoising.noise import OF_START_PICTURE, fresh_noise, initial_noise
from sdjax_engine.families.stable_diffusion_3 import StableDiffusion3, text
from sdjax_engine.models import sd3
from sdjax_engine.prompts import Tokenizer, read_prompt, unigram
from sdjax_engine.request import Offer, Request, Sampler

pytestmark = pytest.mark.parity

WIDTH, HEIGHT, STEPS = 80, 112, 5
TOLERANCE = 4e-3
ROWS, COLUMNS = np.mgrid[0:HEIGHT, 0:WIDTH]
START = np.stack([ROWS * 2 % 256, COLUMNS * 3 % 256, (ROWS + 2 * COLUMNS) % 256], axis=-1).astype(np.uint8)
MASK = np.where((ROWS >= 16) & (ROWS < 64) & (COLUMNS >= 24), 255, 0).astype(np.uint8)
PLAIN = like(
    prompt=" a red (circle:1.3)\n\n on  the white [square] &amp; ☃ ",
    negative_prompt="a  blue\tstar",
    seed=11,
    num_inference_steps=STEPS,
    guidance_scale=4.5,
    sampler=Sampler.FLOW_EULER,
    height=HEIGHT,
    width=WIDTH,
)
FROM_PICTURE = like(PLAIN, init_image=file_of(START), strength=0.55)
INPAINTED = like(FROM_PICTURE, mask_image=file_of(MASK), strength=0.75)
OFFER = Offer(
    model="tiny",
    sizes=((WIDTH, HEIGHT),),
    num_inference_steps=STEPS,
    guidance_scale=4.5,
    sampler=Sampler.FLOW_EULER,
)

NO_T5 = {"text_encoder_3": None, "tokenizer_3": None}


@pytest.fixture(scope="module", params=[True, False], ids=["with T5", "without T5"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_sd3(tmp_path_factory.mktemp("sd3"), with_t5=request.param)


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> LanePainter:
    return LanePainter(checkpoint, OFFER)


def reference(
    checkpoint: Path, request: Request, kind: Any = StableDiffusion3Pipeline, **further: Any
) -> Pixels:
    """The request's picture by a pipeline of the reference with our noise."""
    shape, seed = (HEIGHT // 8, WIDTH // 8, 16), jnp.uint32(request.seed)

    def of_the_picture(*_shape: Any, **_how: Any) -> torch.Tensor:
        return as_latents(fresh_noise(seed, jnp.uint32(OF_START_PICTURE), shape))

    def of_the_painting(*_shape: Any, **_how: Any) -> torch.Tensor:
        return as_latents(initial_noise(seed, shape))

    with pytest.MonkeyPatch.context() as patched:
        vae = importlib.import_module("diffusers.models.autoencoders.vae")
        patched.setattr(vae, "randn_tensor", of_the_picture)
        patched.setattr(importlib.import_module(kind.__module__), "randn_tensor", of_the_painting)
        has_t5 = (checkpoint / "text_encoder_3").is_dir()
        pipeline = kind.from_pretrained(checkpoint, **{} if has_t5 else NO_T5)
        pipeline.set_progress_bar_config(disable=True)
        painted = pipeline(
            prompt=request.prompt,
            negative_prompt=request.negative_prompt,
            num_inference_steps=request.num_inference_steps,
            guidance_scale=request.guidance_scale,
            height=request.height,
            width=request.width,
            clip_skip=request.clip_skip or None,
            output_type="latent" if kind is StableDiffusion3InpaintPipeline else "np",
            **further,
        ).images[0]
        return decoded(pipeline, painted) if kind is StableDiffusion3InpaintPipeline else painted


def decoded(pipeline: Any, latents: torch.Tensor) -> Pixels:
    """The picture of latents as two of the reference's pipelines have it: the third forgets the shift."""
    vae = pipeline.vae
    with torch.no_grad():
        picture = vae.decode(latents[None] / vae.config.scaling_factor + vae.config.shift_factor)[0]
    found: Pixels = pipeline.image_processor.postprocess(picture, output_type="np")[0]
    return found


def difference(ours: Pixels, theirs: Pixels) -> float:
    found = float(np.abs(ours - theirs).max())
    print(f"\n{found:.1e}")
    return found


def prompt_of(tokens: int) -> str:
    """A prompt of so many of T5's tokens, its end included."""
    tokenizer, prompt = build_unigram_tokenizer(), "a" + "~" * (tokens - 2)
    assert len(tokenizer(prompt)["input_ids"]) == tokens
    return prompt


def test_a_picture_of_a_raw_prompt_is_the_references(checkpoint: Path, painter: LanePainter) -> None:
    [ours] = painter.paint([PLAIN])
    assert difference(ours, reference(checkpoint, PLAIN)) <= TOLERANCE


def test_prompts_of_all_lengths_are_the_references_side_by_side(
    checkpoint: Path, painter: LanePainter
) -> None:
    asked = [like(PLAIN, prompt=prompt_of(tokens), seed=tokens) for tokens in (31, 32, 33, 100, 300)]
    asked.append(like(PLAIN, negative_prompt=""))
    for request, ours in zip(asked, painter.paint(asked), strict=True):
        assert difference(ours, reference(checkpoint, request)) <= TOLERANCE


def test_a_picture_without_guidance_is_the_references(checkpoint: Path, painter: LanePainter) -> None:
    asked = like(PLAIN, guidance_scale=1.0)
    [ours] = painter.paint([asked])
    assert difference(ours, reference(checkpoint, asked)) <= TOLERANCE


def test_layers_of_clip_are_skipped_for_the_prompt_alone(checkpoint: Path, painter: LanePainter) -> None:
    asked = like(PLAIN, clip_skip=1)
    skipped, usual = painter.paint([asked, PLAIN])
    theirs = reference(checkpoint, asked)
    assert difference(skipped, theirs) <= TOLERANCE < difference(usual, theirs)


def from_picture(request: Request) -> dict[str, Any]:
    return {"image": PIL.Image.fromarray(START), "strength": request.strength}


def test_a_picture_from_a_picture_is_the_references(checkpoint: Path, painter: LanePainter) -> None:
    [ours] = painter.paint([FROM_PICTURE])
    theirs = reference(
        checkpoint, FROM_PICTURE, StableDiffusion3Img2ImgPipeline, **from_picture(FROM_PICTURE)
    )
    assert difference(ours, theirs) <= TOLERANCE


def test_inpainting_is_the_references(checkpoint: Path, painter: LanePainter) -> None:
    [ours] = painter.paint([INPAINTED])
    further = {"mask_image": PIL.Image.fromarray(MASK), **from_picture(INPAINTED)}
    theirs = reference(checkpoint, INPAINTED, StableDiffusion3InpaintPipeline, **further)
    assert difference(ours, theirs) <= TOLERANCE


def cleaned(self: Tokenizer, prompt: str) -> Any:
    return self.tokens(read_prompt(prompt), max_chunks=1)


def from_the_corner(self: sd3.PatchEmbed, sample: Any) -> Any:
    x = self.proj(sample)
    table = self.pos_embed[...].reshape(1, self.side, self.side, -1)
    return x + table[:, : x.shape[1], : x.shape[2]]


def without_padding(self: Any, prompt: str, *, length: int) -> Any:
    found = RIGHT_TOKENS(self, prompt, length=length)
    found.ids[found.count + 1 :] = self.end_id
    return found


RIGHT_TOKENS = unigram.UnigramTokenizer.tokens
MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "a cleaned prompt": (Tokenizer, "plain", cleaned),
    "the corner of the table": (sd3.PatchEmbed, "__call__", from_the_corner),
    "other padding": (unigram.UnigramTokenizer, "tokens", without_padding),
    "fewer tokens": (text, "LENGTH", 77),
    "fewer zeros without T5": (text, "LENGTH", 77),
    "a schedule shifted once": (
        StableDiffusion3,
        "schedule",
        StableDiffusion3.schedule | {"ladder": "even"},
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_small_mistake_exceeds_the_bound(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = make_tiny_sd3(tmp_path, with_t5="without T5" not in name)
    monkeypatch.setattr(*MISTAKES[name])
    [ours] = LanePainter(checkpoint, OFFER).paint([PLAIN])
    assert difference(ours, reference(checkpoint, PLAIN)) > 2 * TOLERANCE
