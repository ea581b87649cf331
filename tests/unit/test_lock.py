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

EXTRAS = ("postgres", "cuda", "tpu", "ray", "otel")  # of the images: LOCKED_EXTRAS of the Makefile


def locked(name: str) -> list[str]:
    """One entry a package and environment, with its hashes."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line]


def name_of(entry: str) -> str:
    """The package of an entry."""
    return canonicalize_name(Requirement(entry.split("--hash", maxsplit=1)[0].strip()).name)


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


@pytest.mark.parametrize("lock", [path.name for path in sorted(ROOT.glob("requirements*.lock"))])
def test_every_locked_package_has_hashes_and_no_address(lock: str) -> None:
    for entry in locked(lock):
        assert re.search(r" --hash=sha256:[0-9a-f]{64}\b", entry), entry
        assert "://" not in entry
        assert " @ " not in entry


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_lock_of_an_extra_completes_the_lock_of_use(extra: str) -> None:
    used = locked("requirements.lock")
    added = locked(f"requirements-{extra}.lock")
    assert added
    assert not {name_of(entry) for entry in used} & {name_of(entry) for entry in added}
    names = {name_of(entry) for entry in [*used, *added]}
    asked = {
        canonicalize_name(Requirement(wanted).name) for wanted in PROJECT["optional-dependencies"][extra]
    }
    assert asked <= names, "run make lock"


def test_the_locks_of_use_and_of_tests_agree() -> None:
    assert set(locked("requirements.lock")) <= set(locked("requirements-dev.lock"))
