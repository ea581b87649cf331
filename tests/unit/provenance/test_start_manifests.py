"""Manifests of start pictures: which are kept, and how results name them."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from manifests import png, read_manifest
from recipes import RECIPE
from test_inspection import SIGNED, with_chunk
from test_inspection import with_manifest as signed_by_others
from time_authority import time_authority

from bot.config import ProvenanceConfig
from bot.provenance.certificates import self_made
from bot.provenance.manifests import ManifestSigner
from bot.provenance.opening import open_signing
from bot.provenance.start_manifests import kept_manifest, manifest_in, with_manifest
from sdjax_engine.images import encode_png


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default folder of the certificate is in the present one."""
    monkeypatch.chdir(tmp_path)


def painted_from(start: bytes) -> bytes:
    request = replace(RECIPE.request(0), init_image=start, strength=0.5)
    return encode_png(np.zeros((8, 8, 3), np.uint8), request)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_the_manifest_of_a_start_picture_becomes_the_parent_of_the_result(form: str) -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (40, 40), "red").save(file, form)
    sent = ManifestSigner(self_made()).sign(file.getvalue())
    store = kept_manifest(sent)
    assert store is not None
    start = with_manifest(png(), store)
    starts = {hashlib.sha256(start).hexdigest(): start}
    signing = open_signing(ProvenanceConfig(), starts=starts.get)
    result = painted_from(start)
    signed = signing.signed(result)
    found = read_manifest(signed)
    assert (found.state, found.wrong) == ("Valid", {"signingCredential.untrusted"})
    [parent] = found.manifest["ingredients"]
    assert parent["relationship"] == "parentOf"
    assert parent["active_manifest"]
    [actions] = [each["data"]["actions"] for each in found.manifest["assertions"]]
    assert [action["action"] for action in actions] == ["c2pa.opened", "c2pa.edited"]
    assert actions[1]["digitalSourceType"].endswith("/compositeWithTrainedAlgorithmicMedia")
    assert len(signed) <= len(result) + signing.room
    with PIL.Image.open(io.BytesIO(start)) as picture:
        assert picture.tobytes() == PIL.Image.new("RGB", (8, 8)).tobytes()


def test_the_manifests_of_all_other_given_pictures_become_inputs_of_the_result_beside_its_parent() -> None:
    files = []
    for colour in ("red", "green", "blue", "black", "white"):
        file = io.BytesIO()
        PIL.Image.new("RGB", (40, 40), colour).save(file, "PNG")
        store = kept_manifest(ManifestSigner(self_made()).sign(file.getvalue()))
        assert store is not None
        files.append(with_manifest(file.getvalue(), store))
    signing = open_signing(
        ProvenanceConfig(), starts={hashlib.sha256(file).hexdigest(): file for file in files}.get
    )
    start, control, prompt, *shown = files
    for begun, action in ((None, "c2pa.created"), (start, "c2pa.edited")):
        request = replace(RECIPE.request(0), init_image=begun, references=tuple(shown))
        request = replace(request, control_image=control, controlnet="canny", image_prompt=prompt)
        result = encode_png(np.zeros((8, 8, 3), np.uint8), request)
        signed = signing.signed(result)
        found = read_manifest(signed)
        assert (found.state, found.wrong) == ("Valid", {"signingCredential.untrusted"})
        kinds = [(each["relationship"], each["title"]) for each in found.manifest["ingredients"]]
        named = ["control picture", "image prompt", *["reference picture"] * 2]
        parents = [("parentOf", "start picture")] * (begun is not None)
        assert kinds == [*parents, *(("inputTo", title) for title in named)]
        [actions] = [each["data"]["actions"] for each in found.manifest["assertions"]]
        assert actions[-1]["action"] == action
        assert actions[-1]["digitalSourceType"].endswith("/compositeWithTrainedAlgorithmicMedia")
        assert len(actions[-1]["parameters"]["ingredients"]) == 4
        assert len(signed) <= len(result) + signing.room


def test_a_result_says_by_itself_what_it_is_if_its_start_picture_has_no_manifest_or_is_gone() -> None:
    for starts in ({}, {hashlib.sha256(png()).hexdigest(): png()}):
        signing = open_signing(ProvenanceConfig(), starts=starts.get)
        found = read_manifest(signing.signed(painted_from(png())))
        assert found.source_type == "compositeWithTrainedAlgorithmicMedia"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        png(),
        SIGNED[:600],
        signed_by_others(png(), "digitalCapture"),  # it may hold a place, or a thumbnail
        signed_by_others(png(), "trainedAlgorithmicMedia", title="x" * 200_000),
        with_chunk(b"caBX", b"\0\0\0\x08jumd" * 5_000),
        with_chunk(b"caBX", b"jumd" * 20_000),
        SIGNED.replace(b"c2pa.signature", b"c2pa.signaturf"),
        b"\xff\xd8\xff\xeb\0\0" * 5_000 + b"jumd",
        b"\xff\xd8\xff\xeb\0\x0aJPjumdxx" * 5_000,
        b"RIFF\xff\xff\xff\xffWEBPC2PA\xff\xff\xff\xffjumd",
        b"RIFF\0\0\0\0WEBP" + bytes(80_000) + b"jumd",
    ],
    ids=range(12),
)
def test_a_manifest_that_is_broken_large_or_of_a_camera_is_not_kept(data: bytes) -> None:
    assert kept_manifest(data) is None


def test_a_damaged_manifest_of_a_start_picture_prevents_neither_the_signature_nor_its_time_stamp(
    tmp_path: Path,
) -> None:
    store = manifest_in(SIGNED)
    assert store is not None
    with time_authority(tmp_path) as address:
        config = ProvenanceConfig(folder=str(tmp_path / "provenance"), time_authority=address)
        for damaged in (store[:-500], b"jumd" * 100, b"\0\0\0\x08jumb" * 1000):
            start = with_manifest(png(), damaged)
            signing = open_signing(config, starts={hashlib.sha256(start).hexdigest(): start}.get)
            found = read_manifest(signing.signed(painted_from(start)))
            assert (found.state, "time" in found.manifest["signature_info"]) == ("Valid", True)
