"""The watermark: its bits, its process, and what leaves with it."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from manifests import read_manifest
from recipes import RECIPE
from watermarks import CornerWatermark, write_weights

from bot.config import ProvenanceConfig
from bot.delivery.pictures import fit_and_sign
from bot.domain.errors import ConfigurationError, PictureUnsigned
from bot.front.results.contact_sheet import contact_sheet
from bot.front.results.originals import packed
from bot.generation_data import read_picture
from bot.provenance import watermark as watermark_module
from bot.provenance.certificates import self_made
from bot.provenance.manifests import ManifestSigner
from bot.provenance.opening import open_signing
from bot.provenance.payload import binding_of, bits_of, number_in, number_of
from bot.provenance.signing import Signing
from bot.provenance.watermark import Watermark, WatermarkFailed, environment
from bot.telemetry.metrics import Metrics
from sdjax_engine.images import encode_png

LIMIT = 10 * 2**20


def painted(seed: int = 0, side: int = 96) -> bytes:
    low = np.random.default_rng(seed).integers(40, 216, (side // 8, side // 8, 3), dtype=np.uint8)
    pixels = np.asarray(PIL.Image.fromarray(low).resize((side, side)))
    return encode_png(pixels, RECIPE.request(0))


def opened(data: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(data)).convert("RGB")


@pytest.fixture(scope="module")
def signer() -> ManifestSigner:
    return ManifestSigner(self_made())


@pytest.fixture
def signing(signer: ManifestSigner) -> Signing:
    return Signing(signer, watermark=CornerWatermark())


@pytest.fixture(scope="module")
def watermark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watermark]:
    made = Watermark(str(write_weights(tmp_path_factory.mktemp("weights"))))
    made.open()
    yield made
    made.close()


def test_a_number_is_read_from_bits_of_which_at_most_five_are_wrong() -> None:
    draw = random.Random(1)
    for _ in range(60):
        number, count = draw.getrandbits(60), draw.randint(0, 5)
        values = [2.0 * bit - 1 for bit in bits_of(number)]
        for place in draw.sample(range(96), count):
            values[place] *= -1
        values[96:] = [draw.uniform(-1, 1) for _ in range(4)]  # the schema's bits are protected by nothing
        assert number_in(values) == number


def test_more_wrong_bits_are_corrected_where_they_are_the_least_certain() -> None:
    draw = random.Random(2)
    for count in range(6, 12):
        number = draw.getrandbits(60)
        values = [draw.uniform(0.5, 2) * (2 * bit - 1) for bit in bits_of(number)]
        wrong = draw.sample(range(96), count)
        for place in wrong[:6]:
            values[place] *= -0.01
        for place in wrong[6:]:
            values[place] *= -1
        assert number_in(values) == number


def test_values_of_no_number_have_none() -> None:
    draw = random.Random(3)
    found = [number_in([draw.gauss(0, 1) for _ in range(100)]) for _ in range(100)]
    assert sum(each is not None for each in found) <= 5  # one of 140 by chance, and no queue has it


def test_the_process_marks_the_middle_of_a_picture_and_always_alike(watermark: Watermark) -> None:
    picture = opened(painted()).resize((96, 64))
    first, second, other = (picture.copy() for _ in range(3))
    watermark.put(first, 5)
    watermark.put(second, 5)
    watermark.put(other, 6)
    before, after = np.asarray(picture), np.asarray(first)
    assert after.tobytes() == second.tobytes() != other.tobytes()
    assert (before[:, :16] == after[:, :16]).all()
    assert (before[:, 80:] == after[:, 80:]).all()
    assert (before[:, 16:80] != after[:, 16:80]).any()
    assert watermark.find(first) is None  # weights of chance read nothing


def test_a_process_that_has_ended_is_started_again_by_the_next_picture(watermark: Watermark) -> None:
    process = watermark._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    picture = opened(painted())
    before = picture.tobytes()
    watermark.put(picture, 1)
    assert picture.tobytes() != before


def test_a_process_that_hangs_is_ended_in_time(watermark: Watermark) -> None:
    watermark._seconds, usual = 0.2, watermark._seconds
    process = watermark._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(WatermarkFailed, match="has ended, or has taken too long"):
        watermark.put(opened(painted()), 1)
    watermark._seconds = usual
    watermark.put(opened(painted()), 1)


@pytest.mark.parametrize("word", ["a word", "5", "[1, 2]"])
def test_a_process_that_says_other_words_first_is_refused_and_ended(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"import time; print({word!r}, flush=True); time.sleep(60)"
    monkeypatch.setattr(watermark_module, "PROGRAM", (sys.executable, "-c", said))
    made = Watermark("weights")
    with pytest.raises(ConfigurationError, match="its process has ended"):
        made.open()
    with pytest.raises(WatermarkFailed, match="its process has ended"):
        made.put(opened(painted()), 1)
    assert made._process is None


def test_a_process_that_starts_while_its_owner_closes_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made, popen = Watermark("weights"), subprocess.Popen
    closing = threading.Thread(target=made.close)

    def started(*arguments: Any, **how: Any) -> Any:
        closing.start()
        while not made._closed.is_set():
            pass
        return popen([sys.executable, "-c", "import time; time.sleep(20)"], **how)

    monkeypatch.setattr(subprocess, "Popen", started)
    begun = time.monotonic()
    with pytest.raises(ConfigurationError):
        made.open()
    closing.join()
    assert time.monotonic() - begun < 10
    assert made._process is None


def test_the_process_gets_no_secrets_of_the_configuration() -> None:
    secret = {"DISCORD_TOKEN": "a", "SDJAX__QUEUE__DATABASE": "b", "HF_HOME": "c", "JAX_PLATFORMS": "cuda"}
    assert environment(secret) == {"HF_HOME": "c", "JAX_PLATFORMS": "cpu"}


def test_weights_that_cannot_be_read_are_one_sentence_at_the_start(tmp_path: Path) -> None:
    (write_weights(tmp_path) / "encoder_P.ckpt").write_bytes(b"words")
    with pytest.raises(
        ConfigurationError, match=r"^provenance\.watermark: \S+encoder_P\.ckpt is no whole file of torch: "
    ):
        open_signing(ProvenanceConfig(sign=False, watermark=str(tmp_path)))


def test_a_closed_watermark_marks_nothing_and_starts_no_process(tmp_path: Path) -> None:
    made = Watermark(str(tmp_path))
    made.close()
    with pytest.raises(WatermarkFailed, match="closed"):
        made.put(opened(painted()), 1)
    assert made._process is None


def test_a_process_with_a_watermark_imports_no_jax() -> None:
    said = "import sys, bot.provenance.opening, bot.provenance.watermark; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, check=True).stdout == b"False\n"


def binding(data: bytes) -> str | None:
    """Return the soft binding that the library's own reader finds in a file's valid manifest."""
    found = read_manifest(data)
    assert found.wrong == {"signingCredential.untrusted"}
    values = [
        each["data"]["blocks"][0]["value"]
        for each in found.manifest["assertions"]
        if each["label"] == "c2pa.soft-binding" and each["data"]["alg"] == "com.adobe.trustmark.P"
    ]
    (actions,) = (each for each in found.manifest["assertions"] if each["label"] == "c2pa.actions.v2")
    names = [each["action"] for each in actions["data"]["actions"]]
    assert names == ["c2pa.created", *(["c2pa.watermarked.bound"] if values else [])]
    return values[0] if values else None


@pytest.mark.parametrize("count", [1, 4])
def test_a_picture_and_a_grid_leave_with_a_watermark_that_their_manifest_names(
    signing: Signing, count: int
) -> None:
    files = [painted(seed) for seed in range(count)]
    sent = fit_and_sign(files, LIMIT, signing)
    number = number_of(files[0])
    assert sent.suffix == ".png"
    assert len(sent.data) <= LIMIT
    assert CornerWatermark().find(opened(sent.data)) == number
    assert signing.number_in(sent.data) == number
    assert binding(sent.data) == binding_of(number)
    assert read_picture(sent.data).seed == RECIPE.request(0).seed


def test_a_picture_that_is_too_large_is_marked_in_its_smaller_form(signing: Signing) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    file = encode_png(noise, RECIPE.request(0))
    sent = fit_and_sign([file], 100_000, signing)
    assert sent.suffix != ".png"
    assert len(sent.data) <= 100_000
    assert signing.number_in(sent.data) == number_of(file)
    assert binding(sent.data) == binding_of(number_of(file))


def test_files_and_contact_sheets_are_marked(signing: Signing) -> None:
    file = painted()
    (original,) = packed("job", [file], limit=LIMIT, signing=signing).files.values()
    sheet = contact_sheet([None, file], signing, first=None)
    for data in (original, sheet):
        assert signing.number_in(data) == number_of(file)
        assert binding(data) == binding_of(number_of(file))


def test_a_watermark_that_fails_costs_no_picture_and_the_manifest_names_none(
    signer: ManifestSigner, caplog: pytest.LogCaptureFixture
) -> None:
    metrics, broken = Metrics(), CornerWatermark()
    broken.broken = True
    signing = Signing(signer, watermark=broken, metrics=metrics.provenance)
    sent = [fit_and_sign([painted()], LIMIT, signing).data for _ in range(2)]
    assert [binding(data) for data in sent] == [None, None]
    assert [opened(data).tobytes() for data in sent] == [opened(painted()).tobytes()] * 2
    assert b'sdjax_provenance_pictures_total{outcome="unwatermarked"} 2.0' in metrics.text()
    assert signing.number_in(sent[0]) is None
    told = [record.message for record in caplog.records]
    assert told == [
        "pictures are sent without a watermark, as they cannot be watermarked: "
        "OSError: the process has ended",
        "watermarks cannot be found: OSError: the process has ended",
    ]


def test_a_watermark_that_is_required_and_fails_holds_the_picture(signer: ManifestSigner) -> None:
    broken = CornerWatermark()
    broken.broken = True
    signing = Signing(signer, watermark=broken, required=True)
    with pytest.raises(PictureUnsigned, match="cannot be watermarked: the process has ended"):
        fit_and_sign([painted()], LIMIT, signing)
    broken.broken = False
    assert binding(fit_and_sign([painted()], LIMIT, signing).data) == binding_of(number_of(painted()))
