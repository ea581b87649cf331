"""The compose file: complete, without privileges, and in keeping with its configuration."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.config import Config

FOLDER = Path(__file__).parents[2] / "deploy"
TEXT = (FOLDER / "compose.yaml").read_text()
SERVICES: dict[str, Any] = yaml.safe_load(TEXT)["services"]
MARGIN = 45


def has_compose() -> bool:
    docker = shutil.which("docker")
    return (
        docker is not None
        and not subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode
    )


def seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


@pytest.mark.parametrize("role", ["front", "worker"])
def test_a_process_of_the_bot_has_no_rights_and_a_read_only_root(role: str) -> None:
    service = SERVICES[role]
    assert service["command"][0] == role
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["depends_on"]["database"] == {"condition": "service_healthy"}


@pytest.mark.parametrize("role", ["front", "worker"])
def test_a_reload_sees_a_configuration_that_an_editor_has_replaced(role: str) -> None:
    """A container keeps the old content of a single file that is mounted, and replaced by renaming."""
    config = Path(SERVICES[role]["command"][-1])
    sources = dict(reversed(volume.split(":")[:2]) for volume in SERVICES[role]["volumes"])
    assert (FOLDER / sources[str(config.parent)] / config.name).is_file()


def test_a_worker_is_not_killed_before_its_drain_ends() -> None:
    config = Config.load(FOLDER / "compose" / "bot.toml")
    assert seconds(SERVICES["worker"]["stop_grace_period"]) >= config.queue.drain_seconds + MARGIN


@pytest.mark.parametrize("service", SERVICES)
def test_a_restart_of_the_machine_starts_every_service(service: str) -> None:
    assert SERVICES[service]["restart"] == "unless-stopped"


def test_only_fronts_know_the_token_of_the_bot() -> None:
    assert [
        name for name, service in SERVICES.items() if "DISCORD_TOKEN" in service.get("environment", {})
    ] == ["front"]


def test_every_secret_that_must_be_set_is_in_the_example() -> None:
    example = (FOLDER / "env.example").read_text()
    secrets = set(re.findall(r"\$\{(\w+):\?", TEXT))
    assert secrets == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def test_a_service_with_a_read_only_root_gets_its_secrets_from_files() -> None:
    secrets = yaml.safe_load(TEXT)["secrets"]
    named = {name for service in SERVICES.values() if service.get("read_only") for name in service["secrets"]}
    assert named
    assert all("file" in secrets[name] for name in named)
    assert "secrets/" in (FOLDER / ".gitignore").read_text()


def test_only_this_machine_reaches_what_is_published() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_no_image_comes_from_a_named_registry_or_without_a_version() -> None:
    images = re.findall(r"image: \$\{\w+:-([^}]+)\}", TEXT)
    assert len(images) == 4
    assert all(":" in image and not image.endswith(":latest") for image in images)
    assert not any("." in image.split("/")[0] for image in images if "/" in image)


@pytest.mark.skipif(not has_compose(), reason="docker compose is not installed")
def test_docker_compose_reads_it() -> None:
    values = dict.fromkeys(("DATABASE_PASSWORD", "DISCORD_TOKEN", "GRAFANA_PASSWORD"), "x")
    command = ["docker", "compose", "--file", str(FOLDER / "compose.yaml"), "config", "--quiet"]
    subprocess.run(command, check=True, env={"PATH": "/usr/local/bin:/usr/bin:/bin", **values})
