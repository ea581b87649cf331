"""The marks of AI in any file, broken and hostile files included."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import c2pa
import PIL.Image
import pytest
from click.testing import CliRunner
from manifests import png
from PIL.PngImagePlugin import PngInfo
from recipes import origin, recipe
from shapes import file_of, sent_again, shapes
from watermarks import CornerWatermark

from bot.cli.inspect import inspect
from bot.config import ProvenanceConfig
from bot.domain.hashes import hash_of_file
from bot.files.artifacts import name_of_png
from bot.provenance import opening
from bot.provenance.certificates import Credentials, self_made
from bot.provenance.inspection import Answer, Kind, answer_of, marks_of
from bot.provenance.manifests import SETTINGS
from bot.provenance.opening import open_signing
from bot.provenance.payload import number_of
from bot.provenance.xmp import packet, with_packet
from bot.store import Store
from bot.store.rows.hashes import Hashes
from sdjax_engine.images import make_grid

CREDENTIALS = self_made()
BOAT, HOUSE, SHED = (file_of(shapes(seed)) for seed in (1, 2, 3))
TYPES = "http://cv.iptc.org/newscodes/digitalsourcetype/"


def found(data: bytes) -> tuple[Answer, set[Kind]]:
    marks = marks_of(data)
    return answer_of(marks), {mark.kind for mark in marks}


def with_manifest(data: bytes, source: str, *, credentials: Credentials = CREDENTIALS, **more: Any) -> bytes:
    """A PNG with the manifest of another program."""
    action = {"action": "c2pa.created", "digitalSourceType": TYPES + source}
    assertions = [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}]
    manifest = {"claim_generator_info": [{"name": "other"}], "assertions": assertions, **more}
    signer = c2pa.Signer.from_info(
        c2pa.C2paSignerInfo(b"es256", credentials.chain, credentials.private_key, None)
    )
    made = io.BytesIO()
    with c2pa.Context.from_dict(SETTINGS) as context, c2pa.Builder(json.dumps(manifest), context) as builder:
        builder.sign(signer, "image/png", io.BytesIO(data), made)
    return made.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunk(kind: bytes, content: bytes) -> bytes:
    data = png()
    return data[:33] + chunk(kind, content) + data[33:]


def test_a_picture_of_this_bot_is_recognized_by_its_manifest_and_its_xmp(tmp_path: Path) -> None:
    signed = open_signing(ProvenanceConfig(folder=str(tmp_path))).signed(png())
    assert found(signed) == (Answer.YES, {Kind.MANIFEST, Kind.XMP})
    changed = bytearray(signed)
    changed[-16] ^= 1  # a checksum after the manifest
    assert found(bytes(changed)) == (Answer.YES, {Kind.BROKEN_MANIFEST, Kind.XMP})


def test_a_manifest_of_a_camera_says_no_and_xmp_of_a_camera_says_nothing() -> None:
    assert found(with_manifest(png(), "digitalCapture"))[0] is Answer.NO
    said = with_packet(png(), packet(TYPES + "digitalCapture", "camera"))
    assert found(said) == (Answer.UNKNOWN, {Kind.XMP})
    assert (
        found(
            with_packet(
                with_manifest(png(), "digitalCapture"), packet(TYPES + "trainedAlgorithmicMedia", "x")
            )
        )[0]
        is Answer.YES
    )


@pytest.mark.parametrize(
    "written",
    [
        "<Iptc4xmpExt:DigitalSourceType>{0}</Iptc4xmpExt:DigitalSourceType>",
        "<Iptc4xmpExt:DigitalSourceType rdf:resource='{0}'/>",
        "<rdf:Description Iptc4xmpExt:DigitalSourceType='{0}'/>",
    ],
)
def test_each_way_to_write_a_property_in_xmp_is_read(written: str) -> None:
    xmp = written.format(TYPES + "compositeWithTrainedAlgorithmicMedia")
    assert found(with_packet(png(), xmp.encode())) == (Answer.YES, {Kind.XMP})


@pytest.mark.parametrize("form", ['TC260:AIGC="{}"', "<TC260:AIGC>{}</TC260:AIGC>"])
def test_chinas_field_is_read(form: str) -> None:
    field = '{"Label":"1","ContentProducer":"x"}'.replace('"', "&quot;")
    assert found(with_packet(png(), form.format(field).encode())) == (Answer.YES, {Kind.AIGC})


def test_the_settings_of_other_tools_are_a_mark_and_a_plain_file_has_none() -> None:
    file, texts = io.BytesIO(), PngInfo()
    texts.add_text("parameters", "a boat\nSteps: 20")
    PIL.Image.new("RGB", (8, 8)).save(file, "PNG", pnginfo=texts)
    assert found(file.getvalue()) == (Answer.YES, {Kind.SETTINGS})
    assert found(png()) == (Answer.UNKNOWN, set())


SIGNED = with_manifest(png(), "trainedAlgorithmicMedia")
BOMB = (
    b"<!DOCTYPE x ["
    + b"".join(b'<!ENTITY a%d "%s">' % (number, b"&a%d;" % (number - 1) * 9) for number in range(1, 40))
    + b"]><x>&a39;</x>"
)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"jumd",
        png()[:40],
        SIGNED[: len(SIGNED) // 2],
        SIGNED.replace(b"jumb", b"jumc"),
        with_chunk(b"caBX", b"\xff\xff\xff\xffjumb" + b"\0\0\0\x08jumd" * 50_000),  # boxes within boxes
        with_chunk(b"caBX", (b"\0\0\0\x10jumb" + b"\0\0\0\x08jumd") * 100_000),
        with_chunk(b"caBX", b"jumd" + bytes(8 << 20)),
        with_packet(png(), BOMB),
        with_packet(png(), b"DigitalSourceType " + b"<" * 60_000),
        with_packet(png(), b"DigitalSourceType " * 60_000),
    ],
    ids=range(11),
)
def test_a_broken_or_hostile_file_has_no_marks(data: bytes) -> None:
    assert found(data)[0] is Answer.UNKNOWN


def test_the_command_line_says_the_answer_and_the_marks_of_each_file(tmp_path: Path) -> None:
    for name, data in {"ai.png": SIGNED, "drawn.png": png(), "notes.txt": b"words"}.items():
        (tmp_path / name).write_bytes(data)
    files = [str(tmp_path / name) for name in ("ai.png", "drawn.png", "notes.txt")]
    said = CliRunner().invoke(inspect, files)
    assert said.output.splitlines() == [
        f"{files[0]}: made by AI (manifest)",
        f"{files[1]}: not known",
        f"{files[2]}: not known",
    ]
    [first, *_] = json.loads(CliRunner().invoke(inspect, ["--json", *files]).output)
    assert first == {"file": files[0], "answer": "yes", "marks": {"manifest": "yes"}}


async def paint_two(database: str) -> None:
    """Fill a queue with two pictures; the kept file of the second is another one."""
    store = await Store.open(database)
    try:
        for number, picture in enumerate((BOAT, HOUSE), start=1):
            await store.jobs.enqueue(recipe(), origin(number))
            (claim,) = await store.leases.claim("worker", limit=1, ttl=60.0)
            kept = picture if picture is BOAT else b"another file"
            name = name_of_png(hashlib.sha256(kept).hexdigest())
            hashes = Hashes(result=hash_of_file(picture))
            await store.leases.complete(claim, artifact=name, seconds=1.0, hashes=hashes)
    finally:
        await store.close()


def test_with_a_configuration_the_queue_says_which_pictures_the_bot_painted_and_never_for_whom(
    tmp_path: Path,
) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    asyncio.run(paint_two(database))
    config = tmp_path / "config.toml"
    config.write_text(f'[queue]\ndatabase = "{database}"\nartifacts = "{tmp_path}/artifacts"\n')
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path)))
    given = {
        "boat.png": BOAT,
        "left.png": signing.signed(BOAT),
        "house.jpg": sent_again(shapes(2)),
        "grid.png": file_of(make_grid([shapes(3), shapes(2)], 1, 2)),
        "shed.png": SHED,
        "flat.png": png(),
        "notes.txt": b"words",
    }
    for name, data in given.items():
        (tmp_path / name).write_bytes(data)
    files = [str(tmp_path / name) for name in given]
    said = CliRunner().invoke(inspect, [*files, "--config", str(config)])
    assert said.output.replace(f"{tmp_path}/", "").splitlines() == [
        "boat.png: made by AI (own)",
        "left.png: made by AI (manifest, xmp, own)",
        "house.jpg: made by AI (known)",
        "grid.png: made by AI (known)",
        "shed.png: not known",
        "flat.png: not known",
        "notes.txt: not known",
    ]
    missing = CliRunner().invoke(inspect, [files[0], "--config", str(tmp_path / "none.toml")])
    assert missing.exit_code == 2


def test_with_a_configuration_a_picture_is_known_by_its_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    asyncio.run(paint_two(database))
    config = tmp_path / "bot.toml"
    config.write_text(
        f'[[models]]\nname = "x"\n[queue]\ndatabase = "{database}"\n[provenance]\nwatermark = "weights"\n'
    )
    monkeypatch.setattr(opening, "Watermark", CornerWatermark)
    for name, number in {"marked.jpg": number_of(BOAT), "strange.jpg": 5}.items():
        CornerWatermark().put(drawn := shapes(9), number)
        drawn.save(tmp_path / name)
    files = [str(tmp_path / name) for name in ("marked.jpg", "strange.jpg")]
    said = CliRunner().invoke(inspect, [*files, "--config", str(config)])
    assert said.output.splitlines() == [f"{files[0]}: made by AI (watermark)", f"{files[1]}: not known"]
