"""Paints a task with one library, in its own process; `engine.py` starts it.

    engine_peers.py ours|removed|torch|compiled   # "removed" in the environment of the removed classes

Each input line is one JSON object, and each answer is one JSON line. The first line is the task; its answer
has the seconds until the first batch, and the pictures of a batch. Each further line requests one
measurement: its answer has the seconds of a picture, and the processor's seconds of all threads.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PROMPT = "a red circle on a white background"
WAVES = 3


@dataclass(frozen=True, kw_only=True)
class PeerTask:
    """A task: the checkpoint's folder, the picture's side, and the sampler's settings.

    `noise` is a file of the first noise (pictures, c, h, w) of the seeds from 0. `save` is the file for the
    first pictures, uint8 (pictures, height, width, 3). `batch` is the batch size of torch. The engine keeps
    its programs in the folder `cache`, if any; without `fitted` it has the programs of full lanes alone.
    `mode` is how torch compiles, on a GPU.
    """

    folder: str
    side: int
    steps: int
    guidance: float
    dtype: str
    sampler: str
    batch: int
    noise: str
    save: str
    platform: str
    cache: str = ""
    fitted: bool = True
    mode: str = "max-autotune-no-cudagraphs"


Measure = Callable[[], tuple[float, float]]
Painter = Callable[[PeerTask], tuple[int, Measure]]


def paint_ours(told: PeerTask) -> tuple[int, Measure]:
    """Paint with the engine as the bot uses it: requests are submitted, every seat is taken.

    A measurement is `WAVES` waves of as many pictures as there are seats, from the end of the first wave to
    the last picture in the host's memory: steady state, decoding and copies included.
    """
    from sdjax_engine import Engine, EngineConfig, ModelSpec, Offer, Request, Sampler  # noqa: PLC0415
    from sdjax_engine.config import Dtype  # noqa: PLC0415
    from sdjax_engine.request import Lane  # noqa: PLC0415

    sampler, size = Sampler(told.sampler), (told.side, told.side)
    asked = {"num_inference_steps": told.steps, "guidance_scale": told.guidance, "sampler": sampler}
    offer = Offer(model="model", sizes=(size,), prompt_chunks=1, **asked)
    lane = Lane(model="model", width=told.side, height=told.side, guided=told.guidance > 1)
    spec = ModelSpec(offer=offer, source=told.folder, safety_checker=False)
    options = {"dtype": Dtype(told.dtype), "lanes": (lane,), "start_pictures": False}
    kept = {"cache_dir": Path(told.cache) if told.cache else None}
    kept |= {} if told.fitted else {"fitted_programs": False}
    engine = Engine.open(EngineConfig(models=(spec,), **options, **kept), report=note_line)
    seats = engine.capacity(lane)

    def paint(seeds: range) -> tuple[list[Any], list[float]]:
        ends, lock = [], threading.Lock()

        def note(_future: Any) -> None:
            with lock:
                ends.append(time.perf_counter())

        futures = []
        for seed in seeds:
            request = Request(
                prompt=PROMPT, seed=seed, width=told.side, height=told.side, model="model", **asked
            )
            futures.append(engine.submit(request))
            futures[-1].add_done_callback(note)
        return [future.result().pixels for future in futures], sorted(ends)

    np.save(told.save, np.stack(paint(range(seats))[0]))

    def measure() -> tuple[float, float]:
        engine.wait_until_ready()  # compiling takes the devices too, to try kernels
        worked = time.process_time()
        _, ends = paint(range(WAVES * seats))
        worked = time.process_time() - worked
        return (ends[-1] - ends[seats - 1]) / ((WAVES - 1) * seats), worked / (WAVES * seats)

    return seats, measure


def note_line(line: str) -> None:
    """Print what became ready, and when; `main` redirects it to stderr, since answers are on stdout."""
    if line.startswith(("ready", "everything")):
        print(f"  ours: {line}", flush=True)


def paint_removed(told: PeerTask) -> tuple[int, Measure]:
    """Paint with the removed Flax pipeline, one picture on each device, by the guide's code."""
    import diffusers  # noqa: PLC0415
    import jax  # noqa: PLC0415
    from flax.jax_utils import replicate  # noqa: PLC0415
    from flax.training.common_utils import shard  # noqa: PLC0415

    if told.platform == "cpu":
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    count = jax.device_count()
    pipeline, params = diffusers.FlaxStableDiffusionPipeline.from_pretrained(
        told.folder, safety_checker=None, feature_extractor=None, dtype=getattr(jax.numpy, told.dtype)
    )
    scheduler = diffusers.FlaxDDIMScheduler.from_pretrained(told.folder, subfolder="scheduler")
    pipeline.scheduler, params["scheduler"] = scheduler
    params = replicate(params)
    keys = jax.numpy.stack([jax.random.PRNGKey(seed) for seed in range(count)])

    def paint() -> Any:
        ids = shard(pipeline.prepare_inputs([PROMPT] * count))
        asked = {"num_inference_steps": told.steps, "guidance_scale": told.guidance}
        size = {"height": told.side, "width": told.side}
        return np.asarray(pipeline(ids, params, keys, **asked, **size, jit=True)[0])

    return kept(paint, told, count)


def paint_torch(told: PeerTask, *, compiled: bool = False) -> tuple[int, Measure]:
    """Paint with `diffusers` on torch, in batches, with as many threads as cores."""
    import torch  # noqa: PLC0415
    from diffusers import DDIMScheduler, DiffusionPipeline, EulerDiscreteScheduler  # noqa: PLC0415

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    device = "cpu" if told.platform == "cpu" else "cuda"
    dtype = getattr(torch, told.dtype)
    pipeline = DiffusionPipeline.from_pretrained(told.folder, torch_dtype=dtype, safety_checker=None)
    scheduler = {"ddim": DDIMScheduler, "euler": EulerDiscreteScheduler}[told.sampler]
    pipeline.scheduler = scheduler.from_config(pipeline.scheduler.config)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.to(device)
    if device == "cuda":
        pipeline.unet.to(memory_format=torch.channels_last)
        pipeline.vae.to(memory_format=torch.channels_last)
    if compiled:
        mode = "default" if device == "cpu" else told.mode
        pipeline.unet = torch.compile(pipeline.unet, mode=mode)
        pipeline.vae.decode = torch.compile(pipeline.vae.decode, mode=mode)
    noise = torch.from_numpy(np.load(told.noise)[: told.batch]).to(device, dtype)

    def paint() -> Any:
        made = pipeline(
            [PROMPT] * told.batch,
            latents=noise,
            num_inference_steps=told.steps,
            guidance_scale=told.guidance,
            height=told.side,
            width=told.side,
            output_type="np",
        )
        return made.images

    return kept(paint, told, told.batch)


def kept(paint: Callable[[], Any], told: PeerTask, count: int) -> tuple[int, Measure]:
    """Paint once, save the pictures, and return how many, and how to measure a further call.

    `paint` returns values from 0 to 1.
    """
    pictures = np.asarray(paint(), np.float32).reshape(count, told.side, told.side, 3)
    np.save(told.save, np.round(pictures * 255).astype(np.uint8))

    def measure() -> tuple[float, float]:
        begun, worked = time.perf_counter(), time.process_time()
        paint()
        return (time.perf_counter() - begun) / count, (time.process_time() - worked) / count

    return count, measure


PAINTERS: dict[str, Painter] = {
    "ours": paint_ours,
    "removed": paint_removed,
    "torch": paint_torch,
    "compiled": lambda told: paint_torch(told, compiled=True),
}


def main(name: str) -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        told = PeerTask(**json.loads(sys.stdin.readline()))
        begun = time.perf_counter()
        count, measure = PAINTERS[name](told)
        first = {"seconds": time.perf_counter() - begun, "count": count}
        print(json.dumps(first), file=answers, flush=True)
        for _ in sys.stdin:
            print(json.dumps(measure()), file=answers, flush=True)
    os._exit(0)  # without waiting for threads of the libraries


if __name__ == "__main__":
    main(sys.argv[1])
