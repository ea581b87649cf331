"""Generation data are read from files, of this bot exactly; no file makes reading slow or fail otherwise."""

import io
import json
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL.ExifTags import IFD, Base
from PIL.PngImagePlugin import PngInfo

from bot.generation_data import GenerationData, NoGenerationData, Tool, read_picture, read_text
from bot.generation_data.data import MAX_BYTES
from bot.generation_data.metadata import texts_of
from sdjax_engine.images import encode_jpeg, encode_png, encode_webp
from sdjax_engine.request import Lora, Request, Sampler

TEXT = "a bird, 새\nNegative prompt: frame\nSteps: 20, Sampler: Euler a, Seed: 5, Size: 64x64"
PIXELS = np.zeros((8, 8, 3), np.uint8)

finite = st.floats(0, 30, allow_nan=False)
requests = st.builds(
    Request,
    prompt=st.text(min_size=1, max_size=200),
    negative_prompt=st.text(max_size=200),
    seed=st.integers(0, 2**32 - 1),
    num_inference_steps=st.integers(1, 150),
    guidance_scale=finite,
    sampler=st.sampled_from(Sampler),
    height=st.sampled_from([64, 512]),
    width=st.sampled_from([64, 768]),
    model=st.text(max_size=50),
    loras=st.lists(
        st.builds(Lora, name=st.text(min_size=1, max_size=50), weight=st.floats(-4, 4)),
        max_size=4,
        unique_by=lambda lora: lora.name,
    ).map(tuple),
)


def request_of(data: GenerationData) -> Request:
    assert data.seed is not None
    assert data.steps is not None
    assert data.guidance is not None
    assert data.width is not None
    assert data.height is not None
    return Request(
        prompt=data.prompt,
        negative_prompt=data.negative_prompt,
        seed=data.seed,
        num_inference_steps=data.steps,
        guidance_scale=data.guidance,
        sampler=Sampler(data.sampler),
        width=data.width,
        height=data.height,
        model=data.model,
        loras=data.loras,
    )


@settings(max_examples=60)
@given(request=requests)
def test_own_picture_gives_its_request_back(request: Request) -> None:
    data = read_picture(encode_png(PIXELS, request))
    assert (data.tool, data.unread) == (Tool.OWN, ())
    assert request_of(data) == request


@pytest.mark.parametrize("kind", ["WEBP", "JPEG"])
def test_own_picture_in_other_formats_gives_its_request_back(kind: str) -> None:
    request = Request(
        prompt="새, “a bird”",
        seed=7,
        num_inference_steps=3,
        guidance_scale=1.5,
        sampler=Sampler.DDIM,
        height=8,
        width=8,
        model="demo",
    )
    png = PIL.Image.open(io.BytesIO(encode_png(PIXELS, request)))
    file = encode_webp(png) if kind == "WEBP" else encode_jpeg(png, quality=80)
    assert request_of(read_picture(file)) == request


def png(*, exif: bytes | None = None, compressed: bool = False, **texts: str) -> bytes:
    chunks, file = PngInfo(), io.BytesIO()
    for name, text in texts.items():
        chunks.add_text(name.replace("_", "-") if name == "sd_metadata" else name, text, zip=compressed)
    PIL.Image.fromarray(PIXELS).save(file, "PNG", pnginfo=chunks, **({"exif": exif} if exif else {}))
    return file.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_text_chunk_is_read(compressed: bool) -> None:
    data = read_picture(png(parameters=TEXT, compressed=compressed))
    assert (data.prompt, data.seed) == ("a bird, 새", 5)


def test_metadata_of_invokeai_and_comfyui_are_read_from_their_chunks() -> None:
    invokeai = json.dumps({"positive_prompt": "새", "seed": 1})
    assert read_picture(png(invokeai_metadata=invokeai)).prompt == "새"
    old = json.dumps({"image": {"prompt": "a bird", "seed": 2}})
    assert read_picture(png(sd_metadata=old)).prompt == "a bird"
    graph = {
        "1": {"class_type": "KSampler", "inputs": {"seed": 3, "positive": ["2", 0]}},
        "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat"}},
    }
    assert read_picture(png(prompt=json.dumps(graph), workflow="{}")).prompt == "a cat"


@pytest.mark.parametrize("order", ["utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_comment_of_a1111_is_read(kind: str, order: str) -> None:
    exif = PIL.Image.Exif()
    exif[IFD.Exif] = {Base.UserComment: b"UNICODE\0" + TEXT.encode(order)}
    file = io.BytesIO()
    PIL.Image.fromarray(PIXELS).save(file, kind, exif=exif.tobytes())
    assert read_picture(file.getvalue()).prompt == "a bird, 새"


def test_prompt_of_comfyui_is_read_from_a_webp() -> None:
    graph = {"1": {"class_type": "KSampler", "inputs": {"seed": 3, "steps": 4}}}
    exif, file = PIL.Image.Exif(), io.BytesIO()
    exif[0x0110] = f"prompt:{json.dumps(graph)}"
    PIL.Image.fromarray(PIXELS).save(file, "WEBP", exif=exif.tobytes())
    assert read_picture(file.getvalue()).steps == 4


def test_most_exact_text_counts() -> None:
    own = encode_png(
        PIXELS,
        Request(
            prompt="x",
            seed=1,
            num_inference_steps=2,
            guidance_scale=3,
            sampler=Sampler.DDIM,
            height=8,
            width=8,
            model="m",
        ),
    )
    assert list(texts_of(own)) == ["sdjax", "parameters"]
    assert read_picture(png(parameters=TEXT, sdjax="damaged")).seed == 5


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


BOMB = zlib.compress(b"\0" * 50_000_000)
HEADER = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    "file",
    [
        b"",
        HEADER,
        png(),
        HEADER + chunk(b"zTXt", b"parameters\0\0" + BOMB),
        HEADER + chunk(b"iTXt", b"parameters\0\1\0\0\0" + BOMB),
        HEADER + chunk(b"tEXt", b"parameters\0" + b"a" * (MAX_BYTES + 1)),
        HEADER + chunk(b"zTXt", b"parameters\0\0damaged"),
        HEADER + chunk(b"tEXt", b"no separator"),
        HEADER + b"\xff\xff\xff\xfftEXt",
        HEADER + chunk(b"eXIf", b"II*\0\xff\xff\xff\xff"),
        b"RIFF\0\0\0\0WEBPEXIF\xff\xff\xff\xffMM",
        b"\xff\xd8\xff\xe1\0\0",
    ],
)
def test_file_without_readable_text_is_refused(file: bytes) -> None:
    with pytest.raises(NoGenerationData) as error:
        read_picture(file)
    assert error.value.message_id == "generation_data_no_file"


def test_a_file_of_countless_texts_is_read_up_to_a_number() -> None:
    filler = chunk(b"zTXt", b"prompt\0\0" + zlib.compress(b"\0" * 60_000))
    late = chunk(b"tEXt", b"parameters\0" + TEXT.encode())
    other = chunk(b"zTXt", b"comment\0\0" + zlib.compress(b"\0" * 60_000))
    assert read_picture(HEADER + 63 * filler + 3000 * other + late).seed == 5
    with pytest.raises(NoGenerationData):
        read_picture(HEADER + 64 * filler + late)


formats = st.sampled_from(
    [
        HEADER,
        HEADER + chunk(b"tEXt", b"x\0y"),
        b"RIFF\0\0\0\0WEBPEXIF",
        b"\xff\xd8\xff\xe1\1\0Exif\0\0II*\0",
        b"",
    ]
)


@settings(max_examples=200)
@given(begin=formats, rest=st.binary(max_size=400))
def test_any_file_gives_data_or_one_error(begin: bytes, rest: bytes) -> None:
    try:
        read_picture(begin + rest)
    except NoGenerationData:
        return


pieces = st.sampled_from(
    [
        "Steps: 20, ",
        "Negative prompt: ",
        "Sampler: Euler a, ",
        "Seed: -1, ",
        "<lora:a:b:c>",
        '"',
        "\\",
        "[{",
        "}]",
        ":",
        ",",
        "\n",
        "Civitai resources: ",
        "\u202e",
        "\ud800",
        "\0",
        "@everyone",
        "```",
    ]
)


@settings(max_examples=300)
@given(text=st.lists(st.one_of(pieces, st.text(max_size=20)), max_size=60).map("".join))
def test_any_text_gives_data_or_one_error(text: str) -> None:
    try:
        data = read_text(text)
    except NoGenerationData:
        return
    assert all(len(each) <= 80 and "\n" not in each for each in data.unread)


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["1", "2"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["model", "inputs", "name", "prompt", "positive", "text", "1"]), inner, max_size=4
        ),
    ),
    max_leaves=12,
)
names = st.sampled_from(
    [
        "positive_prompt",
        "loras",
        "model",
        "seed",
        "image",
        "version",
        "request",
        "nodes",
        "links",
        "prompt",
        "steps",
    ]
)
kinds = st.sampled_from(["KSampler", "CLIPTextEncode", "LoraLoader", "SaveImage", "Reroute", "X"])
links = st.lists(st.sampled_from(["1", "2", "3", 0, 1]), min_size=2, max_size=2)
inputs = st.sampled_from(
    [
        "model",
        "positive",
        "negative",
        "latent_image",
        "seed",
        "steps",
        "clip",
        "text",
        "conditioning",
        "images",
    ]
)
nodes = st.fixed_dictionaries(
    {"class_type": kinds, "inputs": st.dictionaries(inputs, st.one_of(links, values), max_size=6)}
)


@settings(max_examples=300)
@given(
    found=st.one_of(st.dictionaries(names, values), st.dictionaries(st.sampled_from(["1", "2", "3"]), nodes))
)
def test_any_json_gives_data_or_one_error(found: dict[str, object]) -> None:
    try:
        read_text(json.dumps(found))
    except NoGenerationData:
        return
