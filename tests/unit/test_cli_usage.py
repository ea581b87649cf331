"""`sdjax-bot usage`: sums as a table, as JSON and as CSV, with and without prices."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from recipes import origin, recipe
from test_cli import run

from bot.cli.usage import table
from bot.config.operators import UsageConfig
from bot.store import Store
from bot.store.rows.device_time import Spent, Sum, Usage, priced

PRICES = UsageConfig(price_per_device_hour=2.0, prices={"tpu": 8.0}, currency="EUR")
SUMS = [
    Sum(group=("demo",), accelerator="cpu", seconds=1800.0, pictures=3),
    Sum(group=("demo",), accelerator="tpu", seconds=900.0, pictures=2),
    Sum(group=("wide",), accelerator="cpu", seconds=36.0, pictures=1),
]


def test_classes_have_their_own_prices_and_their_sums_are_one_row() -> None:
    assert priced(SUMS, PRICES.price) == [
        Usage(group=("demo",), pictures=5, device_seconds=2700.0, cost=3.0),
        Usage(group=("wide",), pictures=1, device_seconds=36.0, cost=pytest.approx(0.02)),
    ]


def test_a_group_with_a_class_without_a_price_has_no_cost() -> None:
    assert [each.cost for each in priced(SUMS, UsageConfig(prices={"tpu": 8.0}).price)] == [None, None]


def test_the_table_has_a_sum_and_costs_only_where_there_are_any() -> None:
    assert table(["model"], priced(SUMS, PRICES.price), PRICES) == [
        "model   pictures  device hours  cost EUR",
        "demo           5        0.7500      3.00",
        "wide           1        0.0100      0.02",
        "in all         6        0.7600      3.02",
    ]
    assert (
        table(["model"], priced(SUMS, UsageConfig().price), UsageConfig())[0]
        == "model   pictures  device hours"
    )
    assert table(["day", "model"], [], UsageConfig())[1].split() == ["in", "all", "0", "0.0000"]


def test_the_table_says_where_a_price_is_missing() -> None:
    of_one_class = UsageConfig(prices={"cpu": 2.0})
    assert table(["model"], priced(SUMS, of_one_class.price), of_one_class) == [
        "model   pictures  device hours           cost",
        "demo           5        0.7500       no price",
        "wide           1        0.0100           0.02",
        "in all         6        0.7600  at least 0.02",
    ]
    of_none = UsageConfig(prices={"NVIDIA H100 80GB HBM3": 2.9})
    rows = table(["model"], priced(SUMS, of_none.price), of_none)
    assert [row.endswith("  no price") for row in rows] == [False, True, True, True]


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str) -> str:
    """A configuration with a queue in which one picture was painted."""

    async def paint() -> None:
        store = await Store.open(sqlite_url)
        await store.jobs.enqueue(recipe(), origin(1, user_id=2**60))
        (claim,) = await store.leases.claim("worker", limit=1, ttl=60)
        spent = Spent(accelerator="cpu", seconds=90.0)
        await store.leases.complete(claim, artifact="aa/aa.png", seconds=1.0, spent=spent)
        await store.close()

    asyncio.run(paint())
    file = tmp_path / "bot.toml"
    file.write_text(f'[queue]\ndatabase = "{sqlite_url}"\n[usage]\nprice_per_device_hour = 4.0\n')
    return str(file)


def test_programs_get_json_and_csv(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "usage", "--config", config, "--by", "person", "--json") == 0
    row = {"person": str(2**60), "pictures": 1, "device_seconds": 90.0, "cost": 0.1}
    assert json.loads(capsys.readouterr().out) == [row]
    assert run(monkeypatch, "usage", "--config", config, "--by", "model", "--by", "server", "--csv") == 0
    assert capsys.readouterr().out == "model,server,pictures,device_seconds,cost\ndemo,21,1,90.0,0.1\n"
    assert run(monkeypatch, "usage", "--config", config, "--since", "2999-01-01") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["in all         0        0.0000  0.00"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "mood"], "'mood' is not one of"),
        (["--since", "yesterday"], "does not match the format"),
        (["--since", "2026-02-02", "--until", "2026-02-01"], "--until is before --since."),
        (["--json", "--csv"], "Say --json or --csv, and not both."),
    ],
)
def test_mistakes_are_sentences(
    arguments: list[str],
    said: str,
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "usage", "--config", config, *arguments) == 2
    assert said in capsys.readouterr().err
