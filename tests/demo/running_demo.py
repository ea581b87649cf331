"""The demo as a newcomer starts it: `sdjax-bot demo` in its own process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from processes import BOT, END_SECONDS, ROOT


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A running demo: the address of its page, its first picture, and its output."""

    address: str
    picture: Path
    said: str

    @property
    def cache(self) -> Path:
        """The folder of its compiled programs."""
        return self.picture.parent / "cache"


class RunningDemo:
    """`sdjax-bot demo` in `folder`, its page on any free port."""

    demo: Demo

    def __init__(self, folder: Path) -> None:
        self._err = folder / "demo.err"
        with self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, *BOT, "demo", "--port", "0"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )

    def wait_until_serving(self) -> None:
        """Read the demo's output until it serves."""
        assert self._process.stdout is not None
        said, picture = "", None
        for line in self._process.stdout:
            said += line
            picture = re.search(r"The picture: +(.+)", line) or picture
            page = re.search(r"The page: +(http://127\.0\.0\.1:\d+)", line)
            if page and picture:
                self.demo = Demo(address=page[1], picture=Path(picture[1]), said=said)
                return
        raise AssertionError(f"the demo ended before it served, having said:\n{said}{self._err.read_text()}")

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        """Send the signal; return the exit status, what was said since, and the standard error."""
        self._process.send_signal(number)
        try:
            status = self._process.wait(END_SECONDS)
        finally:
            self._process.kill()
            said, _ = self._process.communicate()
        return status, said, self._err.read_text()
