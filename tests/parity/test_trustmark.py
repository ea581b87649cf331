"""The watermark against the package `trustmark`, whose results `trustmark_reference.py` has kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import trustmark_weights as weights
from watermarks import write_weights

from bot.provenance.payload import BITS, bits_of
from bot.provenance.watermark import add, middle
from sdjax_engine.watermark import Program
from sdjax_engine.watermark_tasks import PIXELS, SEEN

pytestmark = pytest.mark.parity

NUMBERS = (0, 1, 2**60 - 1, 0x123456789ABCDEF, 0xFEDCBA987654321)
CASES = list(zip(((512, 512), (384, 640), (300, 200), (1100, 700)), NUMBERS, strict=False))
BOUND = 1e-4


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).with_name("trustmark_expected.npz")) as kept:
        return dict(kept)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The networks of true size, read from files as the package publishes them."""
    shapes = {"encoder": weights.encoder_shapes(), "decoder": weights.decoder_shapes()}
    folder = write_weights(tmp_path_factory.mktemp("trustmark"), shapes)
    return Program(str(folder))


def test_the_bits_of_numbers_are_the_packages(expected: dict[str, np.ndarray]) -> None:
    assert [bits_of(number) for number in NUMBERS] == expected["bits"].tolist()


@pytest.mark.parametrize(("size", "number"), CASES)
def test_a_marked_picture_is_the_packages(
    program: Program, expected: dict[str, np.ndarray], size: tuple[int, int], number: int
) -> None:
    picture = PIL.Image.fromarray(weights.picture(*size))
    name, square = "x".join(map(str, size)), picture.crop(middle(size))
    small = square.resize((PIXELS, PIXELS), PIL.Image.Resampling.BILINEAR)
    answer = program.residual(bytes(bits_of(number)) + small.tobytes())
    residual = np.frombuffer(answer, "<f4").reshape(PIXELS, PIXELS, 3)
    difference = np.abs(residual[::16, ::16] - expected[f"residual {name}"]).max()
    print(f"residual {name}: {difference:.1e}")
    assert difference <= BOUND
    add(picture, residual)
    marked = np.asarray(picture)
    edges = np.concatenate([marked[:4, ::11].ravel(), marked[::11, -4:].ravel()])
    for ours, theirs in ((marked[::9, ::7], expected[f"marked {name}"]), (edges, expected[f"edges {name}"])):
        apart = np.abs(ours.astype(int) - theirs)
        assert apart.max() <= 1
        assert (apart > 0).mean() < 0.001  # a value that is rounded to the next byte


@pytest.mark.parametrize("size", [size for size, _ in CASES])
def test_the_numbers_in_a_picture_are_the_packages(
    program: Program, expected: dict[str, np.ndarray], size: tuple[int, int]
) -> None:
    square = PIL.Image.fromarray(weights.picture(*size)).crop(middle(size))
    seen = square.resize((SEEN, SEEN), PIL.Image.Resampling.BILINEAR)
    ours = np.frombuffer(program.bits(seen.tobytes()), "<f4")
    difference = np.abs(ours - expected[f"numbers {'x'.join(map(str, size))}"]).max()
    print(f"numbers: {difference:.1e}")
    assert len(ours) == BITS
    assert difference <= BOUND
