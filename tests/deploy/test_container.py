"""The container file, and the health command inside it."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from evening import free_port

from bot.telemetry.metrics import Metrics
from bot.web.server import serving

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "container"
TEXT = (FOLDER / "Containerfile").read_text()


async def health(address: str) -> tuple[int | None, str]:
    """The status of the health command, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, FOLDER / "health.py", env={"SDJAX_HEALTH": address}, stderr=asyncio.subprocess.PIPE
    )
    _, printed = await process.communicate()
    return process.returncode, printed.decode()


async def test_the_health_command_says_whether_the_process_answers() -> None:
    async def refresh() -> None:
        """A refresh without work."""

    async def ill() -> str:
        return "the disk is full"

    port = free_port()
    address = f"http://127.0.0.1:{port}"
    async with serving("", port, Metrics(), refresh=refresh, checks={"store": ill}):
        assert await health(f"{address}/livez") == (0, "")
        status, printed = await health(f"{address}/readyz")
        assert status == 1
        assert "503" in printed
    status, printed = await health(f"{address}/livez")
    assert status == 1
    assert "refused" in printed
    status, printed = await health("nonsense")
    assert status == 1
    assert "Traceback" not in printed


def test_the_base_has_a_version_and_every_package_a_hash() -> None:
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim-\w+$", TEXT, re.MULTILINE)
    installs = re.findall(r"pip install .*", TEXT)
    assert installs
    assert all("--require-hashes" in line or "--no-index /wheels/" in line for line in installs)


def test_the_process_has_no_rights_and_a_health_command() -> None:
    runtime = TEXT.partition("AS runtime")[2]
    assert re.search(r"^USER 10001:10001$", runtime, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*/opt/health.py", runtime, re.MULTILINE)


@pytest.mark.parametrize("path", re.findall(r"^COPY (?!--from)(.+) \S+$", TEXT, re.MULTILINE))
def test_what_is_copied_is_in_the_context(path: str) -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for each in path.split():
        assert list(ROOT.glob(each))
        assert any(each == name or each.startswith(f"{name}/") for name in allowed), each
