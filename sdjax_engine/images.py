"""Pictures as files: PNG, WebP and JPEG with their recipe inside, and grids; no JAX here.

A file carries its recipe twice: as the `parameters` text that other tools read (the form of
AUTOMATIC1111's web UI) and, exactly, as JSON. PNG has them in the text chunks `parameters` and `sdjax`,
WebP and JPEG in EXIF's UserComment, as that web UI does, and in EXIF's MakerNote.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import PIL.Image
from PIL.ExifTags import IFD, Base
from PIL.PngImagePlugin import PngInfo

from sdjax_engine.errors import EngineError
from sdjax_engine.request import (
    SAMPLER_NAMES,
    WHOLE,
    ControlType,
    Int8,
    Lora,
    Request,
    Sampler,
    SecondPass,
    Variation,
)

RECIPE_CHUNK = "sdjax"
RECIPE_VERSION = 1
PARAMETERS_CHUNK = "parameters"
UNICODE = b"UNICODE\0"  # what EXIF puts before a UserComment of UTF-16
OURS = b"sdjax\0"
PICTURES = frozenset(
    {"init_image", "mask_image", "control_image", "image_prompt"}
)  # the fields with picture files

SAMPLER_LABELS: Mapping[Sampler, str] = MappingProxyType(
    {**SAMPLER_NAMES, Sampler.PNDM: "PLMS", Sampler.EULER_ANCESTRAL: "Euler a"}  # that web UI's names
)

UNREADABLE = (OSError, ValueError, SyntaxError, KeyError, TypeError, struct.error)  # what Pillow raises

NEWER = (
    *("strength", "loras", "variations", "second_pass", "guidance_interval", "clip_skip"),
    *("controlnet", "control_type", "control_strength", "control_interval", "image_prompt_strength"),
    "references",
)
"""The fields that a recipe lacks where they have their defaults, for older versions."""
DEFAULTS = {field.name: field.default for field in dataclasses.fields(Request)}

NO_EXTRA: Mapping[str, str] = MappingProxyType({})


class NoRecipe(EngineError):
    """The file carries no recipe of ours, or is no picture at all."""


def parameters_text(request: Request, *, from_picture: bool = False, int8: Collection[Int8] = ()) -> str:
    """The recipe as AUTOMATIC1111's web UI writes it: prompt, negative prompt, one line of settings.

    With `from_picture` the request starts from a picture that it may lack, and so it may its control picture.
    `int8` are the parts of the model whose weights were INT8.
    """
    settings = {
        "Steps": str(request.num_inference_steps),
        "Sampler": SAMPLER_LABELS[request.sampler],
        "CFG scale": f"{request.guidance_scale:g}",
        "Seed": str(request.seed),
        "Size": f"{request.width}x{request.height}",
        "Model": request.model,
        **({"INT8": ", ".join(int8)} if int8 else {}),
    }
    if from_picture or request.init_image is not None:
        settings["Denoising strength"] = f"{request.strength:g}"
    if (second := request.second_pass) is not None:
        settings["Denoising strength"] = f"{second.strength:g}"
        settings["Hires resize"] = f"{second.width}x{second.height}"
        settings["Hires steps"] = str(max(1, int(second.num_inference_steps * second.strength)))
        settings["Hires upscaler"] = "Lanczos"
    if request.clip_skip:
        settings["Clip skip"] = str(request.clip_skip + 1)  # that web UI counts the layer that is used
    if request.guidance_interval != WHOLE:
        settings["Guidance interval"] = "-".join(f"{share:g}" for share in request.guidance_interval)
    if request.control_image is not None or request.controlnet:
        module, model = request.control_type, request.controlnet or "default"
        start, stop = request.control_interval
        settings["ControlNet 0"] = (
            f"Module: {module}, Model: {model}, Weight: {request.control_strength:g}, "
            f"Guidance Start: {start:g}, Guidance End: {stop:g}"
        )
    if request.image_prompt is not None:
        settings["Image prompt strength"] = f"{request.image_prompt_strength:g}"
    if len(request.variations) == 1:
        [variation] = request.variations
        settings["Variation seed"] = str(variation.seed)
        settings["Variation seed strength"] = f"{variation.strength:g}"
    if request.loras:
        settings["LoRA"] = ", ".join(f"{lora.name}:{lora.weight:g}" for lora in request.loras)
    lines = [request.prompt]
    if request.negative_prompt:
        lines.append(f"Negative prompt: {request.negative_prompt}")
    lines.append(", ".join(f"{name}: {_quoted(value)}" for name, value in settings.items()))
    return "\n".join(lines)


def encode_png(
    pixels: npt.NDArray[np.uint8],
    request: Request,
    *,
    extra: Mapping[str, str] = NO_EXTRA,
    int8: Collection[Int8] = (),
) -> bytes:
    """PNG of uint8 `pixels` (height, width, 3) with the recipe inside; equal input gives equal bytes.

    `extra` (a job's id, say) goes into the JSON beside the recipe. The pictures that the request starts from
    are not repeated: the recipe names them by their sha256. `int8` are the parts of the model whose weights
    were INT8.
    """
    recipe = {"version": RECIPE_VERSION, "request": _values(request), "extra": dict(extra)}
    recipe |= {"int8": list(int8)} if int8 else {}
    chunks, text = PngInfo(), parameters_text(request, int8=int8)
    # UTF-8 has no half surrogate pairs (as from a broken terminal): only the JSON keeps them.
    chunks.add_text(PARAMETERS_CHUNK, text.encode("utf-8", "replace").decode("utf-8"))
    chunks.add_text(RECIPE_CHUNK, json.dumps(recipe, sort_keys=True))
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, format="PNG", pnginfo=chunks, compress_level=6)
    return file.getvalue()


def encode_webp(png: PIL.Image.Image, *, quality: int = 80, lossless: bool = False) -> bytes:
    """WebP of a picture opened from a file of `encode_png`, its recipe inside; equal input, equal bytes."""
    return _encode(png, format="WEBP", quality=quality, lossless=lossless, method=4)


def encode_jpeg(png: PIL.Image.Image, *, quality: int) -> bytes:
    """JPEG of a picture opened from a file of `encode_png`, its recipe inside; equal input, equal bytes."""
    return _encode(png, format="JPEG", quality=quality, optimize=True)


def read_recipe(file: str | Path | BinaryIO, *, pictures: Iterable[bytes] = ()) -> Request:
    """The request whose picture `file` holds; raises `NoRecipe`. The pixels are not decoded.

    Where the request starts from other pictures, `pictures` must hold those files.
    """
    return _parse_recipe(_recipe_text(file), {_digest(picture): picture for picture in pictures})


def has_recipe(data: bytes) -> bool:
    """Whether a file says how a picture was painted."""
    try:
        return bool(_recipe_text(io.BytesIO(data)))
    except NoRecipe:
        return False


def starts_from_picture(data: bytes) -> bool:
    """Whether a file's recipe says that the picture was painted from others, or over a part of one."""
    return start_of(data) is not None or bool(references_of(data))


def start_of(data: bytes) -> str | None:
    """The sha256 of the picture that a file's picture was painted from, by its recipe."""
    start = _told(data).get("init_image")
    return start if isinstance(start, str) else None


def references_of(data: bytes) -> list[str]:
    """The sha256 of each reference picture of a file's picture, by its recipe."""
    found = _told(data).get("references")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def inputs_of(data: bytes) -> list[tuple[str, str]]:
    """The pictures that a file's picture was painted with beside its start, by its recipe.

    Each is a field of the request, `references` for each of these, and a sha256.
    """
    told = _told(data)
    alone = [(name, told.get(name)) for name in ("control_image", "image_prompt")]
    found = [*alone, *(("references", digest) for digest in references_of(data))]
    return [(name, digest) for name, digest in found if isinstance(digest, str)]


def _told(data: bytes) -> dict[str, Any]:
    """The values of a file's recipe, unchecked; none where there is no recipe."""
    try:
        request = json.loads(_recipe_text(io.BytesIO(data)))["request"]
    except (NoRecipe, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return request if isinstance(request, dict) else {}


def _recipe_text(file: str | Path | BinaryIO) -> str:
    try:
        with PIL.Image.open(file, formats=["PNG", "WEBP", "JPEG"]) as picture:
            text = picture.info.get(RECIPE_CHUNK) or _recipe_in_exif(picture)
    except (*UNREADABLE, PIL.Image.DecompressionBombError) as error:
        raise NoRecipe(f"The file cannot be read as a PNG, WebP or JPEG picture: {error}") from error
    if not isinstance(text, str):
        raise NoRecipe("The picture carries no recipe.")
    return text


def grid_shape(count: int) -> tuple[int, int]:
    """(rows, columns) of the grid that shows `count` pictures: never more rows than columns."""
    rows = math.isqrt(count)
    return rows, math.ceil(count / rows)


def make_grid(pictures: Iterable[PIL.Image.Image], rows: int, columns: int) -> PIL.Image.Image:
    """One picture of `rows` × `columns` equal cells, filled row by row; cells left over are black.

    Pictures are read one at a time, so an iterator need not keep all of them in memory. Raises
    ValueError for no picture, more pictures than cells, or pictures of different sizes.
    """
    grid: PIL.Image.Image | None = None
    cell = (0, 0)
    for index, picture in enumerate(pictures):
        if grid is None:
            cell = picture.size
            grid = PIL.Image.new("RGB", (columns * cell[0], rows * cell[1]))
        if index >= rows * columns:
            raise ValueError(f"more pictures than a grid of {rows} × {columns} has cells")
        if picture.size != cell:
            raise ValueError("the pictures of a grid must have one size")
        row, column = divmod(index, columns)
        grid.paste(picture, (column * cell[0], row * cell[1]))
    if grid is None:
        raise ValueError("there is no picture to make a grid of")
    return grid


def _encode(png: PIL.Image.Image, **how: Any) -> bytes:
    file = io.BytesIO()
    picture = png if png.mode == "RGB" else png.convert("RGB")
    picture.save(file, exif=_exif(png.info), **how)
    return file.getvalue()


def _exif(chunks: Mapping[Any, Any]) -> bytes:
    """The texts of a PNG as EXIF, empty where there are none.

    JPEG allows 64 KiB of EXIF. The longest recipe takes half of that, because its letters are not escaped.
    """
    if RECIPE_CHUNK not in chunks:
        return b""
    comment = str(chunks.get(PARAMETERS_CHUNK, "")).encode("utf-16-be")
    recipe = json.loads(chunks[RECIPE_CHUNK])
    note = json.dumps(recipe, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    exif = PIL.Image.Exif()
    exif.endian = ">"
    exif[IFD.Exif] = {Base.UserComment: UNICODE + comment, Base.MakerNote: OURS + note}
    return exif.tobytes()


def _recipe_in_exif(picture: PIL.Image.Image) -> str | None:
    note = picture.getexif().get_ifd(IFD.Exif).get(Base.MakerNote)
    if not isinstance(note, bytes) or not note.startswith(OURS):
        return None
    return note.removeprefix(OURS).decode("utf-8", "surrogatepass")


def _quoted(value: str) -> str:
    """A setting's value, quoted if it contains a character that separates settings."""
    return json.dumps(value, ensure_ascii=False) if set(value) & set(',:\n"') else value


def _values(request: Request) -> dict[str, Any]:
    """A request as JSON values; newer fields at their defaults are left out, for older versions."""
    values = dataclasses.asdict(request)
    for name in PICTURES:
        picture = values.pop(name)
        if picture is not None:
            values[name] = _digest(picture)
    for name in NEWER:
        if getattr(request, name) == DEFAULTS[name]:
            del values[name]
    lists = {
        "loras": [[lora.name, lora.weight] for lora in request.loras],
        "variations": [[each.seed, each.strength] for each in request.variations],
        "guidance_interval": list(request.guidance_interval),
        "control_interval": list(request.control_interval),
        "references": [_digest(picture) for picture in request.references],
    }
    values |= {name: each for name, each in lists.items() if name in values}
    return values


def _digest(picture: bytes) -> str:
    return hashlib.sha256(picture).hexdigest()


def _parse_recipe(text: str, pictures: Mapping[str, bytes]) -> Request:
    try:
        recipe = json.loads(text)
        if recipe["version"] != RECIPE_VERSION:
            raise NoRecipe(f"The picture's recipe is of version {recipe['version']}, which is unknown here.")
        return _request(dict(recipe["request"]), pictures)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NoRecipe(f"The picture's recipe is damaged: {error}") from error


def _request(values: dict[str, Any], pictures: Mapping[str, bytes]) -> Request:
    """A request from JSON values; TypeError for a value of another type than `encode_png` writes."""
    kinds: dict[str, type] = {"guidance_scale": float, "strength": float, "sampler": str, "loras": list}
    kinds |= {"variations": list, "second_pass": dict, "guidance_interval": list, "control_interval": list}
    kinds |= {"controlnet": str, "control_type": str, "control_strength": float}
    kinds |= {"image_prompt_strength": float, "references": list}
    kinds |= dict.fromkeys(("seed", "num_inference_steps", "height", "width", "clip_skip"), int)
    kinds |= dict.fromkeys(("prompt", "negative_prompt", "model", *PICTURES), str)
    for name, value in values.items():
        if type(value) is not kinds[name] and not (kinds[name] is float and type(value) is int):
            raise TypeError(f"{name} is {value!r}")
    values |= _files(values, pictures)
    if "loras" in values:
        values["loras"] = tuple(
            Lora(name=str(name), weight=float(weight)) for name, weight in values["loras"]
        )
    if "variations" in values:
        values["variations"] = tuple(
            Variation(seed=int(seed), strength=float(strength)) for seed, strength in values["variations"]
        )
    for name in {"guidance_interval", "control_interval"} & values.keys():
        start, stop = map(float, values[name])
        values[name] = (start, stop)
    if "control_type" in values:
        values["control_type"] = ControlType(values["control_type"])
    if "second_pass" in values:
        values["second_pass"] = _second_pass(**values["second_pass"])
    return Request(**{**values, "sampler": Sampler(values["sampler"])})


def _files(values: Mapping[str, Any], pictures: Mapping[str, bytes]) -> dict[str, Any]:
    """The picture files of a request from their digests; raises `NoRecipe` where one is not there."""
    alone, references = PICTURES & values.keys(), values.get("references", [])
    for digest in (*(values[name] for name in alone), *references):
        if digest not in pictures:
            raise NoRecipe(f"The picture was painted from another one, of sha256 {digest}.")
    several = {"references": tuple(pictures[each] for each in references)} if "references" in values else {}
    return {name: pictures[values[name]] for name in alone} | several


def _second_pass(*, height: int, width: int, num_inference_steps: int, strength: float) -> SecondPass:
    numbers = {"height": height, "width": width, "num_inference_steps": num_inference_steps}
    if any(type(value) is not int for value in numbers.values()) or type(strength) not in (int, float):
        raise TypeError(f"a second pass of {numbers} and {strength!r}")
    return SecondPass(**numbers, strength=float(strength))
