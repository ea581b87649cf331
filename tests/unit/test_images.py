"""Pictures as files: what is written is read back, other tools can read it, equal input gives equal bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from contextlib import suppress

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL.ExifTags import IFD, Base
from PIL.PngImagePlugin import PngInfo

from sdjax_engine.images import (
    NoRecipe,
    encode_jpeg,
    encode_png,
    encode_webp,
    grid_shape,
    make_grid,
    parameters_text,
    read_recipe,
)
from sdjax_engine.request import (
    MAX_PROMPT_CHARACTERS,
    MAX_SEED,
    ControlType,
    Int8,
    Request,
    Sampler,
    Variation,
)

REQUEST = Request(
    prompt="a red circle on a white background",
    negative_prompt="blurred",
    seed=7,
    num_inference_steps=20,
    guidance_scale=7.5,
    sampler=Sampler.EULER_ANCESTRAL,
    height=16,
    width=24,
    model="demo",
)
PIXELS = np.arange(16 * 24 * 3, dtype=np.uint32).reshape(16, 24, 3).astype(np.uint8)

texts = st.text(st.characters())
requests = st.builds(
    Request,
    prompt=texts,
    negative_prompt=texts,
    seed=st.integers(0, MAX_SEED),
    num_inference_steps=st.integers(1, 150),
    guidance_scale=st.floats(0, 30),
    sampler=st.sampled_from(Sampler),
    height=st.just(16),
    width=st.just(24),
    model=st.text(),
    variations=st.lists(
        st.builds(Variation, seed=st.integers(0, MAX_SEED), strength=st.floats(0, 1)), max_size=8
    ).map(tuple),
    guidance_interval=st.tuples(st.floats(0, 0.5), st.floats(0.6, 1)),
    controlnet=st.sampled_from(("", "canny")),
    control_type=st.sampled_from(ControlType),
    control_strength=st.floats(0, 2),
    control_interval=st.tuples(st.floats(0, 0.5), st.floats(0.6, 1)),
    image_prompt_strength=st.floats(0, 1),
)


def files(request: Request) -> dict[str, bytes]:
    """The picture of `request` in every format."""
    png = encode_png(PIXELS, request, extra={"job": "k3"})
    picture = PIL.Image.open(io.BytesIO(png))
    return {
        "PNG": png,
        "lossless WEBP": encode_webp(picture, lossless=True),
        "WEBP": encode_webp(picture, quality=75),
        "JPEG": encode_jpeg(picture, quality=75),
    }


@given(requests)
def test_a_file_of_every_format_gives_back_its_request(request_: Request) -> None:
    for data in files(request_).values():
        assert read_recipe(io.BytesIO(data)) == request_


def test_a_control_picture_is_named_by_its_digest_and_read_back_beside_the_start_picture() -> None:
    request = dataclasses.replace(REQUEST, init_image=b"start", control_image=b"control")
    file = io.BytesIO(encode_png(PIXELS, request))
    assert read_recipe(file, pictures=[b"control", b"start"]) == request
    with pytest.raises(NoRecipe, match=hashlib.sha256(b"control").hexdigest()):
        read_recipe(file, pictures=[b"start"])
    recipe = PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST))).info["sdjax"]
    assert not {name for name in json.loads(recipe)["request"] if "control" in name}
    assert 'ControlNet 0: "Module: edges, Model: default, Weight: 1,' in parameters_text(request)


def test_an_image_prompt_is_named_by_its_digest_and_its_strength_is_written_for_people() -> None:
    request = dataclasses.replace(REQUEST, image_prompt=b"shown", image_prompt_strength=0.6)
    file = io.BytesIO(encode_png(PIXELS, request))
    assert read_recipe(file, pictures=[b"shown"]) == request
    assert "Image prompt strength: 0.6" in parameters_text(request)
    recipe = PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST))).info["sdjax"]
    assert not {name for name in json.loads(recipe)["request"] if "image_prompt" in name}


def test_int8_weights_are_named_in_both_texts_and_change_no_recipe() -> None:
    file = io.BytesIO(encode_png(PIXELS, REQUEST, int8=tuple(Int8)))
    assert read_recipe(file) == REQUEST
    texts = PIL.Image.open(file).info
    assert json.loads(texts["sdjax"])["int8"] == ["text_encoder", "denoiser"]
    assert 'INT8: "text_encoder, denoiser"' in texts["parameters"]
    assert "int8" not in str(PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST))).info).lower()


def test_reference_pictures_are_named_by_their_digests_and_read_back_in_order() -> None:
    request = dataclasses.replace(REQUEST, references=(b"fox", b"hat", b"fox"))
    file = io.BytesIO(encode_png(PIXELS, request))
    assert read_recipe(file, pictures=[b"hat", b"fox"]) == request
    with pytest.raises(NoRecipe, match=hashlib.sha256(b"hat").hexdigest()):
        read_recipe(file, pictures=[b"fox"])
    recipe = PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST))).info["sdjax"]
    assert "references" not in json.loads(recipe)["request"]


@pytest.mark.parametrize("letter", ["a", "한", "🎨", '"'])
def test_the_longest_recipe_fits_into_every_format(letter: str) -> None:
    longest = letter * MAX_PROMPT_CHARACTERS
    wordy = dataclasses.replace(REQUEST, prompt=longest, negative_prompt=longest)
    for data in files(wordy).values():
        assert read_recipe(io.BytesIO(data)) == wordy


def test_the_parameters_of_webp_and_jpeg_are_where_other_tools_read_them() -> None:
    request = dataclasses.replace(REQUEST, prompt="빨간 원 🎨")
    for form, data in files(request).items():
        if form != "PNG":
            exif = PIL.Image.open(io.BytesIO(data)).getexif()
            comment = exif.get_ifd(IFD.Exif)[Base.UserComment]
            assert comment.removeprefix(b"UNICODE\0").decode("utf-16-be") == parameters_text(request)
            assert exif.tobytes().startswith(b"Exif\0\0MM")  # the text's byte order is that of the block


def test_a_file_keeps_its_pixels() -> None:
    with PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST))) as picture:
        np.testing.assert_array_equal(np.asarray(picture), PIXELS)


def test_equal_input_gives_equal_bytes_in_every_format() -> None:
    assert files(REQUEST) == files(dataclasses.replace(REQUEST))


def test_a_smaller_form_keeps_the_recipe_of_the_whole() -> None:
    picture = PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST))).resize((12, 8))
    assert read_recipe(io.BytesIO(encode_jpeg(picture, quality=75))) == REQUEST


def test_the_parameters_are_written_as_other_tools_read_them() -> None:
    with PIL.Image.open(io.BytesIO(encode_png(PIXELS, REQUEST, extra={"job": "k3"}))) as picture:
        assert picture.info["parameters"] == (
            "a red circle on a white background\n"
            "Negative prompt: blurred\n"
            "Steps: 20, Sampler: Euler a, CFG scale: 7.5, Seed: 7, Size: 24x16, Model: demo"
        )


def test_one_variation_is_written_as_other_tools_write_it() -> None:
    one = dataclasses.replace(REQUEST, variations=(Variation(seed=9, strength=0.15),))
    assert "Variation seed: 9, Variation seed strength: 0.15" in parameters_text(one)


def test_a_guidance_interval_is_written_where_it_is_not_the_whole() -> None:
    some = dataclasses.replace(REQUEST, guidance_interval=(0.0, 0.6))
    assert "Size: 24x16, Model: demo, Guidance interval: 0-0.6" in parameters_text(some)


def test_a_setting_with_commas_is_quoted_and_an_empty_negative_prompt_left_out() -> None:
    text = parameters_text(dataclasses.replace(REQUEST, model="a, b: c", negative_prompt=""))
    assert text.endswith('Model: "a, b: c"')
    assert "Negative prompt" not in text


def png_with(text: str) -> bytes:
    chunks = PngInfo()
    chunks.add_itxt("sdjax", text)
    file = io.BytesIO()
    PIL.Image.new("RGB", (1, 1)).save(file, format="PNG", pnginfo=chunks)
    return file.getvalue()


def jpeg_with(note: bytes) -> bytes:
    exif = PIL.Image.Exif()
    exif[IFD.Exif] = {Base.MakerNote: note}
    file = io.BytesIO()
    PIL.Image.new("RGB", (1, 1)).save(file, format="JPEG", exif=exif)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns about damage that it can read past
@given(st.integers(20, 400), st.binary(min_size=1, max_size=8))
def test_a_damaged_file_is_refused_or_read_and_nothing_else(place: int, bytes_: bytes) -> None:
    for data in files(REQUEST).values():
        damaged = data[:place] + bytes_ + data[place + len(bytes_) :]
        with suppress(NoRecipe):
            assert isinstance(read_recipe(io.BytesIO(damaged)), Request)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a picture",
        encode_png(PIXELS, REQUEST)[:200],
        png_with("not JSON"),
        png_with("[]"),
        png_with("[" * 100_000),
        png_with('{"version": 2}'),
        png_with('{"version": 1, "request": []}'),
        png_with('{"version": 1, "request": 7}'),
        png_with('{"version": 1, "request": {"seed": "7"}}'),
        png_with('{"version": 1, "request": {"surprise": 7}}'),
        png_with('{"version": 1, "request": {}}'),
        png_with(f'{{"version": 1, "request": {{"loras": [["a", 1{"0" * 400}]]}}}}'),
        encode_jpeg(PIL.Image.new("RGB", (8, 8)), quality=75),
        encode_webp(PIL.Image.new("RGB", (8, 8))),
        jpeg_with(b"of another maker"),
        jpeg_with(b"sdjax\0not JSON"),
        jpeg_with(b"sdjax\0\xff"),
    ],
)
def test_a_file_without_a_recipe_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(NoRecipe):
        read_recipe(io.BytesIO(data))


@given(st.integers(1, 100))
def test_a_grid_holds_every_picture_and_no_empty_row(count: int) -> None:
    rows, columns = grid_shape(count)
    assert (rows - 1) * columns < count <= rows * columns
    assert rows <= columns


def test_a_grid_shows_its_pictures_row_by_row() -> None:
    colours = ["red", "green", "blue", "white", "yellow"]
    grid = make_grid([PIL.Image.new("RGB", (4, 2), colour) for colour in colours], 2, 3)
    assert grid.size == (12, 4)
    cells = [grid.getpixel((4 * column + 1, 2 * row + 1)) for row in range(2) for column in range(3)]
    assert cells == [(255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 255, 255), (255, 255, 0), (0, 0, 0)]


@pytest.mark.parametrize("sizes", [[], [(1, 1)] * 5, [(1, 1), (2, 2)]])
def test_a_grid_that_cannot_be_made_is_refused(sizes: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="grid"):
        make_grid([PIL.Image.new("RGB", size) for size in sizes], 2, 2)
