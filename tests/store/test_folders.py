"""Folders of results and of the queue: their identity, their permissions, and refused file systems."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.domain.errors import StoreUnavailable
from bot.files.artifacts import Artifacts
from bot.membership.folders import MARK, folder_id
from bot.store import Store
from bot.store.database.sqlite_file import network_file_system

MOUNTS = r"""
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw - proc proc rw
40 22 0:44 / /srv rw shared:1 master:2 - nfs4 files:/srv rw
41 40 8:2 / /srv/local rw - xfs /dev/sdb1 rw
42 22 0:45 / /mnt/with\040space rw - fuse.sshfs me@files: rw
43 22 0:46 / /home rw - cifs //files/home rw
44 22 0:47 / /data rw - fuse.mergerfs pool rw
45 22 0:48 / /cover rw - ext4 /dev/sdc1 rw
46 22 0:49 / /cover rw - 9p host rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/queue.sqlite3", None),
        ("/srv/queue.sqlite3", "nfs4"),
        ("/srv/local/queue.sqlite3", None),
        ("/mnt/with space/queue.sqlite3", "fuse.sshfs"),
        ("/homes/queue.sqlite3", None),
        ("/home/queue.sqlite3", "cifs"),
        ("/data/queue.sqlite3", None),
        ("/cover/queue.sqlite3", "9p"),
    ],
)
def test_a_network_s_file_system_is_known_by_its_mount(path: str, kind: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


def test_one_folder_has_one_identity_under_every_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "pictures")
    first = folder_id(str(tmp_path / "pictures"))
    assert folder_id(f"file://{tmp_path}/pictures") == folder_id(str(tmp_path / "link")) == first
    assert folder_id(str(tmp_path / "others")) != first


def test_a_remote_folder_is_identified_by_its_address_and_memory_is_never_shared() -> None:
    assert folder_id("https://files.example/pictures") == "https://files.example/pictures"
    assert folder_id("memory://pictures") != folder_id("memory://pictures")


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        StoreUnavailable, match=r"Results in .*file/pictures cannot be written: Not a directory"
    ):
        folder_id(str(tmp_path / "file" / "pictures"))


@pytest.fixture
def usual_mask() -> Iterator[None]:
    """The usual umask: other users can read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """Return the paths below `folder` with permissions for other users."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    return {str(path.relative_to(folder)): oct(mode) for path, mode in modes.items() if mode & 0o077}


async def put_something(folder: Path) -> None:
    """Open a queue and a folder of results in `folder`, like a process."""
    store = await Store.open(f"sqlite:///{folder}/var/queue.sqlite3")
    folder_id(str(folder / "var" / "results"))
    await Artifacts(str(folder / "var" / "results")).put(b"a picture", ".png")
    await store.tell_time()
    assert open_to_others(folder) == {}
    await store.close()


@pytest.mark.usefixtures("usual_mask")
async def test_only_the_owner_can_read_the_queue_and_the_results(tmp_path: Path) -> None:
    await put_something(tmp_path)


@pytest.mark.usefixtures("usual_mask")
async def test_files_that_an_earlier_version_left_readable_become_private(tmp_path: Path) -> None:
    await put_something(tmp_path)
    (tmp_path / "var" / "queue.sqlite3").chmod(0o644)
    (tmp_path / "var" / "results").chmod(0o755)
    await put_something(tmp_path)


def test_a_folder_on_a_disk_without_hard_links_is_known_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    first = folder_id(str(tmp_path / "pictures"))
    assert folder_id(str(tmp_path / "pictures")) == first
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == [MARK]
