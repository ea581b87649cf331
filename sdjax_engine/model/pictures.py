"""Picture files to arrays of a lane's size; no JAX here.

The caller has checked the files already; a file that cannot be read is refused with InvalidRequest.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from PIL import Image as Pictures
from PIL import ImageOps

from sdjax_engine.control_pictures import MAKERS, control_picture
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.images import UNREADABLE
from sdjax_engine.request import Request

READABLE = ("PNG", "JPEG", "WEBP")
HALF = 128
MOST_TIMES = 4  # the longest side of a picture that is a prompt, by its shortest, before it is resized


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A start picture of the size to paint, uint8 (height, width, 3), and a mask, True where repainted."""

    pixels: npt.NDArray[np.uint8] = field(repr=False)
    mask: npt.NDArray[np.bool_] = field(repr=False)


def fitted(request: Request) -> Fitted | None:
    """Return the start picture of `request`, None where it starts from noise alone; raises InvalidRequest.

    A picture of another shape is cropped to its middle; the mask is resized to the picture and cropped in the
    same way. Both are turned upright by their EXIF. Transparent pixels are white in the picture and black in
    the mask: they are kept. A mask is refused if nothing of it is white, in its file or after it is cropped.
    """
    if request.init_image is None:
        return None
    picture = _read(request.init_image, "init_image", background="white")
    size = (request.width, request.height)
    mask = np.ones(size[::-1], np.bool_)
    if request.mask_image is not None:
        drawn = _read(request.mask_image, "mask_image", background="black").convert("L")
        if np.asarray(drawn).max() < HALF:
            raise InvalidRequest("mask_black")
        if drawn.size != picture.size:
            drawn = drawn.resize(picture.size, Pictures.Resampling.NEAREST)
        mask = np.asarray(ImageOps.fit(drawn, size, Pictures.Resampling.NEAREST)) >= HALF
        if not mask.any():
            raise InvalidRequest("mask_cut")
    if picture.size != size:
        picture = ImageOps.fit(picture, size, Pictures.Resampling.LANCZOS)
    return Fitted(pixels=np.asarray(picture, np.uint8), mask=mask)


def references_of(request: Request) -> tuple[Fitted, ...]:
    """Return the reference pictures of `request` in the size to paint; raises InvalidRequest.

    A picture of another shape is cropped to its middle. Transparent pixels are white.
    """
    size = (request.width, request.height)
    read = (_read(file, "references", background="white") for file in request.references)
    everywhere = np.ones(size[::-1], np.bool_)
    return tuple(
        Fitted(pixels=np.asarray(ImageOps.fit(each, size, Pictures.Resampling.LANCZOS)), mask=everywhere)
        for each in read
    )


def control_pixels(request: Request) -> npt.NDArray[np.uint8]:
    """Return the control picture of `request`, uint8 (height, width, 3); raises InvalidRequest.

    A picture of another shape is cropped to its middle, before edges, lines or a tile are made of it.
    Transparent pixels are white where something is made of the picture, and black in a control picture.
    """
    assert request.control_image is not None, "only a request with a control picture is asked for it"
    background = "white" if request.control_type in MAKERS else "black"
    picture = _read(request.control_image, "control_image", background=background)
    size = (request.width, request.height)
    if picture.size != size:
        picture = ImageOps.fit(picture, size, Pictures.Resampling.LANCZOS)
    return control_picture(np.asarray(picture, np.uint8), request.control_type)


def prompt_pixels(data: bytes, side: int) -> bytes:
    """Return the middle of a picture that is a prompt, uint8 (side, side, 3); raises InvalidRequest.

    As in the reference, the shortest side is resized to `side` by Pillow's bicubic filter. Transparent pixels
    are white.
    """
    picture = _read(data, "image_prompt", background="white")
    shortest, most = min(picture.size), MOST_TIMES * min(picture.size)
    if max(picture.size) > most:  # a line of one pixel would become much larger; its ends are not seen
        picture = ImageOps.fit(picture, (min(picture.width, most), min(picture.height, most)))
    width, height = (max(side, side * each // shortest) for each in picture.size)
    picture = picture.resize((width, height), Pictures.Resampling.BICUBIC)
    left, top = (width - side) // 2, (height - side) // 2
    return picture.crop((left, top, left + side, top + side)).tobytes()


def _read(data: bytes, what: str, *, background: str) -> Pictures.Image:
    """Return the picture in `data`, upright, in RGB over a plain background."""
    try:
        if not isinstance(data, bytes):  # a caller in Python may give anything, also an array of pixels
            raise TypeError(f"no bytes: {type(data)}")
        picture = Pictures.open(io.BytesIO(data), formats=READABLE)
        picture.load()
        return _flat(ImageOps.exif_transpose(picture), background)
    except (*UNREADABLE, zlib.error, Pictures.DecompressionBombError) as error:
        raise InvalidRequest("picture", what=what) from error


def _flat(picture: Pictures.Image, background: str) -> Pictures.Image:
    if picture.mode.startswith("I"):  # 16-bit grey, which a conversion would clip at 255
        picture = picture.point(lambda value: value * (1 / 256)).convert("L")
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    flat = Pictures.new("RGB", picture.size, background)
    layer = picture.convert("RGBA")
    flat.paste(layer, mask=layer.getchannel("A"))
    return flat


def second_start(pixels: npt.NDArray[np.uint8], second: Request, *, masked: Fitted | None) -> Fitted:
    """Return the start picture of a second pass: the pixels (height, width, 3) of the first, enlarged.

    `masked` is the request's own start picture of the second size where it has a mask: where that is black,
    its pixels are kept in this pass too.
    """
    picture = ImageOps.fit(
        Pictures.fromarray(pixels), (second.width, second.height), Pictures.Resampling.LANCZOS
    )
    enlarged = np.asarray(picture, np.uint8)
    if masked is None:
        return Fitted(pixels=enlarged, mask=np.ones((second.height, second.width), np.bool_))
    return replace(masked, pixels=np.where(masked.mask[:, :, None], enlarged, masked.pixels))
