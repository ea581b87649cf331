"""A progress bar on the terminal for the denoising steps of one command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

ShowSteps = Callable[[int, int], None]
"""Called with the steps done and all steps, of all pictures together."""


@contextmanager
def step_bar() -> Iterator[ShowSteps]:
    """Yield a function that shows a bar on a terminal from its first call, and nothing on other outputs."""
    bar = None

    def show(done: int, steps: int) -> None:
        nonlocal bar
        if bar is None:
            bar = click.progressbar(
                length=steps, label="Painting", show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty()
            )
            bar.render_progress()
        bar.length = steps
        bar.update(done - bar.pos)

    try:
        yield show
    finally:
        if bar is not None:
            bar.render_finish()
