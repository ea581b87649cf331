"""A secret in a wrong place of the configuration is told to nobody: no command repeats it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli import run

from bot.config.mistakes import MAY_BE_SECRET
from bot.telemetry.log import flush

SECRET, TOKEN = "Hunter2%21pw", f"{'MTIz' * 6}.GabCde.{'x' * 38}"
PEM = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
ADDRESSES = (
    f"postgresql+asyncpg://bot:{SECRET}@127.0.0.1:1/x",
    f"postgresql+asyncpg://bot:{SECRET}@127.0.0.1:notaport/x",
    f"postgres://bot:{SECRET}@127.0.0.1/x",
    f"postgresql+asyncpg://bot:{SECRET}@[::1/x",
    f"postgresql+asyncpg://bot:pa/ss#{SECRET}@127.0.0.1:1/x",
    f"mysql://root:{SECRET}@h/x",
    f"postgresql+asyncpg://127.0.0.1:1/x?password={SECRET}",
    f"postgresql+asyncpg://127.0.0.1:1/x?user=a&passwd={SECRET}",
    f"postgresql+asyncpg://bot:p@ss:{SECRET}@127.0.0.1:1/x",
    f"postgresql+asyncpg://bot:{SECRET} @127.0.0.1:1/x",
    f"bot:{SECRET}@127.0.0.1:1/x",
    f"https:/bot:{SECRET}@127.0.0.1/api",
)
COMMANDS = ("check-config", "doctor --role front", "blocks")


def places() -> list[tuple[str, str, str]]:
    """Each key that holds a secret or names its file, with a secret written there in a wrong way."""
    wrong = {
        **dict.fromkeys(("queue.database", "discord.api_url", "discord.gateway_url"), (SECRET, *ADDRESSES)),
        "queue.artifacts": (
            f"ftp://u:{SECRET}@127.0.0.1:1/x",
            f"nowhere://u:{SECRET}@h/x",
            f"s3://u:{SECRET}@b/x",
        ),
        "discord.token_file": (SECRET, TOKEN, f"/{SECRET}", f"a/{SECRET}", f"{SECRET}\0"),
        "page.client_secret_file": (SECRET, TOKEN, f"/{SECRET}", "a" * 300 + SECRET),
        "web.token_file": (SECRET, TOKEN, f"/{SECRET}", "a" * 300 + SECRET),
        "provenance.private_key": (SECRET, PEM, f"a/{SECRET}"),
        "provenance.certificate": (PEM,),
        "models.0.checkpoint": (f"hf_{'a1' * 16}", f"https://bot:{SECRET}@hub/x"),
    }
    return [
        (key, value, command) for key, values in wrong.items() for value in values for command in COMMANDS
    ]


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a token and nothing that a command could reach."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    return tmp_path


def document(key: str, value: str) -> str:
    """The configuration with this value, as TOML; JSON's texts are texts of TOML."""
    sections: dict[str, dict[str, Any]] = {
        "discord": {
            "token_file": "token",
            "api_url": "http://127.0.0.1:1/api/v10",
            "gateway_url": "ws://127.0.0.1:1/",
        },
        "queue": {"database": "sqlite+aiosqlite:///queue.sqlite3", "artifacts": "pictures"},
        "provenance": {},
        "web": {},
        "page": {},
    }
    section, *_, name = key.split(".")
    if section == "provenance":
        sections[section] = {"certificate": "token", "private_key": "token"}
    model = {"name": "m", "checkpoint": "demo", "sizes": ["64x64"]}
    (model if section == "models" else sections[section])[name] = value
    lines = [
        f"[{of}]\n" + "".join(f"{each} = {json.dumps(said)}\n" for each, said in values.items())
        for of, values in sections.items()
    ]
    return (
        "\n".join(lines)
        + "[[models]]\n"
        + "".join(f"{each} = {json.dumps(said)}\n" for each, said in model.items())
    )


def told_secrets(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that a command has printed or logged with a secret in them."""
    flush()
    lines = "".join(capsys.readouterr()).splitlines()
    return [line for line in lines if any(part in line for part in ("Hunter2", TOKEN[:20], "a1a1a1"))]


@pytest.mark.parametrize("place", places(), ids=str)
def test_no_command_repeats_a_secret_that_is_in_a_wrong_place(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    secrets: Path,
    place: tuple[str, str, str],
) -> None:
    key, value, command = place
    (secrets / "bot.toml").write_text(document(key, value))
    run(monkeypatch, *command.split(), "--config", "bot.toml")
    assert told_secrets(capsys) == []


def test_every_key_that_may_hold_a_secret_is_tried() -> None:
    assert {key.rpartition(".")[2] for key, *_ in places()} >= set(MAY_BE_SECRET)
