"""Prometheus' rules, by its own tests, and the board: every query names a metric and a label that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from bot.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
RULES = yaml.safe_load((FOLDER / "prometheus" / "rules.yaml").read_text())
BOARD = json.loads((FOLDER / "grafana" / "boards" / "sdjax.json").read_text())
TARGET_LABELS = {"job", "instance", "role"}  # set by Prometheus
needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


def series() -> dict[str, set[str]]:
    """Every series that a process has, by name, with its own labels."""
    metrics = Metrics()
    found: dict[str, set[str]] = {"up": set()}
    for family in metrics.registry.collect():
        found |= {sample.name: set(sample.labels) for sample in family.samples}
    for section in vars(metrics).values():
        for metric in vars(section).values():
            if isinstance(metric, MetricWrapperBase):  # those with labels have no sample before they are used
                found |= _names(metric)
    return found


def _names(metric: MetricWrapperBase) -> dict[str, set[str]]:
    (family,) = metric.describe()
    labels = set(metric._labelnames)
    match family.type:
        case "counter":
            return {f"{family.name}_total": labels}
        case "histogram":
            return {f"{family.name}_{part}": labels | {"le"} for part in ("bucket", "count", "sum")}
    return {family.name: labels}


def expressions() -> Iterator[tuple[str, str]]:
    """Every query, with the name of its rule or panel."""
    for group in RULES["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for panel in BOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel.get("targets", ()))


def unknown(expression: str) -> list[str]:
    """The metrics and labels of a query that no process has."""
    known = series()
    names = set(re.findall(r"\b(?:sdjax|process)_\w+|\bup\b", expression))
    labels = {
        label
        for group in re.findall(r"\{([^}]*)\}|\bby \(([^)]*)\)", expression)
        for label in re.findall(r"(\w+)(?=\s*=)|^(\w+)|, (\w+)", "".join(group))
        for label in label
        if label
    }
    allowed = TARGET_LABELS.union(*(known.get(name, set()) for name in names))
    return sorted((names - set(known)) | (labels - allowed))


@pytest.mark.parametrize(("name", "expression"), list(expressions()))
def test_a_query_names_what_exists(name: str, expression: str) -> None:
    assert unknown(expression) == []
    assert re.search(r"\b(sdjax|process)_|\bup\b", expression), "no metric was found in it"


def test_an_unknown_metric_and_an_unknown_label_are_found() -> None:
    assert unknown('sum by (mood) (rate(sdjax_images_total{colour="red"}[5m])) / sdjax_happiness') == [
        "colour",
        "mood",
        "sdjax_happiness",
    ]


def test_the_board_shows_every_metric_of_the_bot() -> None:
    shown = " ".join(expression for name, expression in expressions())
    families = {
        re.sub(r"_(total|bucket|count|sum)$", "", name)
        for name in series()
        if name.startswith("sdjax_") and not name.endswith("_created")
    }
    # The board shows related sums or rates instead.
    beside = {"sdjax_loop_longest_stall_seconds", "sdjax_previews_late"}
    assert {family for family in families if family not in shown} == beside


def test_every_alert_has_its_line_among_the_symptoms() -> None:
    page = (ROOT / "docs" / "operators" / "trouble.md").read_text()
    alerts = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]
    assert [alert for alert in alerts if f"`{alert}`" not in page] == []


def test_every_alert_is_tried_both_ways() -> None:
    tried = yaml.safe_load((FOLDER / "prometheus" / "rules.test.yaml").read_text())["tests"]
    outcomes = {
        (each["alertname"], bool(each.get("exp_alerts")))
        for test in tried
        for each in test["alert_rule_test"]
    }
    alerts = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]
    assert outcomes == {(alert, raised) for alert in alerts for raised in (True, False)}


@needs_promtool
@pytest.mark.parametrize("command", [("check", "rules", "rules.yaml"), ("test", "rules", "rules.test.yaml")])
def test_promtool_finds_no_mistake(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *command], cwd=FOLDER / "prometheus", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_reads_the_configuration_of_prometheus() -> None:
    file = FOLDER / "prometheus" / "prometheus.yml"
    done = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
