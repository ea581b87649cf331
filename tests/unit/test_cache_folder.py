"""The cache folder is trusted only if no other user can have written to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sdjax_engine.compiling import cache_folder
from sdjax_engine.compiling.cache_folder import folder_problem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "parent" / "cache"
    folder.mkdir(parents=True)
    (folder / "programs").mkdir()
    (folder / "jit_run-cache").write_bytes(b"")
    for each in (folder, folder.parent, folder / "programs"):
        each.chmod(0o755)
    (folder / "jit_run-cache").chmod(0o644)
    return folder


def loosen(name: str, mode: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).chmod(mode)


def link(folder: Path) -> None:
    (folder / "programs").rename(folder.parent / "elsewhere")
    (folder / "programs").symlink_to(folder.parent / "elsewhere")


UNSAFE = {
    "folder for all": (loosen(".", 0o777), "every user of this machine can write to {folder}"),
    "folder for the group": (loosen(".", 0o775), "the group of {folder} can write to it"),
    "file for all": (loosen("jit_run-cache", 0o666), "every user of this machine can write to {folder}/jit"),
    "programs for all": (loosen("programs", 0o777), "can write to {folder}/programs"),
    "link": (link, "{folder}/programs is a symbolic link"),
    "parent for all": (loosen("..", 0o777), "every user of this machine can replace {folder}"),
}


@pytest.mark.parametrize(("change", "words"), UNSAFE.values(), ids=UNSAFE)
def test_folder_that_others_can_write_to_is_refused(
    change: Callable[[Path], None], words: str, folder: Path
) -> None:
    change(folder)

    assert words.format(folder=folder) in str(folder_problem(folder, group=False))


def test_folder_of_this_user_only_is_trusted(folder: Path) -> None:
    assert folder_problem(folder, group=False) is None


def test_new_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    assert folder_problem(tmp_path / "new" / "cache", group=False) is None
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


def test_group_writable_volume_is_trusted_if_its_group_is_trusted(folder: Path) -> None:
    for each in (folder, folder / "programs"):
        each.chmod(0o2775)  # as Kubernetes leaves a volume with an fsGroup
    (folder / "jit_run-cache").chmod(0o664)

    assert folder_problem(folder, group=True) is None


def test_folder_for_all_is_refused_whether_its_group_is_trusted_or_not(folder: Path) -> None:
    folder.chmod(0o777)

    assert folder_problem(folder, group=True) is not None


def test_private_folder_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o700)
    monkeypatch.setattr(cache_folder, "ROOT", -1)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)

    assert folder_problem(folder, group=False) == f"{folder} belongs to another user"


def test_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert "cannot be used" in str(folder_problem(tmp_path / "file", group=False))


def test_the_advice_of_a_refusal_makes_the_folder_trusted(folder: Path) -> None:
    for each in (folder / "programs", folder / "jit_run-cache"):
        each.chmod(0o775)  # as a login whose umask is 002 leaves them
    assert folder_problem(folder, group=False) is not None
    folder.chmod(0o700)
    assert folder_problem(folder, group=False) is None
