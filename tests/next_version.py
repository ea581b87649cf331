"""The migrations of this version and one more, for tests of upgrades between released versions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bot.store.database import upgrade

MIGRATION = '''
"""A column and a table that the next version has."""

import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{latest}"


def upgrade():
    op.add_column("jobs", sa.Column("mood", sa.String(length=16), nullable=False, server_default="calm"))
    op.execute(sa.text("UPDATE jobs SET mood = 'done' WHERE finished_at IS NOT NULL"))
    op.add_column("images", sa.Column("mood", sa.String(length=16)))
    op.create_table("moods", sa.Column("name", sa.String(length=16), nullable=False))
    op.execute(sa.text("INSERT INTO moods (name) VALUES ('calm')"))
'''


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """A folder of migrations; let `upgrade.FOLDER` name it to be the next version."""
    folder = tmp_path / "migrations"
    shutil.copytree(upgrade.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    latest = max(file.name[:4] for file in (folder / "versions").glob("v[0-9]*.py"))
    (folder / "versions" / "next_mood.py").write_text(MIGRATION.format(latest=latest))
    return folder
