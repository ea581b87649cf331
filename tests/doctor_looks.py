"""Runs single checks of the doctor, and changes databases by plain statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import sqlalchemy as sa

from bot.doctor.findings import Check, Finding, run
from bot.store.database.opening import connect_database

Look = Callable[[], AsyncIterator[Finding]]


async def found(*looks: Look, seconds: float = 30.0) -> list[Finding]:
    """Return the findings of these looks."""
    checks = [Check(part="a part", find=look, seconds=seconds) for look in looks]
    return [finding async for finding in run(checks)]


def problems(findings: list[Finding]) -> str:
    """Return the texts of the findings that are not well."""
    return "\n".join(finding.text for finding in findings if not finding.well)


async def changed(url: str, statement: str) -> None:
    """Run one statement, without a migration."""
    database_ = connect_database(url)
    async with database_.write() as connection:
        await connection.execute(sa.text(statement))
    await database_.close()
