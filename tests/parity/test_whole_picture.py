"""The finished picture against the reference's pipeline: same checkpoint, same first noise, every sampler.

Ours is painted by the engine's own programs, in a lane whose seats hold all samplers at once; the
reference paints one after the other. Differences are the largest of any value of the picture on the
scale from 0 to 1, before it is rounded to whole numbers. Run with `-s` to see the figures.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checkpoints import make_tiny_checkpoint
from diffusers import StableDiffusionPipeline
from flax import nnx

from sdjax_engine import devices, noise, painting
from sdjax_engine.lanes import DeviceLane
from sdjax_engine.loaded import LoadedModel
from sdjax_engine.programs import Compiler
from sdjax_engine.request import Lane, Offer, Request, Sampler
from sdjax_engine.samplers import SAMPLERS
from sdjax_engine.weights import load_checkpoint

pytestmark = [
    pytest.mark.parity,
    # The reference hands torch tensors to NumPy 2, which tells torch so.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"),
]

STEPS = 20
TOLERANCE = 2e-3
Pictures = dict[tuple[Sampler, bool], npt.NDArray[np.float32]]


def request_for(sampler: Sampler, *, guided: bool) -> Request:
    return Request(
        prompt="a red circle on a white background",
        negative_prompt="a blue star",
        seed=list(Sampler).index(sampler),
        num_inference_steps=STEPS,
        guidance_scale=5.0 if guided else 1.0,
        sampler=sampler,
        height=64,
        width=48,
        model="tiny",
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def ours(checkpoint: Path) -> Pictures:
    """Pictures (height, width, 3) from 0 to 1, before rounding."""
    devices.setup_cpu(2)
    compiler = Compiler(mesh=devices.open_mesh(), report=lambda _line: None)
    loaded = load_checkpoint(str(checkpoint), put=lambda each: devices.replicate(each, compiler.mesh))
    offer = Offer(
        model="tiny", sizes=((48, 64),), num_inference_steps=STEPS, guidance_scale=5.0, sampler=Sampler.DDIM
    )
    model = LoadedModel(offer, loaded, compiler)
    pictures: Pictures = {}
    for guided in (True, False):
        requests = [request_for(sampler, guided=guided) for sampler in Sampler]
        for request, picture in zip(requests, paint(model, compiler, requests), strict=True):
            pictures[request.sampler, guided] = picture
    return pictures


def paint(model: LoadedModel, compiler: Compiler, requests: list[Request]) -> npt.NDArray[np.float32]:
    lane: Lane = requests[0].lane
    count = devices.device_count(compiler.mesh)
    device = DeviceLane(lane, model, seats_per_device=-(-len(requests) // count), compiler=compiler)
    prepared = {seat: model.prepare(request) for seat, request in enumerate(requests)}
    device.admit(prepared)
    device.denoise({seat: (0, each.evaluations) for seat, each in prepared.items()})
    decode = nnx.merge(model.vae.graphdef, model.vae.state).decode
    latents = jnp.asarray(device.latents()[: len(requests)])
    return np.asarray(painting.to_unit(decode(latents / model.scaling_factor)))


@pytest.fixture(scope="module")
def pipeline(checkpoint: Path) -> Iterator[StableDiffusionPipeline]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # these arrays are too small to share out
    pipeline = StableDiffusionPipeline.from_pretrained(checkpoint, safety_checker=None)
    pipeline.set_progress_bar_config(disable=True)
    yield pipeline
    torch.set_num_threads(threads)


@pytest.fixture
def our_noise(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets the reference's ancestral steps draw our noise, of the seed in the list."""
    seed: list[int] = []
    drawn: list[int] = []

    def draw(shape: tuple[int, ...], **_ignored: Any) -> torch.Tensor:
        _, channels, height, width = shape
        z = noise.fresh_noise(jnp.uint32(seed[0]), jnp.int32(len(drawn)), (height, width, channels))
        drawn.append(len(drawn))
        return as_latents(z)

    reference = importlib.import_module("diffusers.schedulers.scheduling_euler_ancestral_discrete")
    monkeypatch.setattr(reference, "randn_tensor", draw)
    return seed


def as_latents(noise: jax.Array) -> torch.Tensor:
    """Noise (h, w, c) as the reference has it, (1, c, h, w)."""
    return torch.from_numpy(np.array(noise).transpose(2, 0, 1)[None])


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("sampler", Sampler)
def test_the_picture_is_the_references(
    sampler: Sampler,
    guided: bool,
    ours: Pictures,
    pipeline: StableDiffusionPipeline,
    our_noise: list[int],
) -> None:
    request = request_for(sampler, guided=guided)
    our_noise.append(request.seed)
    shape = (request.height // 8, request.width // 8, 4)
    pipeline.scheduler = reference_scheduler(sampler, pipeline.scheduler.config)
    theirs = pipeline(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        num_inference_steps=STEPS,
        guidance_scale=request.guidance_scale,
        height=request.height,
        width=request.width,
        latents=as_latents(noise.initial_noise(jnp.uint32(request.seed), shape)),
        output_type="np",
    ).images[0]
    difference = float(np.abs(ours[sampler, guided] - theirs).max())
    print(f"\n{sampler} {'guided' if guided else 'unguided'}: {difference:.1e}")
    assert difference <= TOLERANCE


def reference_scheduler(sampler: Sampler, config: Any) -> Any:
    # Built with a DDIMScheduler, the pipeline itself switches `clip_sample` off.
    settings = {Sampler.DPMPP_2M_KARRAS: {"use_karras_sigmas": True}, Sampler.DDIM: {"clip_sample": False}}
    kind = getattr(importlib.import_module("diffusers"), SAMPLERS[sampler].reference)
    return kind.from_config(config, **settings.get(sampler, {}))


def test_the_first_noise_is_the_removed_flax_pipelines() -> None:
    """One key for the image, drawn as (batch, channels, height, width)."""
    theirs = jax.random.normal(jax.random.PRNGKey(7), (1, 4, 8, 6), jnp.float32)
    ours = noise.initial_noise(jnp.uint32(7), (8, 6, 4))
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs)[0].transpose(1, 2, 0))
