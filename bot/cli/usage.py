"""The command that says how long the devices worked, for whom, and what that cost."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bot.cli.configuration import CONFIG, configured
from bot.cli.terminal import hand_over, say
from bot.telemetry.log import escaped

if TYPE_CHECKING:
    from bot.config.operators import UsageConfig
    from bot.store.rows.device_time import Usage

GROUPINGS = ("day", "person", "server", "model", "accelerator")
NO_PRICE = "no price"
DAY = click.DateTime(formats=["%Y-%m-%d"])


@click.command()
@CONFIG
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(GROUPINGS),
    default=["model"],
    show_default=True,
    help="What the sums are grouped by; may be repeated.",
)
@click.option("--since", type=DAY, help="The first day, in UTC.")
@click.option("--until", type=DAY, help="The last day, in UTC.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV.")
def usage(
    *,
    path: Path | None,
    by: Sequence[str],
    since: datetime | None,
    until: datetime | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show how long the devices worked, for whom, and what that cost.

    The seconds are those of all devices together, of every attempt to paint a picture. Server 0 stands for
    direct messages, and a negative number for a person who had everything deleted.
    """
    if since and until and until < since:
        raise click.UsageError("--until is before --since.")
    if as_json and as_csv:
        raise click.UsageError("Say --json or --csv, and not both.")
    config = configured(path)
    from bot.app.operator import usage_now
    from bot.store.rows.device_time import Grouping

    groupings = list(dict.fromkeys(Grouping(each) for each in by))
    found = usage_now(
        config, groupings, since=since.date() if since else None, until=until.date() if until else None
    )
    names = [each.value for each in groupings]
    if as_json:
        hand_over(json.dumps([row_of(names, each) for each in found], indent=1))
    elif as_csv:
        writer = csv.DictWriter(
            sys.stdout, [*names, "pictures", "device_seconds", "cost"], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(
            {name: _cell(value) for name, value in row_of(names, each).items()} for each in found
        )
    else:
        for line in table(names, found, config.usage):
            say(line)


def row_of(names: Sequence[str], usage: Usage) -> dict[str, Any]:
    """Return one row of JSON or CSV: ids are strings, as JavaScript rounds them; an unknown cost is None."""
    row: dict[str, Any] = {name: str(value) for name, value in zip(names, usage.group, strict=True)}
    row |= {"pictures": usage.pictures, "device_seconds": round(usage.device_seconds, 3)}
    return row | {"cost": None if usage.cost is None else round(usage.cost, 6)}


def _cell(value: object) -> object:
    return escaped(value) if isinstance(value, str) else value


def table(names: Sequence[str], found: Sequence[Usage], config: UsageConfig) -> list[str]:
    """Return lines for people, with a sum below; costs only where any price is configured."""
    costs = [NO_PRICE if each.cost is None else f"{each.cost:.2f}" for each in found]
    rows = [[*names, "pictures", "device hours", f"cost {config.currency}".strip()]]
    for each, cost in zip(found, costs, strict=True):
        rows.append([*map(str, each.group), str(each.pictures), f"{each.device_seconds / 3600:.4f}", cost])
    total = [f"{sum(each.pictures for each in found)}", f"{sum(e.device_seconds for e in found) / 3600:.4f}"]
    rows.append(["in all", *[""] * (len(names) - 1), *total, _cost_of_all([each.cost for each in found])])
    if not config.has_prices:
        rows = [row[:-1] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(_aligned(row, widths, left=len(names))) for row in rows]


def _cost_of_all(costs: Sequence[float | None]) -> str:
    """Return the sum, marked as incomplete where a group has no price."""
    known = [cost for cost in costs if cost is not None]
    if costs and not known:
        return NO_PRICE
    return f"{'at least ' if len(known) < len(costs) else ''}{sum(known):.2f}"


def _aligned(row: Sequence[str], widths: Sequence[int], *, left: int) -> list[str]:
    """Return the cells of a row in the widths of their columns; the first `left` begin at the left."""
    cells = enumerate(zip(row, widths, strict=True))
    return [cell.ljust(width) if number < left else cell.rjust(width) for number, (cell, width) in cells]
