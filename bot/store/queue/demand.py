"""The demand: the work that waits in each lane, in seconds of a worker of each class of accelerators.

The view `fleet_demand` shows it to any scaler, and keeps its columns in every version. Like claims, it leaves
out the images of paused channels and servers. A model whose offer a front awaits has a row without images, of
one second of work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bot.domain.errors import ConfigurationError
from bot.store.database.database import Verbs, add_new
from bot.store.tables.fleet import accelerators

VIEW = "fleet_demand"


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What waits in one lane, for workers of one class of accelerators.

    One worker of the class needs `work_seconds` for it. `images` wait, the first one since `oldest`, in epoch
    seconds; None where none waits. Workers hold `running` further images.
    """

    lane: str
    model: str
    accelerator: str
    work_seconds: float
    images: int
    oldest: float | None
    running: int = 0


_ROWS: sa.Select[*tuple[Any, ...]] = sa.select(
    *(sa.column(name) for name in ("lane", "model", "accelerator", "work_seconds", "images", "oldest")),
    sa.column("running"),
).select_from(sa.table(VIEW))


class Demands(Verbs):
    """The verbs of the demand."""

    async def rows(self) -> list[Demand]:
        """Return what waits: one row for each lane with work and each known class, ordered by both."""
        rows = await self._rows(_ROWS.order_by(sa.column("lane"), sa.column("accelerator")))
        return [Demand(**row._mapping) for row in rows]

    async def know(self, names: Iterable[str]) -> None:
        """Let the demand have rows for these classes of accelerators, also before their first worker."""
        rows = [{"name": name} for name in sorted(set(names))]
        if rows:
            async with self._database.write() as connection:
                await add_new(connection, accelerators, rows)

    async def grant(self, role: str) -> None:
        """Let a role read the view, on PostgreSQL only; raises ConfigurationError without such a role."""
        async with self._database.write() as connection:
            known = sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role")
            if await connection.scalar(known, {"role": role}) is None:
                raise ConfigurationError(
                    f"PostgreSQL has no role “{role}”: create it (CREATE ROLE {role} LOGIN PASSWORD '…')."
                )
            quoted = connection.dialect.identifier_preparer.quote_identifier(role)
            schema = await connection.scalar(sa.text("SELECT current_schema()"))
            place = connection.dialect.identifier_preparer.quote_identifier(str(schema))
            await connection.execute(sa.text(f"GRANT USAGE ON SCHEMA {place} TO {quoted}"))
            await connection.execute(sa.text(f"GRANT SELECT ON {place}.{VIEW} TO {quoted}"))
