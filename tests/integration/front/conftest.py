"""Shared set-up of the front's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def _discord_is_elsewhere(discord_address: Callable[[str, str], None]) -> None:
    """Put the real address back after each test."""
