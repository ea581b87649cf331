"""The commands of the fleet, once the command line has read the configuration."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bot.app.operator import in_store
from bot.config import Config
from bot.domain.errors import ConfigurationError, FleetUnavailable
from bot.fleet.controller import GroupReport, Report, Spec
from bot.fleet.groups import mistakes, warnings
from bot.fleet.planning import Phase

POLL_SECONDS = 0.5


def start(config: Config, address: str, warn: Callable[[str], None]) -> None:
    """Start the fleet, or let it go on with this configuration; `warn` of secrets in it.

    Raises ConfigurationError, which lists every mistake, and FleetUnavailable.
    """
    if found := mistakes(config):
        raise ConfigurationError("\n".join(found))
    for warning in warnings(config):
        warn(warning)
    ray_cluster = _ray()
    with ray_cluster.connected(address, config.fleet.name):
        ray_cluster.apply(Spec(config=config.as_toml), config.fleet.name)
        ray_cluster.asked(config.fleet.name, "spec")


def status(config: Config, address: str) -> Iterator[str]:
    """Give lines about each group; raises FleetUnavailable."""
    ray_cluster = _ray()
    with ray_cluster.connected(address, config.fleet.name):
        yield from lines(ray_cluster.asked(config.fleet.name, "report"))


def drain(config: Config, group: str, address: str) -> None:
    """Let a group end its work, and start nothing in it until `start`.

    Raises ConfigurationError for an unknown group, and FleetUnavailable.
    """
    ray_cluster, fleet = _ray(), config.fleet.name

    def drained(spec: Spec) -> Spec:
        known = [each.name for each in spec.parsed().fleet.groups]
        if group not in known:
            raise ConfigurationError(f"The fleet has no group “{group}”; it has {', '.join(known)}.")
        return replace(spec, drained=spec.drained | {group})

    with ray_cluster.connected(address, fleet):
        ray_cluster.change(fleet, drained)
        ray_cluster.asked(fleet, "spec")


def stop(config: Config, address: str, tell: Callable[[str], None]) -> None:
    """Let every unit end its work, wait for that, and end the controller; raises FleetUnavailable."""
    ray_cluster, fleet = _ray(), config.fleet.name
    with ray_cluster.connected(address, fleet):
        ray_cluster.change(fleet, lambda spec: replace(spec, stopping=True))
        told = -1
        while True:
            report: Report = ray_cluster.asked(fleet, "report")
            if not ray_cluster.asked(fleet, "spec").stopping:
                raise FleetUnavailable(f"The fleet “{fleet}” has been started again: it does not stop.")
            if report.looks and not report.problem and not report.units:
                break
            if report.units != told and report.looks:
                told = report.units
                tell(f"{told} processes are ending their work{report.problem and ': ' + report.problem}")
            time.sleep(POLL_SECONDS)
        ray_cluster.end(fleet)


def grant(config: Config, role: str) -> None:
    """Let a role of PostgreSQL read the waiting work; raises ConfigurationError or StoreUnavailable."""
    if not config.queue.database.startswith("postgresql"):
        raise ConfigurationError("Only PostgreSQL has roles: queue.database names an SQLite file.")
    in_store(config, lambda store: store.demands.grant(role))


def lines(report: Report) -> Iterator[str]:
    """Give the lines that show a report."""
    if not report.looks:
        yield "The controller has not looked yet."
    if report.problem:
        yield f"The fleet stays as it is: {report.problem}"
    for group in report.groups:
        yield _line(group)
        yield from (f"  {trouble}" for trouble in group.troubles)


def _line(group: GroupReport) -> str:
    counts = (f"{group.phases[phase]} {phase.value}" for phase in Phase if group.phases[phase])
    there = ", ".join(counts) or "nothing runs"
    old = f"; {group.old} of an earlier version" if group.old else ""
    work = f"; {group.images} images wait, {group.work_seconds:.0f} s of work" if group.images else ""
    return f"{group.group}: {group.target} wanted, {there}{old}{work}"


def _ray() -> Any:
    """Return the module that calls Ray, which is an extra."""
    try:
        return importlib.import_module("bot.fleet.ray_cluster")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise FleetUnavailable(
            "Ray is not installed: install the extra, pip install sdjax-bot[ray]."
        ) from None
