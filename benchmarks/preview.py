"""The cost of previews: the same pictures with and without previews, in turns, on one engine.

    python benchmarks/preview.py [--rounds 5] [--checkpoint demo|sd15|FOLDER] [--seconds 3 0.5]

All seats are always taken. A round paints the pictures once without previews, and once with previews at most
every `--seconds`; the peer of each figure is the engine without previews in the same round. Ratios are
medians over the rounds, with the least and the largest. "colours" are previews by the linear map, "TAESD"
previews by a random tiny autoencoder of true size. The engine makes fewer previews if they would take more
than 2 % of a lane's time, so there are fewer TAESD previews. The goal is 1.02 of the processor's time. `sd15`
is a random checkpoint of Stable Diffusion 1.5's size; on a CPU it is painted at 128² with few steps. The
host's work for a preview is printed too, in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from conditions import Stolen, print_conditions
from engine_checkpoints import checkpoint, preview_decoder

from bot.delivery.pictures import preview_file
from bot.worker.preview_files import encode_preview
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.denoising.estimates import decoded_estimate, pooled
from sdjax_engine.denoising.state import StartPicture
from sdjax_engine.engine import Engine
from sdjax_engine.families.family import Latents
from sdjax_engine.families.stable_diffusion.latents import STABLE_DIFFUSION
from sdjax_engine.model.latent_rgb import coloured
from sdjax_engine.request import Lane, Offer, Progress, Request, Sampler
from sdjax_engine.weights.companions import load_preview_decoder

GOAL = 1.02
MODEL = "measured"
SEVERAL = 5  # repetitions of a decoded preview
SOME = 200  # repetitions of the host's own work


@dataclass(frozen=True, kw_only=True)
class PreviewWorkload:
    """The workload: pictures of this side with this number of steps."""

    source: Path
    side: int
    steps: int
    pictures: int

    @property
    def lane(self) -> Lane:
        """The only lane."""
        return Lane(model=MODEL, height=self.side, width=self.side, guided=True)

    @property
    def offer(self) -> Offer:
        """The offer of that lane."""
        return Offer(
            model=MODEL,
            sizes=((self.side, self.side),),
            num_inference_steps=self.steps,
            guidance_scale=5.0,
            sampler=Sampler.DDIM,
        )

    def request(self, seed: int) -> Request:
        """Return the request of one picture."""
        return Request(
            prompt="a red heart left of a blue star",
            seed=seed,
            num_inference_steps=self.steps,
            guidance_scale=5.0,
            sampler=Sampler.DDIM,
            height=self.side,
            width=self.side,
            model=MODEL,
        )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One half of a round: seconds, processor seconds, previews."""

    seconds: float
    worked: float
    previews: int


def paint(engine: Engine, work: PreviewWorkload, *, previews: bool) -> Measured:
    """Paint the pictures once."""
    told: list[Progress] = []
    began, worked = time.perf_counter(), time.process_time()
    futures = [
        engine.submit(work.request(seed), on_progress=told.append, previews=previews)
        for seed in range(work.pictures)
    ]
    for future in futures:
        future.result()
    return Measured(
        seconds=time.perf_counter() - began,
        worked=time.process_time() - worked,
        previews=sum(progress.preview is not None for progress in told),
    )


def measure(work: PreviewWorkload, *, seconds: float, rounds: int, cache: Path, decoder: Path | None) -> None:
    """Open an engine that makes previews at most every `seconds`, and print the ratios."""
    spec = ModelSpec(
        offer=work.offer,
        source=str(work.source),
        safety_checker=False,
        preview_decoder=None if decoder is None else str(decoder),
    )
    config = EngineConfig(
        models=(spec,),
        lanes=(work.lane,),
        start_pictures=False,
        cache_dir=cache,
        preview_seconds=seconds,
    )
    pairs: list[tuple[Measured, Measured]] = []
    with Engine.open(config, report=lambda _line: None) as engine:
        for _ in range(2):
            paint(engine, work, previews=True)  # fits the linear map, and calls every program once
        for turn in range(rounds):
            first, second = (
                paint(engine, work, previews=each) for each in ((False, True), (True, False))[turn % 2]
            )
            pairs.append((second, first) if turn % 2 == 0 else (first, second))
    per_picture = statistics.median(other.seconds for _, other in pairs) / work.pictures
    made = statistics.median(one.previews for one, _ in pairs)
    worked = [one.worked / other.worked for one, other in pairs]
    kind = "colours" if decoder is None else "TAESD"
    print(
        f"{seconds:6.2f} s, {kind}: {per_picture:.3f} s a picture without; "
        f"{made:.0f} previews of {work.pictures} pictures: "
        f"{spread([one.seconds / other.seconds for one, other in pairs])} of the time, "
        f"{spread(worked)} of the processor's (goal {GOAL}: "
        f"{'met' if statistics.median(worked) <= GOAL else 'missed'})",
        flush=True,
    )


def spread(ratios: list[float]) -> str:
    """Return the median, with the least and the largest in brackets, as text."""
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def decoding(side: int, decoder: Path) -> None:
    """Print the milliseconds of one decoded preview of this side on one device, without its copy."""
    component = load_preview_decoder(
        str(decoder),
        latents=Latents(cell=8, channels=4, multiple=8),
        dtype="float32",
        put=jax.device_put,
    )
    latents = np.zeros((1, side // 8, side // 8, 4), np.float32)
    start = StartPicture(latents=latents, mask=np.ones((*latents.shape[:3], 1), np.float32), channels=latents)
    program = jax.jit(partial(decoded_estimate, component.blueprint, 1.0))
    arguments = (component.parameters, latents, latents[:, None], start, np.ones((1, 2), np.float32))
    program(*arguments).block_until_ready()
    times = []
    for _ in range(SEVERAL):
        began = time.process_time()
        program(*arguments).block_until_ready()
        times.append(time.process_time() - began)
    print(f"{side:5d}² {1000 * statistics.median(times):7.0f} ms  devices: TAESD, the processor's time")


def host_work(side: int) -> None:
    """Print the milliseconds of the host's work for previews of pictures of this side."""
    numbers = np.random.default_rng(0)
    latents = numbers.standard_normal((side // 8, side // 8, 4)).astype(np.float32)
    pixels = numbers.integers(0, 256, (side, side, 3), dtype=np.uint8)
    colours = np.array(STABLE_DIFFUSION)
    small = coloured(latents, colours)
    decoded = np.asarray(pooled(jnp.asarray(pixels[None], jnp.float32)))[0].astype(np.uint8)
    file = encode_preview(small, coarse=False)
    tasks = {
        "engine: colours of a preview": lambda: coloured(latents, colours),
        "worker: its file": lambda: encode_preview(small, coarse=False),
        "worker: the file of a decoded preview (of noise)": lambda: encode_preview(decoded, coarse=False),
        "front: the picture of four": lambda: preview_file(
            dict.fromkeys(range(4), file), count=4, width=side, height=side
        ),
    }
    for name, task in tasks.items():
        began = time.perf_counter()
        for _ in range(SOME):
            task()
        print(f"{side:5d}² {1000 * (time.perf_counter() - began) / SOME:7.2f} ms  {name}")


def main() -> None:
    """Print conditions, the engine's ratios, and the host's own work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", default="demo", help="demo, sd15, or a folder")
    parser.add_argument("--side", type=int, default=128, help="of the pictures, in pixels")
    parser.add_argument("--steps", type=int, default=0, help="of each picture; 0: 50, of sd15 4")
    parser.add_argument("--pictures", type=int, default=0, help="of half a round; 0: 48, of sd15 12")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, nargs="+", default=[3.0, 0.5])
    wanted = parser.parse_args()
    print_conditions("jax", "jaxlib")
    large = wanted.checkpoint == "sd15"
    stolen = Stolen()
    with tempfile.TemporaryDirectory() as room:
        named = wanted.checkpoint in ("demo", "sd15")
        work = PreviewWorkload(
            source=checkpoint(wanted.checkpoint, Path(room)) if named else Path(wanted.checkpoint),
            side=wanted.side,
            steps=wanted.steps or (4 if large else 50),
            pictures=wanted.pictures or (12 if large else 48),
        )
        print(f"{wanted.checkpoint}, {work.side}², {work.steps} steps, {wanted.rounds} rounds")
        taesd = preview_decoder(Path(room))
        for seconds in wanted.seconds:
            for decoder in (None, taesd):
                measure(
                    work, seconds=seconds, rounds=wanted.rounds, cache=Path(room) / "cache", decoder=decoder
                )
        for side in (128, 512, 1024):
            decoding(side, taesd)
    for side in (512, 1024):
        host_work(side)
    print(f"{100 * stolen.share():.0f} % of the processors was stolen by other machines")


if __name__ == "__main__":
    main()
