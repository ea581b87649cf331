"""Control pictures made of ordinary ones, without a network: edges, lines, and small copies.

Each takes and returns pixels (height, width, 3) uint8 of a lane's size. Time and memory grow with the pixels,
of which there are `MOST_PIXELS` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from sdjax_engine.request import ControlType

Pixels = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]
MOST_PIXELS = 2**24
LOW, HIGH = 100, 200  # of 2040: the thresholds that ControlNets for edges were trained with
MOST_ROUNDS = 4096  # pixels that a faint edge may lead away from a strong one
TANGENT = 13573  # of 22.5 degrees, times 2 to the power of 15
BLUR, FAINT, LEAST_INTENSITY, GREY = 6.0, 8, 16, 127.0  # of the line drawings that networks were trained with
SHRUNK = 8


def control_picture(pixels: Pixels, kind: ControlType) -> Pixels:
    """Return the control picture that is made of this picture, or the picture, if it is one already.

    Raises ValueError for more than `MOST_PIXELS`.
    """
    if pixels.shape[0] * pixels.shape[1] > MOST_PIXELS:
        raise ValueError(
            f"a picture of {pixels.shape[1]}×{pixels.shape[0]} is too large for a control picture"
        )
    maker = MAKERS.get(kind)
    return pixels if maker is None else maker(pixels)


def edges(pixels: Pixels) -> Pixels:
    """Return white edges on black (Canny 1986), pixel for pixel those of OpenCV's `Canny(…, 100, 200)`.

    An edge that is connected to a strong one by more than `MOST_ROUNDS` faint pixels ends before.
    """
    across, down, size = steepest(pixels)
    ridge = is_ridge(across, down, size)
    strong = ridge & (size > HIGH)
    found = grown(strong, ridge)
    return np.repeat((found * np.uint8(255))[:, :, None], 3, axis=2)


def steepest(pixels: Pixels) -> tuple[Numbers, Numbers, Numbers]:
    """Return each pixel's slopes (Sobel's) to the right and down in its steepest colour, and their size."""
    padded = np.pad(pixels.astype(np.int32), ((1, 1), (1, 1), (0, 0)), mode="edge")
    smooth = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    across = smooth[:, 2:] - smooth[:, :-2]
    smooth = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    down = smooth[2:] - smooth[:-2]
    size = np.abs(across) + np.abs(down)
    colour = size.argmax(axis=2)[:, :, None]
    chosen = (np.take_along_axis(each, colour, axis=2)[:, :, 0] for each in (across, down, size))
    return next(chosen), next(chosen), next(chosen)


def is_ridge(across: Numbers, down: Numbers, size: Numbers) -> npt.NDArray[np.bool_]:
    """Return where a slope is larger than its neighbours' along its own direction, and than `LOW`."""
    height, width = size.shape
    padded = np.pad(size, 1)

    def beside(rows: int, columns: int) -> Numbers:
        return padded[1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    horizontal, vertical = np.abs(across).astype(np.int64), np.abs(down).astype(np.int64) << 15
    flat = vertical < horizontal * TANGENT
    steep = vertical > horizontal * TANGENT + (horizontal << 16)
    rising = (across ^ down) < 0
    along = (size > beside(0, -1)) & (size >= beside(0, 1))
    upright = (size > beside(-1, 0)) & (size >= beside(1, 0))
    falling = (size > beside(-1, -1)) & (size > beside(1, 1))
    climbing = (size > beside(-1, 1)) & (size > beside(1, -1))
    largest = np.where(flat, along, np.where(steep, upright, np.where(rising, climbing, falling)))
    ridge: npt.NDArray[np.bool_] = largest & (size > LOW)
    return ridge


def grown(seeds: npt.NDArray[np.bool_], allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the seeds and all allowed pixels that touch them, directly or by others, corners included."""
    height, width = seeds.shape
    found, free = np.pad(seeds, 1), np.pad(allowed & ~seeds, 1)
    line = width + 2
    around = np.array([rows * line + columns for rows in (-1, 0, 1) for columns in (-1, 0, 1)])
    found, free = found.ravel(), free.ravel()
    front = np.flatnonzero(found)
    for _ in range(MOST_ROUNDS):
        near = (front[:, None] + around).ravel()
        near = near[free[near]]
        if not near.size:
            break
        found[near], free[near] = True, False
        front = np.unique(near)
    return found.reshape(height + 2, line)[1:-1, 1:-1]


def lines(pixels: Pixels) -> Pixels:
    """Return a drawing in white lines on black: where a picture is darker than its surroundings."""
    around = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(BLUR)), np.float32)
    darker = np.clip((around - pixels).min(axis=2), 0, 255)
    visible = darker[darker > FAINT]
    usual = max(LEAST_INTENSITY, float(np.median(visible)) if visible.size else 0.0)
    drawn = np.clip(darker / usual * GREY, 0, 255).astype(np.uint8)
    return np.repeat(drawn[:, :, None], 3, axis=2)


def tile(pixels: Pixels) -> Pixels:
    """Return the picture without its details: at an eighth of its size, enlarged again."""
    height, width = pixels.shape[:2]
    picture = Image.fromarray(pixels)
    small = picture.resize((max(1, width // SHRUNK), max(1, height // SHRUNK)), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC), np.uint8)


MAKERS: Mapping[ControlType, Callable[[Pixels], Pixels]] = MappingProxyType(
    {ControlType.EDGES: edges, ControlType.LINES: lines, ControlType.TILE: tile}
)
