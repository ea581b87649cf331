"""The progress bar on a terminal."""

from __future__ import annotations

import contextlib
import io
import os

import pytest

from bot.cli.progress_bar import step_bar


def everything(terminal: int) -> str:
    """Return the output of a terminal after its other end was closed."""
    told = b""
    with contextlib.suppress(OSError):  # Linux's end of file on a terminal
        while piece := os.read(terminal, 65536):
            told += piece
    os.close(terminal)
    return told.decode()


def test_a_terminal_shows_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with step_bar() as show:
            show(3, 40)
            show(40, 40)
    shown = everything(ours)
    assert "Painting" in shown
    assert "3/40" in shown
    assert "40/40" in shown


def test_an_output_that_is_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    with step_bar() as show:
        show(3, 40)
    assert file.getvalue() == ""
