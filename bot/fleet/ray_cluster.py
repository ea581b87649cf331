"""The fleet on Ray: its controller and its units as detached actors that Ray restarts for ever.

An actor has all its resources on one machine, so a worker with several devices needs no placement group.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray
import ray.actor
import ray.exceptions
import ray.util

from bot.domain.errors import ConfigurationError, FleetUnavailable
from bot.fleet.controller import Controller, Report, Spec
from bot.fleet.launch import Launch
from bot.fleet.planning import Phase
from bot.fleet.unit_process import UnitProcess, UnitState
from bot.telemetry.log import set_up

log = logging.getLogger(__name__)

CONTROLLER = "controller"
UNPLACED = UnitState(phase=Phase.PENDING, machine="", pid=None)
UNKNOWN = UnitState(phase=Phase.STARTING, machine="", pid=None)  # drained, not removed: it may hold images
ANSWER_SECONDS = 2.0
CONNECT_SECONDS = 5.0
SILENT_SECONDS = 20.0  # a unit that has not answered for so long counts as not placed
REPLACE_SECONDS = 60.0
FOR_EVER: Mapping[str, Any] = {"lifetime": "detached", "max_restarts": -1, "max_task_retries": 0}


class ControllerActor:
    """The controller as an actor: it looks in a thread, which every start of the actor begins."""

    def __init__(self, spec: Spec, fleet: str) -> None:
        config = spec.parsed()
        set_up(config.log.level, config.log.format)
        self._controller = Controller(spec, RayCluster(fleet))
        self._spec = spec
        threading.Thread(
            target=lambda: asyncio.run(self._controller.run()), name="looks", daemon=True
        ).start()

    def spec(self) -> Spec:
        """Return what the controller does."""
        return self._spec

    def report(self) -> Report:
        """Return the last look."""
        return self._controller.report


class RayCluster:
    """The units of one fleet, in the Ray namespace of its name."""

    def __init__(self, fleet: str) -> None:
        self._fleet = fleet
        self._units: dict[str, ray.actor.ActorHandle] = {}
        self._asked: dict[str, Any] = {}
        self._known: dict[str, tuple[float, UnitState]] = {}

    def units(self) -> Mapping[str, UnitState]:
        """Return the state of every unit, by name; for a unit that answers slowly, the last known state."""
        names = [
            each["name"]
            for each in ray.util.list_named_actors(all_namespaces=True)
            if each["namespace"] == self._fleet and each["name"].count("/") == 2
        ]
        for gone in self._units.keys() - set(names):
            self._forget(gone)
        for name in set(names) - self._units.keys():
            with contextlib.suppress(ValueError):  # it has just died
                self._units[name] = ray.get_actor(name, namespace=self._fleet)
                self._known[name] = time.monotonic(), UNKNOWN  # an earlier controller has started it
        for name in self._units.keys() - self._asked.keys():
            self._asked[name] = self._units[name].state.remote()
        if self._asked:
            ray.wait(list(self._asked.values()), num_returns=len(self._asked), timeout=ANSWER_SECONDS)
        return {name: self._answer(name) for name in names if name in self._units}

    def start(self, name: str, launch: Launch) -> None:
        """Let Ray place a unit, spread over the machines that have its resources."""
        options = {"name": name, "namespace": self._fleet, "scheduling_strategy": "SPREAD", **FOR_EVER}
        resources = {"num_cpus": launch.cores, "num_gpus": launch.gpus, "resources": dict(launch.resources)}
        memory = {"memory": launch.memory} if launch.memory else {}
        self._units[name] = ray.remote(UnitProcess).options(**options, **resources, **memory).remote(launch)

    def drain(self, name: str) -> None:
        """Ask a unit to end its work."""
        self._units[name].drain.remote()

    def remove(self, name: str) -> None:
        """End a unit at once, for good."""
        ray.kill(self._units[name], no_restart=True)
        self._forget(name)

    def _forget(self, name: str) -> None:
        for known in (self._units, self._asked, self._known):
            known.pop(name, None)

    def _answer(self, name: str) -> UnitState:
        now = time.monotonic()
        at, state = self._known.get(name, (now - SILENT_SECONDS, UNPLACED))
        done, _ = ray.wait([self._asked[name]], timeout=0)
        if not done:
            return state if now - at < SILENT_SECONDS else UNPLACED
        try:
            found: UnitState = ray.get(self._asked.pop(name))
        except ray.exceptions.RayError:  # it is being restarted, or has died
            found = UNPLACED
        self._known[name] = now, found
        return found


@contextlib.contextmanager
def connected(address: str, fleet: str) -> Iterator[None]:
    """Connect to the Ray cluster at `address`, HOST:PORT or auto; raises FleetUnavailable."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        _check_reachable(address)
        ray.init(address=address, namespace=fleet, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, OSError, ValueError, ray.exceptions.AuthenticationError) as error:
        raise FleetUnavailable(
            f"There is no Ray cluster at {address}: start one with “ray start --head”, or name its address "
            f"with --address ({str(error).strip().partition('. ')[0]})."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raise OSError or ValueError for an address that nothing answers at: Ray itself waits for minutes."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


def mistake_of(spec: Spec) -> str:
    """Return why the configuration cannot be used here, as its controller would say; empty where it can."""
    try:
        spec.parsed()
    except ConfigurationError as error:
        return str(error)
    return ""


def _check(spec: Spec) -> None:
    """Read the configuration on the cluster: a controller that cannot would leave the fleet without one."""
    reading = ray.remote(mistake_of).options(num_cpus=0).remote(spec)
    try:
        mistake = ray.get(reading, timeout=REPLACE_SECONDS)
    except (ray.exceptions.RayError, TimeoutError) as error:
        raise FleetUnavailable(f"The cluster cannot read the configuration: {error}") from error
    if mistake:
        raise ConfigurationError(f"A machine of the cluster cannot use the configuration: {mistake}")


def apply(spec: Spec, fleet: str) -> None:
    """Replace the controller by one with this spec; the units go on.

    Raises ConfigurationError, and FleetUnavailable.
    """
    _check(spec)
    deadline = time.monotonic() + REPLACE_SECONDS
    while True:
        with contextlib.suppress(ValueError, ray.exceptions.RayError):
            ray.kill(ray.get_actor(CONTROLLER, namespace=fleet), no_restart=True)
        if _started(spec, fleet, deadline):
            return


def change(fleet: str, changed: Callable[[Spec], Spec]) -> None:
    """Replace the controller by one with the spec that `changed` makes of its spec; the units go on.

    If another command has replaced it meanwhile, `changed` is called again. Raises FleetUnavailable.
    """
    deadline = time.monotonic() + REPLACE_SECONDS
    controller, spec = _answered(fleet, "spec")
    while True:
        wanted = changed(spec)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(controller, no_restart=True)  # this very one, which does `spec`
        if _started(wanted, fleet, deadline):
            return
        with contextlib.suppress(FleetUnavailable):  # it is dying
            controller, spec = _answered(fleet, "spec")


def asked(fleet: str, question: str) -> Any:
    """Return the controller's answer, `spec` or `report`; raises FleetUnavailable."""
    _, answer = _answered(fleet, question)
    return answer


def _started(spec: Spec, fleet: str, deadline: float) -> bool:
    """Start a controller; return False, after a pause, while its name is in use. Raises FleetUnavailable."""
    options = {"name": CONTROLLER, "namespace": fleet, "num_cpus": 0, **FOR_EVER}
    try:
        ray.remote(ControllerActor).options(**options).remote(spec, fleet)
    except ValueError as error:  # an earlier controller has the name until it dies, or another command's
        if time.monotonic() > deadline:
            raise FleetUnavailable(f"The fleet's controller cannot be replaced: {error}") from error
        time.sleep(0.2)
        return False
    return True


def _answered(fleet: str, question: str) -> tuple[ray.actor.ActorHandle, Any]:
    try:
        controller = ray.get_actor(CONTROLLER, namespace=fleet)
        return controller, ray.get(getattr(controller, question).remote(), timeout=REPLACE_SECONDS)
    except ValueError:
        raise FleetUnavailable(
            f"There is no fleet “{fleet}” on this Ray cluster: start it with “sdjax-bot fleet start”."
        ) from None
    except (ray.exceptions.RayError, TimeoutError) as error:
        raise FleetUnavailable(
            f"The controller does not answer, as while Ray restarts it: try again ({type(error).__name__})."
        ) from error


def end(fleet: str) -> None:
    """End the controller."""
    with contextlib.suppress(ValueError):
        ray.kill(ray.get_actor(CONTROLLER, namespace=fleet), no_restart=True)
