"""Prompts with weights and several chunks: ours against the reference with the same encodings.

The encodings are made here by the reference's text encoder, chunk by chunk, and weighted in NumPy. One batch
has prompts of one, two and three chunks: the chunks that a prompt lacks must not change its picture.
"""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_checkpoint
from diffusers import DDIMScheduler, StableDiffusionPipeline
from engines import like
from pictures import LanePainter, Pixels, as_latents

from sdjax_engine.denoising.noise import initial_noise
from sdjax_engine.prompts import Tokenizer, read_prompt
from sdjax_engine.request import Offer, Request, Sampler

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

STEPS, CHUNKS, TOLERANCE = 6, 3, 2e-3
OFFER = Offer(
    model="tiny",
    sizes=((48, 64),),
    num_inference_steps=STEPS,
    guidance_scale=5.0,
    sampler=Sampler.DDIM,
    prompt_chunks=CHUNKS,
)
LONG = "a small red circle above a blue square, " * 9
LONGER = "a large green star, left of a white heart, " * 40
PROMPTS = {
    "one chunk": ("a red circle", ""),
    "one chunk, weighed": ("a (red:1.4) circle on a [white] background", "((blue)) star"),
    "two chunks": (LONG, "a (black:0.5) square " * 12),
    "cut after three": (f"({LONGER}:1.2) and what nobody sees", LONG),
}


def request_for(name: str) -> Request:
    prompt, negative_prompt = PROMPTS[name]
    return like(
        prompt=prompt,
        negative_prompt=negative_prompt,
        num_inference_steps=STEPS,
        seed=list(PROMPTS).index(name),
        height=64,
        width=48,
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> dict[str, Pixels]:
    pictures = LanePainter(checkpoint, OFFER).paint([request_for(name) for name in PROMPTS])
    return dict(zip(PROMPTS, pictures, strict=True))


@pytest.fixture(scope="module")
def pipeline(checkpoint: Path) -> StableDiffusionPipeline:
    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def encoded(pipeline: StableDiffusionPipeline, checkpoint: Path, text: str) -> npt.NDArray[np.float32]:
    """The weighted encodings of all chunks, one after the other: (1, tokens, width)."""
    tokens = Tokenizer.load(checkpoint / "tokenizer").tokens(read_prompt(text), max_chunks=CHUNKS)
    weighed = []
    for ids, weights in zip(tokens.ids, tokens.weights, strict=True):
        with torch.no_grad():
            z = pipeline.text_encoder(torch.from_numpy(ids[None].astype(np.int64)))[0].numpy()
        z_w = z * weights[None, :, None]
        weighed.append(z_w * (z.mean() / z_w.mean()))
    return np.concatenate(weighed, axis=1)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_weighted_prompt_of_any_length_equals_the_reference(
    name: str,
    ours: dict[str, Pixels],
    pipeline: StableDiffusionPipeline,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = request_for(name)
    texts = (request.negative_prompt, request.prompt)
    halves = [torch.from_numpy(encoded(pipeline, checkpoint, text)) for text in texts]
    forward = pipeline.unet.forward

    def apart(sample: torch.Tensor, t: torch.Tensor, **_told: object) -> tuple[torch.Tensor]:
        """Call the UNet for each half on its own, so that the halves may have different lengths."""
        pairs = zip(sample, halves, strict=True)
        return (torch.cat([forward(x[None], t, half, return_dict=False)[0] for x, half in pairs]),)

    monkeypatch.setattr(pipeline.unet, "forward", apart)
    placeholder = torch.zeros(1, 77, 32)
    theirs = pipeline(
        prompt_embeds=placeholder,
        negative_prompt_embeds=placeholder,
        num_inference_steps=STEPS,
        guidance_scale=request.guidance_scale,
        height=request.height,
        width=request.width,
        latents=as_latents(initial_noise(jnp.uint32(request.seed), (8, 6, 4))),
        output_type="np",
    ).images[0]
    difference = float(np.abs(ours[name] - theirs).max())
    print(f"\n{name}: {difference:.1e}")
    assert difference <= TOLERANCE
