"""Shared set-up of the comparisons with the reference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from sampler_reference import Figures, Reference, print_figures


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Run the reference in one thread: its arrays are small, and other tests use the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Reference:
    return Reference(monkeypatch)


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    """Collect the worst difference of each sampler and print them at the end."""
    worst: Figures = {}
    yield worst
    print_figures(worst)
