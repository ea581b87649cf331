"""The original files of a result, packed for messages."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from manifests import png, read_manifest

from bot.config import ProvenanceConfig
from bot.front.results.originals import OVERHEAD, packed
from bot.provenance.opening import open_signing


def contents(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_one_picture_is_sent_as_it_is() -> None:
    made = packed("abc", [b"pixels"], limit=6)
    assert (made.files, made.too_large) == ({"abc.png": b"pixels"}, 0)


def test_every_picture_is_signed(tmp_path: Path) -> None:
    signing = open_signing(ProvenanceConfig(folder=str(tmp_path)))
    one = packed("abc", [png()], limit=100_000, signing=signing).files["abc.png"]
    two = contents(packed("abc", [png()] * 2, limit=200_000, signing=signing).files["abc.zip"])
    assert [read_manifest(file).state for file in (one, *two.values())] == ["Valid"] * 3


def test_several_pictures_are_one_archive_numbered_as_the_tiles() -> None:
    made = packed("abc", [b"first", b"second"], limit=10_000)
    assert list(made.files) == ["abc.zip"]
    assert contents(made.files["abc.zip"]) == {"abc-1.png": b"first", "abc-2.png": b"second"}


def test_pictures_that_are_too_many_for_one_archive_fill_several_and_none_is_over_the_limit() -> None:
    limit = 2 * (100 + OVERHEAD)
    made = packed("abc", [bytes(100)] * 5, limit=limit)
    assert list(made.files) == ["abc-1.zip", "abc-2.zip", "abc-3.zip"]
    assert all(len(archive) <= limit for archive in made.files.values())
    together = [name for archive in made.files.values() for name in contents(archive)]
    assert together == [f"abc-{number}.png" for number in range(1, 6)]


def test_a_picture_over_the_limit_is_left_out_and_the_others_keep_their_numbers() -> None:
    made = packed("abc", [b"first", bytes(9_000), b"third"], limit=8_000)
    assert made.too_large == 1
    assert list(contents(made.files["abc.zip"])) == ["abc-1.png", "abc-3.png"]
    alone = packed("abc", [bytes(9_000)], limit=8_000)
    assert (alone.files, alone.too_large) == ({}, 1)


def test_every_picture_over_the_limit_is_counted() -> None:
    made = packed("abc", [bytes(9_000)] * 3, limit=8_000)
    assert (made.files, made.too_large) == ({}, 3)


def test_pictures_that_fill_an_archive_to_the_limit_are_packed() -> None:
    made = packed("abc", [bytes(100)] * 2, limit=100 + OVERHEAD)
    assert (list(made.files), made.too_large) == (["abc-1.zip", "abc-2.zip"], 0)
