"""Files are decoded in separate processes with little time and memory and without secrets."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

import bot.front.uploads.decoder as decoding
from bot.domain.errors import UserMistake
from bot.front.uploads.decoder import MIB, Decoder
from bot.front.uploads.decoder_program import OOM_SCORE
from bot.front.uploads.untrusted_picture import Limits
from bot.provenance.certificates import self_made
from bot.provenance.inspection import Answer, Kind
from bot.provenance.manifests import ManifestSigner
from sdjax_engine.errors import InvalidRequest

LIMITS = Limits(max_bytes=4 * MIB, max_pixels=64_000_000)


def decoder(**values: Any) -> Decoder:
    return Decoder(**{"limits": LIMITS, "memory": 512 * MIB, "seconds": 20, **values})


def png(width: int, height: int, mode: str = "RGB", colour: Any = (255, 0, 0)) -> bytes:
    file = io.BytesIO()
    PIL.Image.new(mode, (width, height), colour).save(file, "PNG", compress_level=1)
    return file.getvalue()


async def problem_of(reader: Decoder, data: bytes) -> str:
    with pytest.raises((InvalidRequest, UserMistake)) as caught:
        await reader.picture(data, what="“image”")
    error = caught.value
    assert error.details["what"] == "“image”"
    return error.problem if isinstance(error, InvalidRequest) else error.message_id


async def test_a_picture_its_transparency_and_a_mask_are_decoded() -> None:
    found = await decoder().picture(png(40, 20, "RGBA", (255, 0, 0, 0)), what="“image”")
    assert (found.width, found.height) == (40, 20)
    assert found.mask is not None
    for data, mode in ((found.png, "RGB"), (found.mask, "L")):
        assert PIL.Image.open(io.BytesIO(data)).mode == mode
    mask = await decoder().mask(png(40, 20, "RGB", (255, 255, 255)), what="“mask”")
    assert PIL.Image.open(io.BytesIO(mask)).mode == "L"


async def test_a_mask_without_white_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="The mask has nothing white"):
        await decoder().mask(png(40, 20, "RGB", (127, 127, 127)), what="“mask”")
    await decoder().mask(png(40, 20, "RGB", (128, 128, 128)), what="“mask”")


async def test_a_long_thin_picture_is_kept() -> None:
    found = await decoder().picture(png(9000, 10), what="“image”")
    assert (found.width, found.height) == (7200, 8)


async def test_the_fault_of_a_file_is_reported() -> None:
    small = Limits(max_bytes=1000, max_pixels=100)
    assert await problem_of(decoder(), b"#!/bin/sh") == "picture"
    assert await problem_of(decoder(limits=small), png(40, 20)) == "picture_large"
    assert await problem_of(decoder(limits=small), bytes(1001)) == "picture_heavy"
    assert await problem_of(decoder(), png(1, 1)) == "picture_small"
    assert await problem_of(decoder(), png(500, 7)) == "picture_small"
    assert await problem_of(decoder(), png(8193, 8)) == "picture_thin"


async def test_a_file_that_needs_more_memory_than_a_decoder_has_is_refused() -> None:
    assert await problem_of(decoder(memory=160 * MIB), png(8000, 8000)) == "picture_costly"


async def test_a_decoder_that_does_not_end_is_killed_and_the_next_file_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    endless, pid = tmp_path / "endless.py", tmp_path / "pid"
    endless.write_text(f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")
    reader = decoder()
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "PROGRAM", (decoding.PROGRAM[0], str(endless)))
        reading = asyncio.create_task(reader.picture(png(8, 8), what="“image”"))
        async with asyncio.timeout(30):
            while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert (await reader.picture(png(8, 8), what="“image”")).width == 8


async def test_a_decoder_that_uses_up_its_time_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    busy = tmp_path / "busy.py"
    busy.write_text(
        "import json, sys\nfrom bot.front.uploads import decoder_program as decoder\n"
        "decoder.restrict(decoder.Task(**json.loads(sys.stdin.buffer.readline())))\nwhile True: pass\n"
    )
    monkeypatch.setattr(decoding, "PROGRAM", (decoding.PROGRAM[0], str(busy)))
    assert await problem_of(decoder(seconds=1), png(8, 8)) == "picture_costly"


KILLED = """
import os, resource, signal, sys
sys.stdin.buffer.readline()
sys.stdin.buffer.read(100_000)
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A decoder that the kernel ends while it reads a file, as it does when memory runs out."""


async def test_a_decoder_that_the_kernel_kills_is_one_refused_picture_and_no_error_of_the_bot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    reader, killed, told = decoder(), tmp_path / "killed.py", list[float]()
    killed.write_text(KILLED)
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "PROGRAM", (decoding.PROGRAM[0], str(killed)))
        with pytest.raises(UserMistake, match="picture_costly"):
            await reader.picture(bytes(4 * MIB), what="“image”", used=told.append)
    assert told == [20.0], "nobody knows what it used"
    assert (await reader.picture(png(8, 8), what="“image”", used=told.append)).width == 8
    assert 0 < told[1] < 20
    gc.collect()
    assert errors == []


@pytest.mark.skipif(not OOM_SCORE.exists(), reason="the system has no such score")
async def test_the_kernel_ends_the_decoder_before_the_bot_where_memory_runs_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = tmp_path / "chosen.py"
    chosen.write_text(
        "from bot.front.uploads import decoder_program as decoder\nrestrict = decoder.restrict\n"
        "def look(task):\n    restrict(task)\n    assert int(decoder.OOM_SCORE.read_text()) == 1000\n"
        "decoder.restrict = look\ndecoder.main()\n"
    )
    monkeypatch.setattr(decoding, "PROGRAM", (decoding.PROGRAM[0], str(chosen)))
    assert (await decoder().picture(png(8, 8), what="“image”")).width == 8
    assert int(OOM_SCORE.read_text()) < 1000


async def test_a_decoder_gets_no_secrets_of_the_bot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISCORD_TOKEN", "a-secret")
    look, seen = tmp_path / "look.py", tmp_path / "seen"
    look.write_text(f"import os\nopen({str(seen)!r}, 'w').write(repr(dict(os.environ)))")
    monkeypatch.setattr(decoding, "PROGRAM", (decoding.PROGRAM[0], str(look)))
    assert await problem_of(decoder(), png(8, 8)) == "picture_costly"
    assert "PYTHONPATH" in seen.read_text()
    assert "a-secret" not in seen.read_text()


async def test_marks_are_read_within_the_limits_and_a_reader_that_breaks_finds_none() -> None:
    signed = ManifestSigner(self_made()).sign(png(40, 20))
    spent: list[float] = []
    marks, digest = await decoder().marks(signed, what="“image”", used=spent.append)
    assert [(mark.kind, mark.says) for mark in marks] == [(Kind.MANIFEST, Answer.YES)]
    assert digest == hashlib.sha256(png(40, 20)).hexdigest()
    assert 0 < spent[0] < 20
    whole = await decoder().picture(signed, what="“image”")
    assert (await decoder().with_manifest(whole, signed, what="“image”")).png != whole.png
    breaking = decoder(memory=64 * MIB)  # less than the library needs
    assert await breaking.marks(signed, what="“image”") == ([], "")
    assert await breaking.with_manifest(whole, signed, what="“image”") is whole
