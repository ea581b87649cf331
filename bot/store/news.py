"""What a transaction has in store for others, and how PostgreSQL carries it to their processes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

CHANNEL = "sdjax_bot"


@dataclass(kw_only=True)
class News:
    """Whether images may be waiting, results be due, or something that is painted be cancelled."""

    work: bool = False
    results: bool = False
    cancelled: bool = False

    def __str__(self) -> str:
        """The names of what is true, with spaces between."""
        return " ".join(field.name for field in fields(self) if getattr(self, field.name))

    @classmethod
    def parse(cls, text: str) -> News:
        """The news that were written so; words of other versions are passed over."""
        words = set(text.split())
        return cls(**{field.name: True for field in fields(cls) if field.name in words})


EVERYTHING = News(work=True, results=True, cancelled=True)


async def publish(connection: AsyncConnection, news: News) -> None:
    """Tell the news to whoever listens, once the transaction is committed and only then."""
    if connection.dialect.name == "postgresql" and (text := str(news)):
        await connection.execute(sa.select(sa.func.pg_notify(CHANNEL, text)))
