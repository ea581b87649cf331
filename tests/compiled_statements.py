"""SQL statements are compiled once for all databases of a test process.

SQLAlchemy keeps compiled statements per engine, under the identity of its dialect. Each test opens a database
of its own and would compile each statement again: that is a sixth of the time of a test of the store.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

MOST = 3000


def pytest_configure(config: pytest.Config) -> None:
    """Let engines of the same kind of dialect share their compiled statements."""
    shared: defaultdict[type[DefaultDialect], LRUCache[Any, Any]] = defaultdict(lambda: LRUCache(MOST))
    patch = pytest.MonkeyPatch()
    patch.setattr(
        Engine,
        "_compiled_cache",
        property(lambda engine: shared[type(engine.dialect)], lambda _engine, _own: None),
        raising=False,
    )
    patch.setattr(DefaultDialect, "__hash__", lambda dialect: hash(type(dialect)))
    patch.setattr(DefaultDialect, "__eq__", lambda one, other: type(one) is type(other))
    config.add_cleanup(patch.undo)
