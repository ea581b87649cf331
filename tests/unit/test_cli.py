"""The command line's answers to mistakes, and the commands that need no engine."""

from __future__ import annotations

import asyncio
import io
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from recipes import RECIPE, origin

from bot.cli.main import main
from bot.store import Store
from bot.store.database import upgrade
from bot.store.moderation.standing import Requester
from bot.store.rows.restrictions import Restriction
from bot.telemetry.log import flush


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"


@pytest.fixture
def config(tmp_path: Path, database: str) -> Path:
    """A configuration whose queue is `database`."""
    file = tmp_path / "config.toml"
    file.write_text(f'[queue]\ndatabase = "{database}"\nartifacts = "{tmp_path}/results"\n')
    return file


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line; return its exit status."""
    monkeypatch.setattr("sys.argv", ["sdjax-bot", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["imagine"], "PROMPT"),
        (["imagine", "   "], "The prompt is empty"),
        (["imagine", "a", "--seed", "-1"], "--seed"),
        (["imagine", "a", "--seed", str(2**32)], "--seed"),
        (["imagine", "a", "--variants", "10"], "--variants"),
        (["imagine", "a", "--steps", "0"], "--steps"),
        (["imagine", "a", "--guidance", "31"], "--guidance"),
        (["imagine", "a", "--sampler", "magic"], "--sampler"),
        (["imagine", "a", "--variant", "4"], "for several pictures, --variants 4"),
        (["imagine", "a", "--image", "no picture.png"], "there is no file no picture.png"),
        (
            ["imagine", "a", "--image", __file__],
            "is not a picture that can be used: name a PNG, JPEG or WebP",
        ),
        (["imagine", "a", "--mask", __file__], "is not a picture that can be used: name a PNG, JPEG or WebP"),
        (["imagine", "a", "--reference", "no picture.png"], "there is no file no picture.png"),
        (["imagine", "a", "--controlnet", "net"], "--controlnet needs --control"),
        (["imagine", "a", "--control-type", "magic"], "--control-type"),
        (["imagine", "a", "--image-encoder", "x"], "--image-encoder needs --ip-adapter"),
        (["imagine", "a", "--image-prompt-strength", "2"], "--image-prompt-strength"),
        (["imagine", "a", "--control-strength", "3"], "--control-strength"),
        (["imagine", "a", "--size", "128"], "is not a size"),
        (["imagine", "a", "--size", "100x100"], "multiple of 8"),
        (["imagine", "a", "--guidance", "nan"], "between 0 and 30."),
        (["imagine", "a", "-o", "picture.jpg"], ".png"),
        (["imagine", "a", "-o", "no such folder/picture.png"], "no folder no such folder"),
        (["imagine", "a", "--colour", "red"], "--colour"),
        (["demo", "--port", "70000"], "--port"),
        (["run"], "--config"),
        (["front"], "--config"),
        (["worker"], "--config"),
        (["run", "--config", "no such file"], "no such file cannot be read"),
        (["check-config", "--config", "no such file"], "no such file cannot be read"),
        (["setup", "--no-input"], "There is no token: name its file with --token-file, or set DISCORD_TOKEN"),
        (["setup", "--token-file", "x"], "This is no terminal, so nobody can be asked: say --no-input"),
        (["setup", "--no-input", "--token-file", "x", "--config", "no/bot.toml"], "There is no folder no"),
        (["setup", "--no-input", "--token-file", "no such"], "discord.token_file: there is no such file"),
        (
            ["setup", "--no-input", "--token-file", "x", "--config", __file__],
            "exists: name another file with",
        ),
        (["dance"], "dance"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(monkeypatch, *arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err
    assert told.err.startswith("sdjax-bot: ")
    assert told.err.count("\n") == 1


def test_a_valid_configuration_is_reported_as_valid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[[models]]\nname = "first"\n[[models]]\nname = "second"\n')
    assert run(monkeypatch, "check-config", "--config", str(file)) == 0
    assert capsys.readouterr().out == f"{file} is in order; it offers first, second.\n"


def test_the_environment_is_a_configuration_without_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDJAX__MODELS__0__NAME", "first")
    monkeypatch.setenv("SDJAX__QUEUE__DATABASE", "sqlite+aiosqlite:////a/secret/place.sqlite3")
    assert run(monkeypatch, "check-config") == 0
    assert capsys.readouterr().out == (
        "From the environment: SDJAX__MODELS__0__NAME, SDJAX__QUEUE__DATABASE.\n"
        "The environment is in order; it offers first.\n"
    )


@pytest.mark.parametrize("command", ["check-config", "doctor", "run"])
def test_every_mistake_of_a_configuration_is_one_of_the_last_lines(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[discord]\ntoken_fil = "x"\n[engine]\nseats_per_device = -1\n')
    assert run(monkeypatch, command, "--config", str(file)) == 2
    *_, first, second = capsys.readouterr().err.splitlines()
    assert "token_file" in first
    assert "seats_per_device" in second


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[discord]\ntoken_file = "not there"\n',
            "discord.token_file: there is no such file. If this is the token itself",
        ),
        (f'[prompts]\nkeywords_file = "{sys.executable}"\n', "” is no CSV file"),
        (
            '[web]\ntoken_file = "not there"\n[discord]\ntoken_file = "nowhere"\n',
            "and the name of that file here.\ndiscord.token_file: there is no such file.",
        ),
        (
            '[[models]]\ncheckpoint = "/not/there"\n',
            "models[1].checkpoint: there is no file or folder “/not/there”: correct its path.",
        ),
        (
            '[queue]\ndatabase = "sqlite+aiosqlite://var/queue"\n',
            "has two slashes before its file: write three",
        ),
        (
            '[queue]\ndatabase = "sqlite+aiosqlite://bot@/queue"\n',
            "has two slashes before its file: write three",
        ),
    ],
)
def test_files_in_a_configuration_must_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    assert run(monkeypatch, "check-config", "--config", str(file)) == 2
    assert said in capsys.readouterr().err


EVERYWHERE = """
[queue]
database = "sqlite+aiosqlite://var/queue"
[web]
token_file = "of_pages.txt"
[discord]
token_file = "of_bot.txt"
[prompts]
keywords_file = "words.csv"
[[models]]
checkpoint = "./nothing"
vae = "/a/vae.safetensors"
preview_decoder = "/a/decoder"
picture_classifier = "/a/classifier"
loras = { ink = "ink.safetensors" }
"""
OF_BOTH = {"two slashes", "web.token_file"}
OF_FRONTS = {"discord.token_file", "words.csv"}
OF_WORKERS = {"./nothing", "/a/vae.safetensors", "/a/decoder", "/a/classifier", "ink.safetensors"}


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("check-config", OF_BOTH | OF_FRONTS | OF_WORKERS),
        ("check-config --role front", OF_BOTH | OF_FRONTS),
        ("check-config --role worker", OF_BOTH | OF_WORKERS),
        ("run", OF_BOTH | OF_FRONTS | OF_WORKERS),
        ("front", OF_BOTH | OF_FRONTS),
        ("worker", OF_BOTH | OF_WORKERS),
    ],
)
def test_every_mistake_in_what_a_configuration_names_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    named: set[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text(EVERYWHERE)
    assert run(monkeypatch, *command.split(), "--config", "config.toml") == 2
    said = capsys.readouterr().err
    assert {each for each in OF_BOTH | OF_FRONTS | OF_WORKERS if each in said} == named


@pytest.mark.parametrize(("command", "status"), [("check-config", 2), ("run", 1), ("worker", 1)])
def test_a_supervisor_starts_again_where_weights_alone_are_missing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    status: int,
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f'[queue]\ndatabase = "sqlite+aiosqlite:///{tmp_path}/q"\n[[models]]\ncheckpoint = "/mnt/sdxl"\n'
    )
    assert run(monkeypatch, command, "--config", str(file)) == status  # 2: a restart cannot help
    assert "there is no file or folder “/mnt/sdxl”: correct its path." in capsys.readouterr().err


def test_a_database_without_its_driver_is_refused_before_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)  # as if it were not installed
    file = tmp_path / "config.toml"
    file.write_text('[queue]\ndatabase = "postgresql+asyncpg://bot:secret@localhost/queue"\n')
    assert run(monkeypatch, "check-config", "--config", str(file)) == 2
    assert capsys.readouterr().err == (
        "sdjax-bot: queue.database: PostgreSQL needs its driver: pip install 'sdjax-bot[postgres]'.\n"
    )


def test_the_bot_does_not_start_without_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("DISCORD_TOKEN", raising=False)
    file = tmp_path / "config.toml"
    file.write_text("")
    for role in ("run", "front"):
        assert run(monkeypatch, role, "--config", str(file)) == 2
        assert "DISCORD_TOKEN" in capsys.readouterr().err


def test_the_version_is_shown_or_why_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bot.cli.main.version", lambda _name: "1.2.3")
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == "sdjax-bot 1.2.3\n"

    def not_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("bot.cli.main.version", not_installed)
    assert run(monkeypatch, "--version") == 1
    assert "not installed" in capsys.readouterr().err


@pytest.mark.parametrize("whose", ["--user 11", "--server 21", "--job {job}"])
def test_forget_deletes_a_person_or_a_server(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database: str,
    config: Path,
    *,
    whose: str,
) -> None:
    [first, _] = asyncio.run(_ask(database, [1, 2]))
    arguments = ["forget", "--config", str(config), *whose.format(job=first).split()]
    assert run(monkeypatch, *arguments) == 0
    flush()
    told = capsys.readouterr()
    assert told.out == "2 requests are forgotten, with their pictures.\n"
    logged = "server 21" if "server" in whose else f"the person of job {first}"
    assert f"everything of {logged} is deleted" in told.err
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == "0 requests are forgotten, with their pictures.\n"


class Terminal(io.StringIO):
    """A terminal's input: the text that a person types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "options", "left"), [("n\n", [], 2), ("y\n", [], 0), ("", ["--yes"], 0)])
def test_on_a_terminal_forget_asks_first(
    monkeypatch: pytest.MonkeyPatch, database: str, config: Path, *, typed: str, options: list[str], left: int
) -> None:
    asyncio.run(_ask(database, [1, 2]))
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    run(monkeypatch, "forget", "--config", str(config), "--user", "11", *options)
    assert asyncio.run(_kept(database)) == left


def test_the_operator_blocks_and_unblocks_a_person_or_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], database: str, config: Path
) -> None:
    person, server = ["--config", str(config), "--user", "11"], ["--config", str(config), "--server", "21"]
    asyncio.run(_standing(database))
    assert run(monkeypatch, "block", *person, "--hours", "2", "--reason", "spam") == 0
    assert run(monkeypatch, "block", *server) == 0
    assert capsys.readouterr().out == "Person 11 is blocked for 2 h.\nServer 21 is blocked.\n"
    blocks = asyncio.run(_standing(database))
    assert [(each.scope.guild_id, each.scope.user_id) for each in blocks] == [(0, 11), (21, 0)]
    person_block, server_block = blocks
    assert person_block.until == pytest.approx(person_block.at + 2 * 3600, abs=1)
    assert (person_block.reason, person_block.by, server_block.until) == ("spam", 0, None)
    assert run(monkeypatch, "blocks", "--config", str(config)) == 0
    ends = f"{datetime.fromtimestamp(person_block.until, UTC):%Y-%m-%d %H:%M} UTC"
    assert capsys.readouterr().out == f"Person 11  until {ends}  spam\nServer 21  for good\n"
    assert run(monkeypatch, "block", *person) == 0
    assert capsys.readouterr().out == f"Person 11 is blocked. This replaces a block until {ends}.\n"
    for whose in (person, server, person):
        assert run(monkeypatch, "unblock", *whose) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Person 11 is no longer blocked.",
        "Server 21 is no longer blocked.",
        "Person 11 is not blocked.",
    ]
    assert asyncio.run(_standing(database)) == []


OF_OPERATORS = [
    *("forget --user 1", "block --user 1", "unblock --server 1", "blocks"),
    *("usage", "known show"),
]


@pytest.mark.parametrize("command", OF_OPERATORS)
def test_a_command_of_the_operator_finds_the_queue_or_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text("")
    assert run(monkeypatch, *command.split(), "--config", "config.toml") == 2
    place = tmp_path / "var" / "sdjax.sqlite3"
    assert f"There is no queue in {place}: run this in the folder" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.usefixtures("sqlite_url")
@pytest.mark.parametrize("command", OF_OPERATORS)
def test_a_command_of_the_operator_leaves_the_tables_of_an_older_version_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    next_version: Path,
    command: str,
) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    (config := tmp_path / "config.toml").write_text(f'[queue]\ndatabase = "{database}"\n')
    monkeypatch.setattr(upgrade, "FOLDER", next_version)
    assert run(monkeypatch, *command.split(), "--config", str(config)) == 1
    assert "are of an older version of the bot (v001): run this with" in capsys.readouterr().err
    with closing(sqlite3.connect(tmp_path / "queue.sqlite3", isolation_level=None)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("v001",)]


@pytest.mark.parametrize("command", ["forget", "block", "unblock"])
def test_a_command_about_a_person_requires_the_person_or_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for whose in ([], ["--user", "11", "--server", "21"]):
        assert run(monkeypatch, command, "--config", "config.toml", *whose) == 2
        assert "--server ID" in capsys.readouterr().err


async def _standing(database: str) -> list[Restriction]:
    store = await Store.open(database)
    found = await store.standings.of(Requester(user_id=11, guild_id=21, channel_ids=(31,)))
    await store.close()
    return list(found.restrictions)


async def _kept(database: str) -> int:
    store = await Store.open(database)
    count = await store.jobs.count_active(user_id=11, guild_id=None)
    await store.close()
    return count


async def _ask(database: str, numbers: list[int]) -> list[str]:
    store = await Store.open(database)
    found = [(await store.jobs.enqueue(RECIPE, origin(number))).id for number in numbers]
    await store.close()
    return found
