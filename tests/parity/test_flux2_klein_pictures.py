"""Finished pictures of FLUX.2 klein against the reference's pipelines: same checkpoint, same noise.

Differences are the largest of any value on the scale from 0 to 1, in float32. Run with `-s` to see the
figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
import torch
from diffusers import Flux2KleinInpaintPipeline, Flux2KleinPipeline
from diffusers.pipelines.flux2 import pipeline_flux2_klein, pipeline_flux2_klein_inpaint
from engines import file_of, like
from flux2_klein_files import make_tiny_flux2_klein
from pictures import LanePainter, Pixels, as_latents
from z_image_files import build_chat_tokenizer

from sdjax_engine.denoising.noise import initial_noise
from sdjax_engine.families import flux2_klein
from sdjax_engine.families.flux2_klein import Flux2Klein, latents
from sdjax_engine.models import qwen3
from sdjax_engine.prompts import chat
from sdjax_engine.request import Offer, Request, Sampler

pytestmark = pytest.mark.parity

WIDTH, HEIGHT, STEPS = 64, 80, 5
TOLERANCE, TOLERANCE_OF_REFERENCES = 4e-3, 1e-4  # other references change a picture by 1e-3
ROWS, COLUMNS = np.mgrid[0:HEIGHT, 0:WIDTH]
START = np.stack([ROWS * 3 % 256, COLUMNS * 5 % 256, (ROWS + 2 * COLUMNS) % 256], axis=-1).astype(np.uint8)
MASK = np.where((ROWS >= 16) & (ROWS < 48) & (COLUMNS >= 16), 255, 0).astype(np.uint8)
PLAIN = like(
    prompt=" a red (circle:1.3)\n\n on  the white [square] &amp; ☃ ",
    negative_prompt="a  blue\tstar",
    seed=11,
    num_inference_steps=STEPS,
    guidance_scale=3.5,
    sampler=Sampler.FLOW_EULER,
    height=HEIGHT,
    width=WIDTH,
)
FROM_PICTURE = like(PLAIN, init_image=file_of(START), strength=0.55)
OTHER = np.stack([COLUMNS * 3, 255 - ROWS * 3, ROWS * COLUMNS % 256], axis=-1).astype(np.uint8)
INPAINTED = like(FROM_PICTURE, mask_image=file_of(MASK), strength=0.75)
OFFER = Offer(
    model="tiny",
    sizes=((WIDTH, HEIGHT),),
    num_inference_steps=STEPS,
    guidance_scale=3.5,
    sampler=Sampler.FLOW_EULER,
    references=3,
)


@pytest.fixture(scope="module", params=[True, False], ids=["distilled", "base"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_flux2_klein(tmp_path_factory.mktemp("klein"), distilled=request.param)


@pytest.fixture(scope="module")
def painter(checkpoint: Path) -> LanePainter:
    return LanePainter(checkpoint, OFFER)


def noise_of(request: Request) -> torch.Tensor:
    return as_latents(initial_noise(jnp.uint32(request.seed), (HEIGHT // 16, WIDTH // 16, 128)))


def reference(checkpoint: Path, request: Request, **further: Any) -> Pixels:
    """The request's picture by the reference's pipeline with our noise."""
    pipeline = Flux2KleinPipeline.from_pretrained(checkpoint)
    pipeline.set_progress_bar_config(disable=True)
    given: dict[str, Any] = {
        "prompt": request.prompt,
        "num_inference_steps": request.num_inference_steps,
        "guidance_scale": request.guidance_scale,
        "height": request.height,
        "width": request.width,
        "latents": noise_of(request),
        "output_type": "np",
    }
    painted: Pixels = pipeline(**given | further).images[0]
    return painted


def difference(ours: Pixels, theirs: Pixels) -> float:
    found = float(np.abs(ours - theirs).max())
    print(f"\n{found:.1e}")
    return found


def prompt_of(tokens: int) -> str:
    """A prompt of so many tokens, template included."""
    tokenizer = build_chat_tokenizer()

    def count(prompt: str) -> int:
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return len(tokenizer(text)["input_ids"])

    prompt = "☃" + "~" * (tokens - count("☃"))
    assert count(prompt) == tokens
    return prompt


def test_a_picture_of_a_raw_prompt_is_the_references(checkpoint: Path, painter: LanePainter) -> None:
    [ours] = painter.paint([PLAIN])
    assert difference(ours, reference(checkpoint, PLAIN)) <= TOLERANCE


def test_prompts_of_all_lengths_are_the_references_side_by_side(
    checkpoint: Path, painter: LanePainter
) -> None:
    asked = [like(PLAIN, prompt=prompt_of(tokens), seed=tokens) for tokens in (31, 32, 33, 100, 700)]
    for request, ours in zip(asked, painter.paint(asked), strict=True):
        assert difference(ours, reference(checkpoint, request)) <= TOLERANCE


def test_the_negative_prompt_is_empty_whatever_is_asked(painter: LanePainter) -> None:
    named, empty = painter.paint([PLAIN, like(PLAIN, negative_prompt="")])
    assert np.array_equal(named, empty)


def from_picture(pipeline: Flux2KleinPipeline, request: Request) -> dict[str, Any]:
    """The reference's arguments for the steps that a start picture leaves, and for its noisy latents.

    The pixels where MASK is black are kept, as in the reference's pipeline for inpainting, which also shows
    the network the picture.
    """
    steps, scheduler = request.num_inference_steps, pipeline.scheduler
    begin = int(steps - steps * request.strength)
    sigmas = np.linspace(1.0, 1 / steps, steps)[begin:]
    mu = pipeline_flux2_klein.compute_empirical_mu(WIDTH * HEIGHT // 256, steps)
    scheduler.set_timesteps(sigmas=sigmas, mu=mu)
    pixels = torch.from_numpy(START.transpose(2, 0, 1)[None] / np.float32(127.5) - 1)
    with torch.no_grad():
        picture = pipeline._encode_vae_image(pixels, generator=None)
    noise = noise_of(request)
    levels = scheduler.sigmas.clone()
    kept = torch.from_numpy(MASK[::16, ::16].reshape(1, -1, 1) == 0) & (request.mask_image is not None)

    def keep(_pipeline: Any, index: int, _t: Any, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        level = levels[index + 1]
        noisy = pipeline._pack_latents((1 - level) * picture + level * noise)
        return {"latents": torch.where(kept, noisy, values["latents"])}

    noisy = (1 - levels[0]) * picture + levels[0] * noise
    return {"sigmas": sigmas, "latents": noisy, "callback_on_step_end": keep}


@pytest.mark.parametrize("asked", [FROM_PICTURE, INPAINTED], ids=["from a picture", "inpainted"])
def test_a_picture_from_a_picture_is_the_references(
    asked: Request, checkpoint: Path, painter: LanePainter
) -> None:
    [ours] = painter.paint([asked])
    further = from_picture(Flux2KleinPipeline.from_pretrained(checkpoint), asked)
    assert difference(ours, reference(checkpoint, asked, **further)) <= TOLERANCE


def test_a_cells_colour_is_the_mean_of_those_of_its_four_latents() -> None:
    packed = np.random.default_rng(3).normal(size=(3, 5, 128)).astype(np.float32)
    apart = Flux2KleinPipeline._unpatchify_latents(torch.from_numpy(packed.transpose(2, 0, 1)[None]))[0]
    *of_channels, of_zero = np.array(latents.COLOURS)
    colours = apart.numpy().transpose(1, 2, 0) @ np.array(of_channels) + of_zero
    means = colours.reshape(3, 2, 5, 2, 3).mean(axis=(1, 3))
    *of_packed, again = latents.colours_of_packed()
    np.testing.assert_allclose(packed @ np.array(of_packed) + again, means, atol=1e-6)


@pytest.mark.parametrize("given", [(START,), (START, OTHER, START[::-1])], ids=["one", "three"])
def test_a_picture_with_references_is_the_references(
    given: tuple[Pixels, ...], checkpoint: Path, painter: LanePainter
) -> None:
    asked = like(PLAIN, references=tuple(map(file_of, given)))
    [ours] = painter.paint([asked])
    theirs = reference(checkpoint, asked, image=[PIL.Image.fromarray(each) for each in given])
    assert difference(ours, theirs) <= TOLERANCE_OF_REFERENCES
    [turned] = painter.paint([like(asked, references=asked.references[::-1])])
    assert len(given) == 1 or difference(turned, theirs) > 5 * TOLERANCE_OF_REFERENCES


def test_inpainting_with_the_picture_as_reference_is_the_references(
    checkpoint: Path, painter: LanePainter
) -> None:
    asked = like(INPAINTED, references=(INPAINTED.init_image,))
    [ours] = painter.paint([asked])
    pipeline = Flux2KleinPipeline.from_pretrained(checkpoint)
    inpainting = Flux2KleinInpaintPipeline(**pipeline.components, is_distilled=pipeline.config.is_distilled)
    inpainting.set_progress_bar_config(disable=True)
    noise = noise_of(asked)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline_flux2_klein_inpaint, "randn_tensor", lambda *_shape, **_how: noise)
        [theirs] = inpainting(
            prompt=asked.prompt,
            image=PIL.Image.fromarray(START),
            mask_image=PIL.Image.fromarray(MASK),
            strength=asked.strength,
            num_inference_steps=STEPS,
            guidance_scale=asked.guidance_scale,
            output_type="np",
        ).images
    assert difference(ours, theirs) <= TOLERANCE_OF_REFERENCES


def without_mask(encoder: Any, tokens: Any) -> jax.Array:
    states: jax.Array = encoder(tokens.ids, jnp.full_like(tokens.lengths, tokens.ids.shape[1]))
    return states


def without_padding(encoder: Any, tokens: Any) -> jax.Array:
    states: jax.Array = encoder(tokens.ids, tokens.lengths)
    return states * (jnp.arange(states.shape[1]) < tokens.lengths[:, None])[..., None]


MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "it may think": (chat, "NO_THOUGHTS", ""),
    "a layer too early": (qwen3, "SIDE_BY_SIDE", (8, 17, 26)),
    "attention to padding in the encoder": (flux2_klein, "encoded", without_mask),
    "no states of padding": (flux2_klein, "encoded", without_padding),
    "a shift without the steps": (Flux2Klein, "schedule", Flux2Klein.schedule | {"mu": "linear"}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_small_mistake_exceeds_the_bound(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = make_tiny_flux2_klein(tmp_path)
    monkeypatch.setattr(*MISTAKES[name])
    [ours] = LanePainter(checkpoint, OFFER).paint([PLAIN])
    assert difference(ours, reference(checkpoint, PLAIN)) > 2 * TOLERANCE
