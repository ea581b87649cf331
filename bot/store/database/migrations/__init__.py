"""Alembic's folder: `Store.open` runs what is missing."""
