"""The Ray cluster and the SkyPilot tasks: parsed, and in keeping with the other manifests.

Ray, SkyPilot and their schemas are not installed here; `deploy/README.md` says how the files were checked.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCHEMAS = "1.37"
DEPLOY = ROOT / "deploy"
CLUSTER_OBJECT, POLICY = yaml.safe_load_all((DEPLOY / "ray" / "cluster.yaml").read_text())
CLUSTER: dict[str, Any] = CLUSTER_OBJECT["spec"]
TASKS = sorted((DEPLOY / "skypilot").glob("*.yaml"))


def test_no_actor_runs_on_the_head_of_the_ray_cluster() -> None:
    assert CLUSTER["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert CLUSTER["enableInTreeAutoscaling"] is True


def test_only_the_nodes_of_the_ray_cluster_reach_its_ports() -> None:
    kubernetes_validate.validate(POLICY, SCHEMAS, strict=True)
    nodes = {"matchLabels": {"ray.io/cluster": CLUSTER_OBJECT["metadata"]["name"]}}
    assert POLICY["spec"] == {
        "podSelector": nodes,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": nodes}]}],
    }


@pytest.mark.parametrize("group", CLUSTER["workerGroupSpecs"], ids=lambda group: group["groupName"])
def test_a_group_of_the_ray_cluster_starts_from_none_and_has_its_devices(group: dict[str, Any]) -> None:
    (container,) = group["template"]["spec"]["containers"]
    assert group["minReplicas"] == 0
    assert container["resources"]["limits"][
        "nvidia.com/gpu" if group["groupName"] == "nvidia" else "google.com/tpu"
    ]
    claims = yaml.safe_load_all((DEPLOY / "kubernetes" / "storage.yaml").read_text())
    names = {claim["metadata"]["name"] for claim in claims}
    volumes = group["template"]["spec"]["volumes"]
    assert {
        each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each
    } <= names


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_commands_of_a_task_are_shell_and_its_locks_exist(task: Path) -> None:
    spec = yaml.safe_load(task.read_text())
    for part in ("setup", "run"):
        subprocess.run(["bash", "-n"], input=spec[part], text=True, check=True)
    locks = [word.rstrip(";") for word in spec["setup"].split() if word.rstrip(";").endswith(".lock")]
    assert locks
    assert all((ROOT / lock).exists() for lock in locks)
    assert "accelerators" in spec["resources"]
