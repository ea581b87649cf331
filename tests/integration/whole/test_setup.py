"""`sdjax-bot setup` on a terminal, with the sandbox as Discord."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import stat
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from processes import END_SECONDS, ROOT, START_SECONDS

from bot.config import Config
from bot.sandbox.server import Sandbox

pytestmark = pytest.mark.slow

ON_TERMINAL = """
import fcntl, signal, termios
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from bot.cli.main import main
main()
"""
"""The shipped command, whose terminal is its standard input."""

CTRL_C = "\x03"
PATIENCE_SECONDS = 5.0
INVITATION = (
    "https://discord.com/oauth2/authorize?client_id=1300000000000000001&scope=bot+applications.commands"
    "&permissions=309237746688"
)
"""View Channel, Send Messages, in threads too, Attach Files, Read Message History, Create Public Threads."""


class Terminal:
    """A person at the terminal of a process."""

    def __init__(self, process: asyncio.subprocess.Process, shown: asyncio.StreamReader, keys: int) -> None:
        self.process = process
        self.text, self._read = "", 0
        self._shown, self._keys = shown, keys

    async def until(self, words: str) -> None:
        """Read to these words, after those of the call before."""
        async with asyncio.timeout(START_SECONDS):
            while words not in self.text[self._read :]:
                read = await self._shown.read(4096)
                assert read, self.text
                self.text += read.decode()
        self._read = self.text.index(words, self._read) + len(words)

    async def ended(self) -> int:
        """Read to the end, and return the exit status."""
        async with asyncio.timeout(START_SECONDS):
            with contextlib.suppress(OSError):  # of a terminal whose process has ended
                while read := await self._shown.read(4096):
                    self.text += read.decode()
            return await self.process.wait()

    async def interrupted(self) -> int:
        """Press Ctrl-C, again while nothing happens, and return the exit status.

        Python handles a signal that comes between its prompt and its reading with the next key alone.
        """
        ended = asyncio.ensure_future(self.ended())
        while not ended.done():
            self.type(CTRL_C)
            await asyncio.wait([ended], timeout=PATIENCE_SECONDS)
        return await ended

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())


@asynccontextmanager
async def setting_up(folder: Path, *arguments: str) -> AsyncIterator[Terminal]:
    """`sdjax-bot setup` in `folder`, killed at the end if it still runs."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ON_TERMINAL, "setup", *arguments),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
    )
    os.close(theirs)
    shown = asyncio.StreamReader()
    reading, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(shown), os.fdopen(ours, "rb", buffering=0)
    )
    try:
        yield Terminal(process, shown, ours)
    finally:
        reading.close()
        if process.returncode is None:
            process.kill()
            await asyncio.wait_for(process.wait(), END_SECONDS)


def at(sandbox: Sandbox) -> tuple[str, ...]:
    return ("--api-url", sandbox.api_url, "--gateway-url", sandbox.gateway_url)


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_the_answers_become_a_configuration_that_the_doctor_finds_well(
    lenient: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCORD_TOKEN", raising=False)
    async with setting_up(tmp_path, *at(lenient)) as terminal:
        await terminal.until("not shown): ")
        terminal.type("another-token\n")
        await terminal.until("Discord refuses the token")
        await terminal.until("not shown): ")
        terminal.type("a-token\n")
        await terminal.until("hub id [demo]: ")
        assert "It is the token of sdjax." in terminal.text
        assert INVITATION in terminal.text
        terminal.type("./none\n")
        await terminal.until("There is no folder or file “./none”")
        await terminal.until("hub id [demo]: ")
        assert names_in(tmp_path) == set()
        terminal.type("\n")
        assert await terminal.ended() == 0, terminal.text
    assert "All is well." in terminal.text
    assert terminal.text.rstrip().endswith("Next: sdjax-bot run --config bot.toml")
    assert "a-token" not in terminal.text
    file, token = tmp_path / "bot.toml", tmp_path / "bot.token"
    assert (mode_of(file), mode_of(token), names_in(tmp_path)) == (0o600, 0o600, {"bot.toml", "bot.token"})
    assert tomllib.loads(file.read_text())["models"] == [{"name": "demo", "checkpoint": "demo"}]
    monkeypatch.chdir(tmp_path)
    assert Config.load(file).discord.read_token({}) == "a-token"


async def test_ctrl_c_before_the_last_answer_leaves_nothing(lenient: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token\n")
    async with setting_up(tmp_path, *at(lenient), "--token-file", "token") as terminal:
        await terminal.until("hub id [demo]: ")
        assert await terminal.interrupted() == 1
    assert "Traceback" not in terminal.text
    assert names_in(tmp_path) == {"token"}
