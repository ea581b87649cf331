"""The manifests of pictures: valid, beside the recipe, made without the network."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import c2pa
import numpy as np
import PIL.Image
import pyexiv2
import pytest
from certificate_files import write_certificate
from manifests import RIGHT, png, read_manifest
from PIL.PngImagePlugin import PngInfo
from recipes import RECIPE

from bot.config import ProvenanceConfig
from bot.delivery.pictures import fit_and_sign
from bot.domain.errors import PictureUnsigned
from bot.generation_data import read_picture
from bot.provenance.inspection import marks_of
from bot.provenance.manifests import unmarked
from bot.provenance.opening import open_signing
from bot.provenance.signing import Signing
from bot.provenance.xmp import packet, with_packet
from bot.telemetry.metrics import WELL, Metrics
from sdjax_engine.images import PARAMETERS_CHUNK, encode_png, parameters_text, read_recipe

REQUEST = RECIPE.request(0)
SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
COMPOSITE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Signing:
    return open_signing(ProvenanceConfig(folder=str(tmp_path_factory.mktemp("provenance"))))


def painted(seed: int = 0, side: int = 96) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return encode_png(pixels, REQUEST)


def test_a_signed_picture_says_what_made_it_and_a_self_made_certificate_is_untrusted(
    signing: Signing,
) -> None:
    found = read_manifest(signing.signed(painted()))
    assert (found.state, found.wrong) == ("Valid", {"signingCredential.untrusted"})
    assert found.right >= RIGHT
    assert found.source_type == "trainedAlgorithmicMedia"
    said = datetime.strptime(found.action["when"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert timedelta() <= datetime.now(UTC) - said < timedelta(minutes=5)
    assert found.manifest["claim_generator_info"][0]["name"] == "sdjax-bot"
    assert "thumbnail" not in found.manifest
    assert "self-made" in found.manifest["signature_info"]["common_name"]


def test_pixels_texts_and_recipe_survive_signing(signing: Signing) -> None:
    file = painted()
    signed = signing.signed(file)
    before, after = (PIL.Image.open(io.BytesIO(data)) for data in (file, signed))
    assert np.array_equal(np.asarray(before), np.asarray(after))
    assert before.info.items() <= after.info.items()
    assert after.info[PARAMETERS_CHUNK] == parameters_text(REQUEST)
    assert read_recipe(io.BytesIO(signed)) == REQUEST
    assert read_picture(signed) == read_picture(file)
    assert unmarked(signed) == file != signed
    assert len(file) < len(signed) <= len(file) + signing.room


@pytest.mark.parametrize("mask", [png(), None])
def test_a_picture_that_was_painted_from_another_is_a_composite(signing: Signing, mask: bytes | None) -> None:
    request = replace(REQUEST, init_image=png(), mask_image=mask, strength=0.5)
    signed = signing.signed(encode_png(np.zeros((8, 8, 3), np.uint8), request))
    assert read_manifest(signed).source_type == "compositeWithTrainedAlgorithmicMedia"
    assert described(signed)["DigitalSourceType"] == COMPOSITE


def described(data: bytes) -> dict[str, str]:
    """The properties of a file's XMP, as Pillow reads them."""
    with PIL.Image.open(io.BytesIO(data)) as picture:
        found: dict[str, str] = picture.getxmp()["xmpmeta"]["RDF"]["Description"]
    return found


@pytest.mark.parametrize(("suffix", "share"), [("png", 1.5), ("webp", 0.7), ("jpg", 0.3)])
def test_tools_that_keep_xmp_and_drop_the_manifest_keep_the_source_type(
    signing: Signing, suffix: str, share: float
) -> None:
    file = painted(side=256)
    made = fit_and_sign([file], int(share * len(file)), signing)
    assert made.suffix == f".{suffix}"
    before = described(made.data)
    assert before["DigitalSourceType"] == SOURCE_TYPE
    assert before["CreatorTool"].startswith("sdjax-bot")
    with PIL.Image.open(io.BytesIO(made.data)) as picture:
        xmp = picture.info["xmp"]
        edited = io.BytesIO()
        texts = PngInfo()
        texts.add_itxt("XML:com.adobe.xmp", xmp.decode())
        kept = {"pnginfo": texts} if suffix == "png" else {"xmp": xmp}
        picture.rotate(90).save(edited, picture.format, **kept)
    with pytest.raises(c2pa.C2paError):
        read_manifest(edited.getvalue())
    assert described(edited.getvalue()) == before
    with pyexiv2.ImageData(made.data) as other, pyexiv2.ImageData(edited.getvalue()) as after:
        said = other.read_xmp()
        assert said["Xmp.iptcExt.DigitalSourceType"] == SOURCE_TYPE
        assert said == after.read_xmp()


def test_a_file_of_the_simple_form_of_webp_can_carry_xmp() -> None:
    file = io.BytesIO()
    PIL.Image.linear_gradient("L").convert("RGB").save(file, "WEBP")
    marked = with_packet(file.getvalue(), packet(SOURCE_TYPE, "test"))
    assert described(marked)["DigitalSourceType"] == SOURCE_TYPE
    with PIL.Image.open(io.BytesIO(marked)) as after, PIL.Image.open(file) as before:
        assert after.tobytes() == before.tobytes()


async def test_a_required_signature_that_fails_holds_the_picture_and_health_says_so(tmp_path: Path) -> None:
    config, metrics = ProvenanceConfig(folder=str(tmp_path), required=True), Metrics()
    signing = open_signing(config, metrics=metrics.provenance)
    with pytest.raises(PictureUnsigned):
        signing.signed(b"no picture")
    assert "pictures are held" in await signing.health()
    assert b'sdjax_provenance_pictures_total{outcome="held"} 1.0' in metrics.text()
    signing.signed(painted())
    assert await signing.health() == WELL


@pytest.mark.parametrize(
    ("count", "share", "suffix"), [(1, 1.5, ".png"), (4, 1.5, ".png"), (4, 0.5, ".webp"), (1, 0.3, ".jpg")]
)
def test_every_form_of_a_message_is_signed_within_its_limit(
    signing: Signing, count: int, share: float, suffix: str
) -> None:
    files = [painted(seed, 256) for seed in range(count)]
    limit = int(share * sum(map(len, files)))
    made = fit_and_sign(files, limit, signing)
    assert made.suffix == suffix
    assert len(made.data) <= limit
    found = read_manifest(made.data)
    assert (found.state, found.source_type) == ("Valid", "trainedAlgorithmicMedia")
    assert read_recipe(io.BytesIO(made.data)) == REQUEST


def test_what_a_person_gave_gets_no_marks_of_ai_unless_it_was_painted_here(signing: Signing) -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (2000, 1000), "navy").save(file, "PNG")
    photograph = fit_and_sign([file.getvalue()], 10_000_000, signing, given=True).data
    with PIL.Image.open(io.BytesIO(photograph)) as shown:
        assert (shown.format, shown.size, {"xmp", "exif"} & shown.info.keys()) == ("WEBP", (768, 384), set())
    with pytest.raises(c2pa.C2paError):
        read_manifest(photograph)
    assert read_manifest(fit_and_sign([painted()], 10_000_000, signing, given=True).data).state == "Valid"


def test_many_threads_may_sign_at_once(signing: Signing) -> None:
    files = [painted(seed) for seed in range(24)]
    with ThreadPoolExecutor(8) as threads:
        signed = list(threads.map(signing.signed, files))
    assert [unmarked(data) for data in signed] == files
    assert all(read_manifest(data).state == "Valid" for data in signed)


def test_a_picture_that_cannot_be_signed_is_kept_and_each_cause_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path)), metrics=metrics.provenance)
    broken = painted()[:60]
    assert [signing.signed(data) for data in (broken, broken, b"no picture")] == [
        broken,
        broken,
        b"no picture",
    ]
    assert len(caplog.records) == 2
    signing.signed(painted())
    assert b'sdjax_provenance_pictures_total{outcome="unsigned"} 3.0' in metrics.text()
    assert b'sdjax_provenance_pictures_total{outcome="signed"} 1.0' in metrics.text()


def test_nothing_is_signed_if_signing_is_off(tmp_path: Path) -> None:
    signing = open_signing(ProvenanceConfig(sign=False, folder=str(tmp_path / "none")))
    assert signing.signed(file := painted()) is file
    assert not signing
    assert not (tmp_path / "none").exists()


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """The address of a local server, and the paths that were requested from it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def do_POST(self) -> None:
            self.do_GET()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/status", paths
    server.shutdown()
    thread.join()
    server.server_close()


def test_no_address_in_a_certificate_is_contacted(asked: tuple[str, list[str]], tmp_path: Path) -> None:
    address, paths = asked
    certificate, key = write_certificate(tmp_path, status_url=address)
    signed = open_signing(ProvenanceConfig(certificate=certificate, private_key=key)).signed(painted())
    assert read_manifest(signed).state == "Valid"
    assert paths == []


def test_no_address_in_a_picture_is_contacted_when_its_marks_are_read(asked: tuple[str, list[str]]) -> None:
    address, paths = asked
    about = f'<rdf:Description dcterms:provenance="{address}"/> jumd'
    assert marks_of(with_packet(png(), about.encode())) == []
    assert paths == []
