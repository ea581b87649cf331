"""The command line about a fleet without a Ray cluster, a part of a configuration, secrets in variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import run

CONFIG = '[[models]]\nname = "demo"\n[fleet]\ngroups = [{ name = "cpu" }]\n'
SHARED = """
[engine]
cache_dir = "/srv/cache"
[queue]
database = "postgresql+asyncpg://bot@db/queue"
artifacts = "/srv/pictures"
"""


def asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, *arguments: str
) -> tuple[int, str]:
    status = run(monkeypatch, *arguments, "--config", str(file))
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "lines"), [(("fleet", "start"), 3), (("check-config", "--role", "fleet"), 4)]
)
def test_what_the_machines_of_a_fleet_cannot_share_is_listed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: tuple[str, ...],
    lines: int,
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'{CONFIG}[web]\ntoken_file = "/no/token"\n' if "fleet" in command[1:] else CONFIG)
    status, said = asked(monkeypatch, capsys, file, *command)
    assert status == 2
    assert said.count("\n") == lines
    for key in ("queue.database", "queue.artifacts", "engine.cache_dir"):
        assert key in said
    file.write_text(CONFIG)
    assert asked(monkeypatch, capsys, file, "check-config") == (0, "")  # `run` uses no groups


@pytest.mark.parametrize(("role", "read"), [("worker", "/no/weights"), ("front", "/no/keywords")])
def test_the_files_of_a_role_are_read_where_the_fleet_has_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    role: str,
    read: str,
) -> None:
    file = tmp_path / "config.toml"
    group = f'[[fleet.groups]]\nname = "a"\nrole = "{role}"\nleast = 1\n'
    front = '[provenance]\nsign = false\n[prompts]\nkeywords_file = "/no/keywords"\n'
    worker = '[[models]]\ncheckpoint = "/no/weights"\n'
    file.write_text(f"{group}{SHARED}{front}{worker}")
    status, said = asked(monkeypatch, capsys, file, "check-config", "--role", "fleet")
    assert status == 2
    assert {path for path in ("/no/weights", "/no/keywords") if path in said} == {read}


def test_weights_are_looked_for_of_the_models_that_the_groups_of_a_fleet_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    models = "".join(f'[[models]]\nname = "{name}"\ncheckpoint = "/no/{name}"\n' for name in "abc")
    groups = "".join(f'[[fleet.groups]]\nname = "{name}"\nleast = 1\nmodels = ["{name}"]\n' for name in "ac")
    file.write_text(f"{groups}{SHARED}{models}")
    status, said = asked(monkeypatch, capsys, file, "check-config", "--role", "fleet")
    assert status == 2
    assert {name for name in "abc" if f"/no/{name}" in said} == {"a", "c"}


@pytest.mark.parametrize("command", [("start",), ("status",), ("stop",), ("drain", "cpu")])
def test_without_a_cluster_each_command_says_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: tuple[str, ...],
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(CONFIG + SHARED)
    status, said = asked(monkeypatch, capsys, file, "fleet", *command, "--address", "127.0.0.1:9")
    assert status == 1
    assert "There is no Ray cluster at 127.0.0.1:9: start one with “ray start --head”" in said


def test_a_queue_without_roles_grants_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[queue]\ndatabase = "sqlite+aiosqlite:///{tmp_path}/no-queue"\n')
    status, said = asked(monkeypatch, capsys, file, "fleet", "grant", "scaler")
    assert (status, "Only PostgreSQL has roles" in said) == (2, True)


def test_a_worker_of_unknown_models_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(CONFIG)
    status, said = asked(monkeypatch, capsys, file, "worker", "--only", "sdxl", "--only", "demo")
    assert status == 2
    assert said == "sdjax-bot: There is no model “sdxl”; there are demo.\n"


@pytest.mark.parametrize("command", ["check-config", "run"])
def test_a_secret_in_the_variable_of_a_file_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    (tmp_path / "certificate.pem").write_text("")
    monkeypatch.setenv("SDJAX__PROVENANCE__CERTIFICATE", str(tmp_path / "certificate.pem"))
    monkeypatch.setenv("SDJAX__PROVENANCE__PRIVATE_KEY", "-----BEGIN PRIVATE KEY-----\nhunter2/\n-----END")
    monkeypatch.setenv("SDJAX__WEB__TOKEN_FILE", "hunter2")
    monkeypatch.setenv("SDJAX__MODELS__0__LORAS", '{ ink = "hunter2" }')
    assert run(monkeypatch, command) == 2
    assert capsys.readouterr().err.splitlines()[-3:] == [
        "sdjax-bot: SDJAX__WEB__TOKEN_FILE: there is no such file. If this is the token itself, write it "
        "into a file of its own, and the name of that file here.",
        "SDJAX__PROVENANCE__PRIVATE_KEY: there is no such file. If this is the PEM text itself, write it "
        "into a file of its own, and the name of that file here.",
        "SDJAX__MODELS__0__LORAS: the LoRA “…” has no file “…”: correct its path.",
    ]
