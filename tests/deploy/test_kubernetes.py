"""The Kubernetes manifests: valid against the published schemas, and in keeping with the bot's own rules.

The schemas of KEDA and Ray are not published with Kubernetes: `deploy/README.md` says how they were checked.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import kubernetes_validate
import pytest
import yaml
from evening import free_port

from bot.config import Config
from bot.telemetry.metrics import Metrics
from bot.web.server import serving

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
SCHEMAS = "1.37"
FOREIGN = ("keda.sh/", "ray.io/", "kustomize.config.k8s.io/")
PROBES = ("startup", "liveness", "readiness")
CLASSES = ("cpu", "nvidia", "tpu")
MARGIN = 45  # seconds that a worker needs beyond drain_seconds, as config.example.toml says

Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    """Every object of every file."""
    files = sorted(FOLDER.glob("*.yaml"))
    return [manifest for file in files for manifest in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> dict[str, Manifest]:
    """The objects of a kind by their names."""
    return {each["metadata"]["name"]: each for each in manifests() if each["kind"] == kind}


def pod(deployment: Manifest) -> Manifest:
    """The pod of a deployment."""
    found: Manifest = deployment["spec"]["template"]["spec"]
    return found


def described(manifest: Manifest) -> str:
    return f"{manifest['kind']}-{manifest.get('metadata', {}).get('name', '')}"


@pytest.mark.parametrize(
    "manifest", [each for each in manifests() if not each["apiVersion"].startswith(FOREIGN)], ids=described
)
def test_a_manifest_fits_the_published_schema(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, SCHEMAS, strict=True)


@pytest.mark.parametrize("name", sorted(of_kind("Deployment")))
def test_a_disruption_takes_one_pod_of_a_deployment_at_a_time(name: str) -> None:
    budget = of_kind("PodDisruptionBudget")[name]["spec"]
    labels = of_kind("Deployment")[name]["spec"]["template"]["metadata"]["labels"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", sorted(of_kind("Deployment")))
def test_a_pod_has_no_rights_and_a_read_only_root(name: str) -> None:
    spec = pod(of_kind("Deployment")[name])
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}


async def test_every_probe_asks_a_page_that_needs_no_token() -> None:
    containers = [pod(each)["containers"][0] for each in of_kind("Deployment").values()]
    probes = [each[f"{probe}Probe"]["httpGet"]["path"] for each in containers for probe in PROBES]
    port = free_port()
    async with (
        serving("", port, Metrics(), refresh=_nothing, checks={}, token="secret"),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as kubelet,
    ):
        for path in set(probes):
            async with kubelet.get(path) as answer:
                assert answer.status == 200, path
        async with kubelet.get("/metrics") as answer:
            assert answer.status == 401
    assert probes == ["/livez", "/livez", "/readyz"] * len(containers)


async def _nothing() -> None:
    """A refresh without work."""


@pytest.mark.parametrize("kind", CLASSES)
def test_a_worker_is_not_killed_before_its_drain_ends(kind: str) -> None:
    config = Config.load(FOLDER / "bot.toml")
    grace = pod(of_kind("Deployment")[f"sdjax-worker-{kind}"])["terminationGracePeriodSeconds"]
    assert grace >= config.queue.drain_seconds + MARGIN


@pytest.mark.parametrize("kind", CLASSES)
def test_what_waits_decides_the_number_of_workers(kind: str) -> None:
    name = f"sdjax-worker-{kind}"
    scaler = of_kind("ScaledObject")[name]["spec"]
    (trigger,) = scaler["triggers"]
    assert scaler["scaleTargetRef"] == {"name": name}
    assert "replicas" not in of_kind("Deployment")[name]["spec"], "an apply would undo the scaler's number"
    assert trigger["authenticationRef"]["name"] in of_kind("TriggerAuthentication")
    assert f"'{kind}'" in trigger["metadata"]["query"]


def test_only_prometheus_reaches_the_pods_and_only_their_pages() -> None:
    policy = of_kind("NetworkPolicy")["sdjax"]["spec"]
    (allowed,) = policy["ingress"]
    for deployment in of_kind("Deployment").values():
        template = deployment["spec"]["template"]
        assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert [each["name"] for each in pod(deployment)["containers"][0]["ports"]] == ["web"]
    assert policy["policyTypes"] == ["Ingress"]
    assert [list(each) for each in allowed["from"]] == [["namespaceSelector"]]
    assert allowed["ports"] == [{"protocol": "TCP", "port": "web"}]


def test_every_claim_and_secret_that_a_pod_names_is_there() -> None:
    claims = set(of_kind("PersistentVolumeClaim"))
    for deployment in of_kind("Deployment").values():
        volumes = pod(deployment)["volumes"]
        named = {
            each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each
        }
        assert named <= claims
        (container,) = pod(deployment)["containers"]
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in volumes}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kustomize_puts_the_manifests_together() -> None:
    done = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True)
    made = list(yaml.safe_load_all(done.stdout))
    assert len(made) == len(manifests()) - 1 + 1, "all but the kustomization itself, and the configuration"
    assert {each["metadata"].get("namespace") for each in made if each["kind"] != "Namespace"} == {"sdjax"}
