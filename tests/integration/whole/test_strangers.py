"""A front whose web port strangers reach, as a process with few files."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest
from evening import alive, write_role

from bot.process.shutdown import allow_files
from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox

FILES = 256
FEW_FILES = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {FILES}))
from bot.cli.main import main
main()
"""
"""The shipped command with a lower limit than the connections of this test."""


@pytest.mark.slow
async def test_a_thousand_half_requests_keep_no_command_and_no_probe_from_its_answer(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    allow_files()  # this process has the other ends
    front = write_role(tmp_path, "front", sandbox, cache=tmp_path / "cache", program=("-c", FEW_FILES))
    async with alive([front]) as operator, Member(sandbox.address, "Omar") as omar:
        strangers = [await half_request(front.port) for _ in range(1000)]
        try:
            for number in range(3):
                await omar.message_of(await omar.imagine(prompt=f"a tree {number}"))
                async with operator.get(f"http://127.0.0.1:{front.port}/livez") as page:
                    assert page.status == 200
        finally:
            for each in strangers:
                each.close()
        logs = front.logs()
    assert "Traceback" not in logs
    assert len(logs.splitlines()) < 100


async def half_request(port: int) -> socket.socket:
    stranger = socket.socket()
    stranger.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(stranger, ("127.0.0.1", port))
    with contextlib.suppress(ConnectionError):  # closed already, for a newer one
        await loop.sock_sendall(stranger, b"GET /livez HTTP/1.1\r\nHost: here\r\n")
    return stranger
