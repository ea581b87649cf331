"""The labels that are drawn on pictures, and China's metadata field."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageChops
import pytest
from manifests import png, read_manifest
from recipes import RECIPE

from bot.config import ProvenanceConfig
from bot.config.provenance import AigcConfig, Stamp
from bot.delivery.pictures import fit_and_sign
from bot.front.results.contact_sheet import contact_sheet
from bot.provenance.inspection import Answer, Kind, answer_of, marks_of
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from bot.provenance.stamps import draw_stamp
from sdjax_engine.images import encode_png, read_recipe

REQUEST = RECIPE.request(0)
GREY = (128, 128, 128)


def drawn(width: int, height: int, stamp: Stamp, *, modified: bool = False) -> PIL.Image.Image:
    picture = PIL.Image.new("RGB", (width, height), GREY)
    draw_stamp(picture, stamp, modified=modified)
    return picture


@pytest.mark.parametrize("stamp", ["eu", "cn"])
@pytest.mark.parametrize(("width", "height"), [(256, 256), (512, 768), (1024, 512), (2048, 2048)])
def test_the_letters_have_at_least_a_twentieth_of_the_shorter_side(
    stamp: Stamp, width: int, height: int
) -> None:
    picture = drawn(width, height, stamp)
    pill = PIL.ImageChops.difference(picture, PIL.Image.new("RGB", picture.size, GREY)).getbbox()
    assert pill is not None
    left, top, right, bottom = pill
    assert left > width // 4
    assert top > height * 3 // 4
    assert right < width
    assert bottom < height
    white = picture.convert("L").point(lambda value: 255 * (value > 200)).getbbox()
    assert white is not None
    assert white[3] - white[1] >= 0.05 * min(width, height)
    assert top < white[1] < white[3] < bottom


def test_a_modified_picture_has_another_label() -> None:
    for stamp in ("eu", "cn"):
        assert drawn(256, 256, stamp).tobytes() != drawn(256, 256, stamp, modified=True).tobytes()


def painted(side: int = 256, *, start: bytes | None = None) -> bytes:
    pixels = np.random.default_rng(side).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return encode_png(pixels, replace(REQUEST, init_image=start, strength=0.5 if start else 1.0))


def test_single_pictures_grids_and_sheets_leave_with_the_label_and_their_recipe(tmp_path: Path) -> None:
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path), stamp="eu"))
    plain = open_signing(ProvenanceConfig(folder=str(tmp_path)))
    for files in ([painted()], [painted(), painted(start=png())]):
        limit = 4 * sum(map(len, files))
        made = fit_and_sign(files, limit, signing)
        bare = fit_and_sign(files, limit, plain)
        assert read_manifest(made.data).state == "Valid"
        assert read_recipe(io.BytesIO(made.data)) == REQUEST
        with PIL.Image.open(io.BytesIO(made.data)) as one, PIL.Image.open(io.BytesIO(bare.data)) as other:
            for tile in range(len(files)):
                box = (256 * tile, 0, 256 * (tile + 1), 256)
                changed = PIL.ImageChops.difference(one.crop(box), other.crop(box)).getbbox()
                assert changed is not None
                assert changed[1] > 200
    assert contact_sheet([painted(), None], signing) != contact_sheet([painted(), None], plain)
    assert Signing().drawn(file := painted()) is file


@pytest.mark.parametrize("sign", [True, False])
def test_files_carry_the_field_of_china_with_or_without_a_signature(tmp_path: Path, sign: bool) -> None:
    aigc = AigcConfig(producer='<Ink & "Brush">', propagator="公司")
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path), sign=sign, aigc=aigc))
    file = painted()
    marked = signing.signed(file)
    assert len(file) < len(marked) <= len(file) + signing.room
    with PIL.Image.open(io.BytesIO(marked)) as picture:
        field = json.loads(picture.getxmp()["xmpmeta"]["RDF"]["Description"]["AIGC"])
    assert field == aigc.fields(field["ProduceID"])
    assert (field["Label"], field["ContentPropagator"]) == ("1", "公司")
    assert len(field["ProduceID"]) == 32
    marks = marks_of(marked)
    assert answer_of(marks) is Answer.YES
    assert Kind.AIGC in {mark.kind for mark in marks if mark.says is Answer.YES}
    assert (Kind.MANIFEST in {mark.kind for mark in marks}) is sign
