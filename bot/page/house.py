"""What the page looks at: the store, the pictures, the health of this process, prices, and a clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from bot.config.operators import UsageConfig
from bot.config.page import PageConfig
from bot.files.artifacts import Artifacts
