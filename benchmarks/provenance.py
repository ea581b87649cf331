"""The cost of the marks: milliseconds and bytes per picture, compared with saving the PNG without them.

    python benchmarks/provenance.py [--rounds 50] [--sides 128 512 1024] [--watermark FOLDER]

The pictures have the spectrum of photographs. In each round a picture is saved as in the worker and marked as
in the front; the peer of the marks is the saving in the same round. Times are medians over the rounds, with
the 99th percentile; ratios are medians. Every file is read back: the library's reader must accept the
manifest, and the file without it must be unchanged. With the folder of the watermark's weights, its own cost
is printed: a PNG is decoded, marked and saved again, and a mark is looked for.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

import c2pa
import numpy as np
import numpy.typing as npt
from conditions import Stolen, print_conditions
from percentiles import percentile

from bot.config import ProvenanceConfig
from bot.provenance.manifests import SETTINGS, unmarked
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from sdjax_engine.images import encode_png
from sdjax_engine.request import Request, Sampler


@dataclass(frozen=True, kw_only=True)
class SigningCost:
    """One round: seconds to save and to sign, and bytes before and after."""

    saved: float
    signed: float
    before: int
    after: int


def picture(seed: int, side: int) -> npt.NDArray[np.uint8]:
    """Return a picture (side, side, 3) whose amplitudes fall with the frequency, as in photographs."""
    random = np.random.default_rng(seed)
    rows, columns = np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None, :]
    falling = 1 / np.maximum(np.hypot(rows, columns), 1 / side) ** 1.1
    noise = np.fft.fft2(random.standard_normal((3, side, side))) * falling
    values = np.fft.ifft2(noise).real.transpose(1, 2, 0)
    return np.clip(128 + 50 * (values - values.mean()) / values.std(), 0, 255).astype(np.uint8)


def request(seed: int, side: int) -> Request:
    """Return the request whose recipe is in the file."""
    return Request(
        prompt="a red heart left of a blue star",
        seed=seed,
        num_inference_steps=20,
        guidance_scale=5.0,
        sampler=Sampler.DDIM,
        height=side,
        width=side,
        model="measured",
    )


def measure(signing: Signing, seed: int, side: int) -> SigningCost:
    """Save and sign one picture; raises SystemExit if the reader rejects the manifest."""
    pixels = picture(seed, side)
    begun = time.perf_counter()
    file = encode_png(pixels, request(seed, side))
    saved = time.perf_counter()
    signed = signing.signed(file)
    ended = time.perf_counter()
    check(signed, file)
    return SigningCost(saved=saved - begun, signed=ended - saved, before=len(file), after=len(signed))


def check(signed: bytes, file: bytes) -> None:
    """Raise SystemExit unless `signed` is `file` with a right manifest."""
    with (
        c2pa.Context.from_dict(SETTINGS) as context,
        c2pa.Reader("image/png", io.BytesIO(signed), context=context) as reader,
    ):
        state = json.loads(reader.json())["validation_state"]
    if state != "Valid" or unmarked(signed) != file:
        raise SystemExit(f"a signed file is not right: {state}")


def watermark_times(signing: Signing, seed: int, side: int) -> tuple[float, float]:
    """Return the seconds to put a watermark into a PNG, and to look for it."""
    file = encode_png(picture(seed, side), request(seed, side))
    begun = time.perf_counter()
    marked = signing.marked(file)
    put = time.perf_counter()
    signing.number_in(marked)
    return put - begun, time.perf_counter() - put


def print_watermark(folder: str, *, sides: Sequence[int], rounds: int) -> None:
    """Print the costs of the watermark whose weights are in `folder`, without other marks."""
    begun = time.perf_counter()
    signing = open_signing(ProvenanceConfig(sign=False, watermark=folder))
    print(f"watermark: its process is ready after {time.perf_counter() - begun:.1f} s")
    for side in sides:
        watermark_times(signing, 0, side)
        put, found = zip(
            *(watermark_times(signing, seed, side) for seed in range(1, rounds + 1)), strict=True
        )
        print(
            f"{side}²: put and saved in {1e3 * statistics.median(put):.0f} ms "
            f"(p99 {1e3 * percentile(put, 99):.0f}), looked for in {1e3 * statistics.median(found):.0f} ms"
        )
    signing.close()


def main() -> None:
    """Print the costs of each side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--sides", type=int, nargs="+", default=[128, 512, 1024])
    parser.add_argument("--watermark", default="")
    options = parser.parse_args()
    print_conditions("c2pa-python", "cryptography", "pillow", "numpy", "jax")
    stolen = Stolen()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        signing = open_signing(ProvenanceConfig(folder=folder))
        print(f"first start, with a new self-made certificate: {1e3 * (time.perf_counter() - begun):.0f} ms")
        for side in options.sides:
            measure(signing, 0, side)
            costs = [measure(signing, seed, side) for seed in range(1, options.rounds + 1)]
            saved = 1e3 * statistics.median(cost.saved for cost in costs)
            signed = [1e3 * cost.signed for cost in costs]
            print(
                f"{side}²: saved in {saved:.1f} ms, marked in "
                f"{statistics.median(signed):.2f} ms more (p99 {percentile(signed, 99):.2f}), "
                f"ratio {statistics.median((cost.saved + cost.signed) / cost.saved for cost in costs):.3f}; "
                f"{statistics.median(cost.before for cost in costs):.0f} bytes and "
                f"{statistics.median(cost.after - cost.before for cost in costs):.0f} more, "
                f"ratio {statistics.median(cost.after / cost.before for cost in costs):.4f}"
            )
    if options.watermark:
        print_watermark(options.watermark, sides=options.sides, rounds=options.rounds)
    print(f"stolen by other machines: {stolen.share():.1%}")


if __name__ == "__main__":
    main()
