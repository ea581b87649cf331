"""Tables reflected once in a test process: its backups are of few revisions, on two kinds of databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from bot.store import dumping, loading


@pytest.fixture(scope="module")
def reflected_once() -> Iterator[None]:
    """Let databases of one kind and revision share their description: it takes half of a backup's time."""
    reflect = dumping.reflected
    known: dict[tuple[str, str, frozenset[str]], dict[str, sa.Table]] = {}

    def reflected(connection: sa.Connection, names: frozenset[str]) -> dict[str, sa.Table]:
        revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        key = connection.dialect.name, str(revision), names
        if key not in known:
            known[key] = reflect(connection, names)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dumping, "reflected", reflected)
        patch.setattr(loading, "reflected", reflected)
        yield
