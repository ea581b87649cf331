"""Tables reflected once in a test process: its backups are of few revisions, on two kinds of databases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from bot.store.backups import dump, load
from bot.store.database import upgrade

Reflected = dict[tuple[str, str, frozenset[str]], dict[str, sa.Table]]


@pytest.fixture(scope="session")
def reflections() -> Reflected:
    """The tables of each kind of database and revision that a test has reflected."""
    return {}


@pytest.fixture(scope="module")
def reflected_once(reflections: Reflected) -> Iterator[None]:
    """Let databases of one kind and revision share their description, and read the migrations' files once.

    Otherwise each snapshot does both: that is three quarters of a backup's time.
    """
    reflect = dump.reflected

    def reflected(connection: sa.Connection, names: frozenset[str]) -> dict[str, sa.Table]:
        revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        key = connection.dialect.name, str(revision), names
        if key not in reflections:
            reflections[key] = reflect(connection, names)
        return reflections[key]

    read = cache(lambda folder: ScriptDirectory.from_config(upgrade.alembic_config(folder)))
    scripts = SimpleNamespace(from_config=lambda _config: read(upgrade.FOLDER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dump, "reflected", reflected)
        patch.setattr(load, "reflected", reflected)
        patch.setattr(upgrade, "ScriptDirectory", scripts)
        yield
