"""A Ray cluster of three nodes on this machine, and a fleet of paced workers on them."""

from __future__ import annotations

import contextlib
import os
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from evening import free_port
from ray.cluster_utils import Cluster

from bot.app import fleet
from bot.config import Config
from bot.fleet import ray_cluster
from bot.fleet.controller import Spec

ROOT = Path(__file__).parents[1]
PAINTER = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import fleet_painter
fleet_painter.main()
"""
# A node counts as dead after two seconds. A process that is started in advance would cost a second.
SYSTEM: dict[str, Any] = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 4,
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
}
NODE: dict[str, Any] = {
    "num_cpus": 4,
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,
}


class Nodes:
    """The three nodes: a head, which runs no worker, and two others. The head keeps its tables on disk."""

    def __init__(self, folder: Path) -> None:
        self._head = {
            **NODE,
            "num_cpus": 0,
            "gcs_server_port": free_port(),
            "_system_config": {
                **SYSTEM,
                "gcs_storage": "rocksdb",
                "gcs_storage_path": str(folder),
            },
        }
        self.cluster = Cluster(initialize_head=True, head_node_args=self._head)
        self.others = [self.cluster.add_node(**NODE) for _ in range(2)]
        self.address = self.cluster.address

    def kill(self, node: Any) -> None:
        """Kill every process of a node at once, as a machine that loses its power."""
        # `remove_node` alone leaves actors alive for a while.
        for facts in list(node.all_processes.values()):
            for each in facts:
                with contextlib.suppress(psutil.NoSuchProcess):
                    started = psutil.Process(each.process.pid)
                    for process in (started, *started.children(recursive=True)):
                        with contextlib.suppress(psutil.NoSuchProcess):
                            process.kill()
        self.cluster.remove_node(node, allow_graceful=False)

    def kill_one(self) -> None:
        """Kill a node that is not the head."""
        self.kill(self.others.pop())

    def add(self) -> None:
        """Add a node that is not the head."""
        self.others.append(self.cluster.add_node(**NODE))

    def kill_head(self) -> None:
        """Kill the head."""
        self.kill(self.cluster.head_node)

    def start_head(self) -> None:
        """Start the head again at its address."""
        self.cluster.add_node(**self._head)


@contextlib.contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    """Run the three nodes; the head keeps its tables in `folder`."""
    before = dict(os.environ)
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
    }
    there = Nodes(folder)
    try:
        yield there
    finally:
        there.cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)


class Fleet:
    """A fleet of paced workers on the nodes, by the functions of the command line."""

    def __init__(self, nodes: Nodes, folder: Path, database: str, command: list[str]) -> None:
        self.nodes = nodes
        self._command = command
        self.folder = folder
        self._database = database
        self.config = Config()

    def start(self, **group: Any) -> None:
        """Start the fleet, or change its group."""
        values = {
            "name": "painters",
            "cores": 1.0,
            "most": 3,
            "idle_minutes": 0.03,
            "target_seconds": 1.0,
            "command": self._command,
            **group,
        }
        lines = "\n".join(f"{key} = {_toml(value)}" for key, value in values.items())
        text = f"""
            [engine]
            cache_dir = "{self.folder}/cache"
            [queue]
            database = "{self._database}"
            artifacts = "{self.folder}/pictures"
            lease_seconds = 5.0
            max_waiting_per_user = 1000
            [fleet]
            name = "{self.folder.name}"
            check_seconds = 0.3
            [[fleet.groups]]
            {lines}
            """
        (self.folder / "cache").mkdir(exist_ok=True)
        self.config = Config.parse(tomllib.loads(text))
        fleet.start(self.config, self.nodes.address, lambda _warning: None)

    def status(self) -> list[str]:
        """The lines of the status."""
        return list(fleet.status(self.config, self.nodes.address))

    def drain(self, group: str, *, beside: str) -> frozenset[str]:
        """Drain a group by the command, while another command drains `beside`; return what is drained."""
        change, begun = ray_cluster.change, threading.Event()

        def also(spec: Spec) -> Spec:
            return replace(spec, drained=spec.drained | {beside})

        def change_beside(name: str, changed: Callable[[Spec], Spec]) -> None:
            def later(spec: Spec) -> Spec:
                if not begun.is_set():
                    begun.set()
                    change(name, also)
                return changed(spec)

            change(name, later)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ray_cluster, "change", change_beside)
            fleet.drain(self.config, group, self.nodes.address)
        with ray_cluster.connected(self.nodes.address, self.config.fleet.name):
            spec: Spec = ray_cluster.asked(self.config.fleet.name, "spec")
            return spec.drained

    def stop(self) -> list[str]:
        """Stop the fleet; return what was told."""
        told: list[str] = []
        fleet.stop(self.config, self.nodes.address, told.append)
        return told

    def begun(self) -> list[tuple[int, int]]:
        """The seed and the process of each image that was begun, in order."""
        file = self.folder / "cache" / "begun"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(seed), int(process)) for seed, process in map(str.split, lines)]


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
