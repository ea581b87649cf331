"""Files of finished pictures."""

import asyncio
import hashlib
import uuid
from pathlib import Path

import pytest
from stores import hanging_files, small_disk

from bot.domain.errors import ConfigurationError, MissingArtifact, StoreUnavailable
from bot.files.artifacts import Artifacts

PICTURE = b"\x89PNG" + bytes(range(256)) * 64
DIGEST = hashlib.sha256(PICTURE).hexdigest()
NAME = f"{DIGEST[:2]}/{DIGEST}.png"


@pytest.fixture(params=["folder", "file://", "memory://"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> Artifacts:
    urls = {
        "folder": str(tmp_path / "results"),
        "file://": f"file://{tmp_path}/results",
        "memory://": f"memory://{uuid.uuid4().hex}",
    }
    return Artifacts(urls[request.param])


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_file_is_named_by_its_content_and_read_back(artifacts: Artifacts) -> None:
    assert await artifacts.put(PICTURE, ".png") == NAME
    assert await artifacts.put(PICTURE, "png") == NAME
    assert await artifacts.get(NAME) == PICTURE


async def test_a_deleted_file_is_missing_and_deleting_again_is_no_error(artifacts: Artifacts) -> None:
    name = await artifacts.put(PICTURE, ".png")
    await artifacts.delete(name)
    await artifacts.delete(name)
    with pytest.raises(MissingArtifact, match=DIGEST):
        await artifacts.get(name)


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", f"{NAME}/../x", "", "ab/abc.png"])
async def test_no_name_leads_out_of_the_folder(artifacts: Artifacts, name: str) -> None:
    for verb in (artifacts.get, artifacts.delete):
        with pytest.raises(ValueError, match="not the name of an artifact"):
            await verb(name)


async def test_simultaneous_writes_leave_one_complete_file(tmp_path: Path) -> None:
    artifacts = Artifacts(str(tmp_path))
    names = await asyncio.gather(*(artifacts.put(PICTURE, ".png") for _ in range(20)))
    assert set(names) == {NAME}
    assert files_in(tmp_path) == [tmp_path / NAME]
    assert (tmp_path / NAME).read_bytes() == PICTURE


async def test_a_full_disk_is_one_sentence_and_leaves_no_half_file(tmp_path: Path) -> None:
    sentence = r"^The disk that holds .* is full: free some space\.$"
    with small_disk(), pytest.raises(StoreUnavailable, match=sentence) as told:
        await Artifacts(str(tmp_path)).put(PICTURE, ".png")
    assert str(tmp_path) in str(told.value)
    assert files_in(tmp_path) == []


async def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "results"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(StoreUnavailable, match="cannot be written") as told:
        await Artifacts(str(blocked)).put(PICTURE, ".png")
    assert str(blocked) in str(told.value)


@pytest.mark.parametrize("address", ["nowhere://bot:hunter2@files/x", "sftp://bot:hun/ter2@127.0.0.1:9/x"])
def test_no_error_message_contains_the_password_of_an_address(address: str) -> None:
    with pytest.raises((ConfigurationError, StoreUnavailable), match=r"://…@") as told:
        Artifacts(address)
    assert "ter2" not in str(told.value)


async def test_an_unreadable_file_does_not_reveal_the_password_of_its_address() -> None:
    with pytest.raises(StoreUnavailable) as told:
        await Artifacts("http://bot:hunter2@127.0.0.1:9/x").get(NAME)
    assert "hunter2" not in str(told.value)


def test_an_address_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nowhere://bucket"):
        Artifacts("nowhere://bucket")


async def test_an_address_that_does_not_answer_raises_one_sentence(tmp_path: Path) -> None:
    refused = pytest.raises(StoreUnavailable, match=r"cannot be read: no answer within 0\.1 s")
    with hanging_files(tmp_path, count=1) as (name,), refused:
        await Artifacts(str(tmp_path), call_seconds=0.1).get(name)
