"""The lock files have a fitting version of every package in `pyproject.toml`, with hashes, no addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = [*PROJECT["dependencies"], "pip", "setuptools"]
UNLOCKED = {"torch"}  # its builds differ from machine to machine


def locked(name: str) -> list[str]:
    """One entry a package and environment, with its hashes."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        ("requirements.lock", RUN),
        ("requirements-dev.lock", [*RUN, *PROJECT["optional-dependencies"]["dev"]]),
    ],
)
def test_the_lock_has_a_fitting_version_of_every_package(lock: str, asked: list[str]) -> None:
    versions: dict[str, list[str]] = {}
    for entry in locked(lock):
        requirement = Requirement(entry.split("--hash")[0].strip())
        (only,) = requirement.specifier
        assert only.operator == "=="
        versions.setdefault(canonicalize_name(requirement.name), []).append(only.version)

    for wanted in map(Requirement, asked):
        name = canonicalize_name(wanted.name)
        if name not in UNLOCKED:
            assert versions.get(name), f"{name} is not in {lock}: run make lock"
            assert all(map(wanted.specifier.contains, versions[name])), f"{name}: run make lock"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_hashes_and_no_address(lock: str) -> None:
    for entry in locked(lock):
        assert re.search(r" --hash=sha256:[0-9a-f]{64}\b", entry), entry
        assert "://" not in entry
        assert " @ " not in entry


def test_the_locks_of_use_and_of_tests_agree() -> None:
    assert set(locked("requirements.lock")) <= set(locked("requirements-dev.lock"))
