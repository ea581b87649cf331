"""A finished picture of every family of checkpoints against the reference pipeline of that family.

The sampler is the one that the checkpoint names. The networks have one block each way and all other features
of the family; `test_models_families.py` compares whole ones. Differences are the largest of any value
on the scale from 0 to 1, after 20 steps in float32. Run with `-s` to see the figures.
"""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from checkpoints import FAMILIES, make_tiny_checkpoint
from diffusers import DiffusionPipeline
from engines import SMALLEST, like
from pictures import LanePainter, as_latents

from sdjax_engine.denoising.noise import fresh_noise, initial_noise
from sdjax_engine.errors import InvalidRequest, UnreadableCheckpoint
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Offer, Request
from sdjax_engine.samplers import default_sampler
from sdjax_engine.weights.files import read_json

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
]

WIDTH, HEIGHT, TOLERANCE = 8, 16, 2e-3  # the autoencoder halves both
BFLOAT16_TOLERANCE, BFLOAT16_MEAN = 0.1, 0.01  # of a random network; a picture's values go from 0 to 1
# The request to each checkpoint: few steps for few-step checkpoints; LCM draws new noise in each step.
ASKED: dict[str, dict[str, Any]] = {
    "SD 2": {"num_inference_steps": 20, "guidance_scale": 5.0, "negative_prompt": "a blue star"},
    "SD Turbo": {"num_inference_steps": 2, "guidance_scale": 0.0},
    "LCM": {"num_inference_steps": 4, "guidance_scale": 8.5},
    "SDXL": {"num_inference_steps": 20, "guidance_scale": 5.0, "negative_prompt": "a blue star"},
    "SDXL, no negative prompt": {"num_inference_steps": 20, "guidance_scale": 5.0},
}


@pytest.fixture(scope="module")
def painters() -> dict[str, tuple[Path, LanePainter]]:
    """The folder and the painter of each family, made at first use."""
    return {}


def painter(
    name: str, painters: dict[str, tuple[Path, LanePainter]], folder: Path, **how: Any
) -> tuple[Path, LanePainter]:
    family = name.partition(",")[0]
    if family not in painters:
        make_tiny_checkpoint(folder, **of_one_block(family))
        offer = Offer(
            model="tiny",
            sizes=((WIDTH, HEIGHT),),
            num_inference_steps=4,
            guidance_scale=5.0,
            sampler=default_sampler(read_json(folder / "scheduler" / "scheduler_config.json")),
        )
        painters[family] = folder, LanePainter(folder, offer, **how)
    return painters[family]


def of_one_block(family: str) -> dict[str, Any]:
    """The family's checkpoint with as few blocks as a network can have."""
    values, unet = FAMILIES[family], dict(SMALLEST["unet"])
    if family == "SDXL":
        unet |= {"attention_head_dim": (4,), "transformer_layers_per_block": (2,)}
    elif heads := values.get("unet", {}).get("attention_head_dim"):
        unet["attention_head_dim"] = heads[-1:]
    return values | {"unet": values.get("unet", {}) | unet, "vae": SMALLEST["vae"]}


@pytest.mark.parametrize("name", ASKED)
def test_a_picture_of_each_family_is_its_references(
    name: str,
    painters: dict[str, tuple[Path, LanePainter]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, paints = painter(name, painters, tmp_path_factory.mktemp("family") / "checkpoint")
    asked = {"prompt": "a red circle", "height": HEIGHT, "width": WIDTH, **ASKED[name]}
    request = like(seed=11, sampler=paints.model.offer.sampler, **asked)
    (ours,) = paints.paint([request])
    theirs = reference_picture(folder, request, monkeypatch)
    difference = float(np.abs(ours - theirs).max())
    print(f"\n{name}, {request.sampler}, {request.num_inference_steps} steps: {difference:.1e}")
    assert difference <= TOLERANCE


def test_a_picture_in_bfloat16_stays_near_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "SDXL"
    folder, paints = painter(name, {}, tmp_path / "checkpoint", dtype="bfloat16")
    asked = {"prompt": "a red circle", "height": HEIGHT, "width": WIDTH, **ASKED[name]}
    request = like(seed=11, sampler=paints.model.offer.sampler, **asked)
    (ours,) = paints.paint([request])
    differences = np.abs(ours - reference_picture(folder, request, monkeypatch))
    print(f"\n{name} in bfloat16: {differences.max():.1e}, in the mean {differences.mean():.1e}")
    assert differences.max() <= BFLOAT16_TOLERANCE
    assert differences.mean() <= BFLOAT16_MEAN


@pytest.mark.parametrize("name", ["SD 1", "SDXL"])
def test_a_picture_with_skipped_layers_is_its_references(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, deep = tmp_path / "checkpoint", {"num_hidden_layers": 4}
    values = (
        of_one_block(name) | {"text_encoder": deep} | ({"text_encoder_2": deep} if name == "SDXL" else {})
    )
    make_tiny_checkpoint(folder, **values)
    offer = Offer(
        model="tiny",
        sizes=((WIDTH, HEIGHT),),
        num_inference_steps=4,
        guidance_scale=5.0,
        sampler=default_sampler(read_json(folder / "scheduler" / "scheduler_config.json")),
    )
    asked = {"prompt": "a red circle", "negative_prompt": "a blue star", "height": HEIGHT, "width": WIDTH}
    plain = like(seed=11, sampler=offer.sampler, num_inference_steps=8, guidance_scale=5.0, **asked)
    requests = [dataclasses.replace(plain, clip_skip=skip) for skip in range(3)]
    paints = LanePainter(folder, offer)
    ours = paints.paint(requests)  # in one batch
    for request, picture in zip(requests, ours, strict=True):
        theirs = reference_picture(folder, request, monkeypatch)
        assert float(np.abs(picture - theirs).max()) <= TOLERANCE
    assert min(float(np.abs(each - ours[0]).max()) for each in ours[1:]) > 10 * TOLERANCE
    with pytest.raises(InvalidRequest, match="A clip skip of 5 is not possible"):
        paints.model.offer.check(dataclasses.replace(plain, clip_skip=4))
    with pytest.raises(UnreadableCheckpoint, match="clip_skip = 4"):
        LoadedModel(dataclasses.replace(offer, clip_skip=4), paints.model.checkpoint, paints.compiler)


def reference_picture(folder: Path, request: Request, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Paint the request with the pipeline that the checkpoint names, which draws our noise."""
    pipeline = DiffusionPipeline.from_pretrained(folder)
    # Its `clip_skip` reads the last norm where transformers 4 had it.
    object.__setattr__(pipeline.text_encoder, "text_model", pipeline.text_encoder)
    pipeline.set_progress_bar_config(disable=True)
    shape = (HEIGHT // 2, WIDTH // 2, 4)
    seed, drawn = jnp.uint32(request.seed), iter(range(99))

    def draw(*_shape: Any, **_how: Any) -> torch.Tensor:
        return as_latents(fresh_noise(seed, jnp.int32(next(drawn)), shape))

    scheduler = importlib.import_module(type(pipeline.scheduler).__module__)
    monkeypatch.setattr(scheduler, "randn_tensor", draw, raising=False)
    told = {"negative_prompt": request.negative_prompt} if request.negative_prompt else {}
    return pipeline(
        prompt=request.prompt,
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        height=request.height,
        width=request.width,
        latents=as_latents(initial_noise(seed, shape)),
        output_type="np",
        **told,
        **({"clip_skip": request.clip_skip} if request.clip_skip else {}),
    ).images[0]
