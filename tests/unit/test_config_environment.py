"""The configuration from variables of the environment: alone, over a file, and every mistake at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.app.named_files import check_start
from bot.config import Config
from bot.config.environment import overlaid
from bot.domain.errors import ConfigurationError
from bot.fleet.groups import mistakes as mistakes_between_machines
from sdjax_engine.errors import UnreadableCheckpoint

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=64)
NAME = st.from_regex(r"[a-z][a-z0-9_.+-]{0,8}", fullmatch=True)


def table(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these keys."""
    return st.fixed_dictionaries({}, optional=keys)


MODEL = table(
    checkpoint=NAME.filter(lambda name: name != "demo"),
    variant=TEXT,
    sizes=st.lists(st.sampled_from(["64x64", "128x64", "512x512"]), min_size=1, unique=True),
    max_steps=st.integers(20, 150),
    guidance_scale=st.integers(0, 30) | st.floats(0, 30),
    guidance_interval=st.just([0.1, 0.6]),
    sampler=st.sampled_from(["ddim", "euler"]),
    safety_checker=st.booleans(),
    flagged=st.just("show") | st.just(["hold", "spoiler", "withhold"]),
    loras=st.dictionaries(NAME, st.just("file.safetensors"), max_size=2),
).filter(lambda model: "checkpoint" in model or "variant" not in model)
DOCUMENT = table(
    discord=table(languages=st.dictionaries(st.integers(1, 99).map(str), st.sampled_from(["ar", "ko"]))),
    models=st.lists(st.tuples(NAME, MODEL), min_size=1, max_size=3, unique_by=lambda each: each[0]).map(
        lambda named: [{"name": name, **model} for name, model in named]
    ),
    engine=table(
        accelerator=TEXT,
        cpu_devices=st.integers(0, 8),
        cache_wait=st.booleans(),
        fitted_programs=st.booleans() | st.just("auto"),
    ),
    queue=table(
        lease_seconds=st.floats(5, 100),
        roles=st.lists(st.integers(1, 9), unique=True, max_size=2).map(
            lambda roles: [{"role": role, "weight": 2.0} for role in roles]
        ),
    ),
    policy=table(models=st.just(["*"]) | st.just([]), bounds=table(pixels=st.integers(0, 10**6))),
    log=table(level=st.sampled_from(["debug", "error"])),
)


def as_variables(value: object, name: str = "SDJAX") -> dict[str, str]:
    """The variables of a document; lists of tables by index."""
    if isinstance(value, dict) and not name.endswith(("LANGUAGES", "LORAS")):
        parts = ((key.upper(), each) for key, each in value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        parts = ((str(index), each) for index, each in enumerate(value))
    else:
        return {name: value if isinstance(value, str) else as_toml(value)}
    return {key: text for part, each in parts for key, text in as_variables(each, f"{name}__{part}").items()}


def as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


@given(DOCUMENT)
def test_a_file_and_the_environment_say_the_same(document: Mapping[str, Any]) -> None:
    from_file = Config.parse(document)
    assert Config.load(None, as_variables(document)) == from_file
    assert Config.parse(tomllib.loads(from_file.as_toml)) == from_file
    assert Config.parse(tomllib.loads(from_file.as_toml)).models[0].unset == from_file.models[0].unset


def test_the_environment_wins_and_the_other_keys_stay(tmp_path: Path) -> None:
    file = tmp_path / "bot.toml"
    file.write_text('[[models]]\nname = "a"\nmax_steps = 50\n[queue]\nmax_waiting = 100\nlease_seconds = 9\n')
    environ = {
        "SDJAX__MODELS__0__MAX_STEPS": "40",
        "SDJAX__MODELS__1__NAME": "b",
        "SDJAX__QUEUE__MAX_WAITING": "200",
        "SDJAX_IMAGE": "of another program",
    }
    reading = Config.read(file, environ)
    assert [(model.name, model.max_steps) for model in reading.config.models] == [("a", 40), ("b", 150)]
    assert (reading.config.queue.max_waiting, reading.config.queue.lease_seconds) == (200, 9)
    assert [variable.name for variable in reading.variables] == sorted(environ)[1:]


def test_a_whole_list_of_tables_is_one_value() -> None:
    config = Config.load(None, {"SDJAX__MODELS": '[{name = "a"}, {name = "b", max_steps = 30}]'})
    assert [model.max_steps for model in config.models] == [150, 30]


def test_a_secret_comes_from_a_file_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql+asyncpg://bot:hunter2@host/queue\n")
    reading = Config.read(None, {"SDJAX__QUEUE__DATABASE_FILE": str(tmp_path / "url")})
    assert reading.config.queue.database == "postgresql+asyncpg://bot:hunter2@host/queue"
    assert [variable.file for variable in reading.variables] == [str(tmp_path / "url")]
    assert "hunter2" not in repr(reading.variables)
    token = Config.load(None, {"SDJAX__DISCORD__TOKEN_FILE": "/run/secrets/token"}).discord.token_file
    assert token == "/run/secrets/token"


def test_every_mistake_names_its_variable(tmp_path: Path) -> None:
    file = tmp_path / "bot.toml"
    file.write_text("[engine]\nseats = 1\n")
    environ = {
        "SDJAX__QUEUE__DATABSE": "x",
        "SDJAX__QEUE__DATABASE": "x",
        "SDJAX__QUEUE": "x",
        "SDJAX__QUEUE__MAX_WAITING__NOW": "x",
        "SDJAX__QUEUE__MAX_WAITING": "many",
        "SDJAX__QUEUE__LEASE_SECONDS": "1",
        "SDJAX__QUEUE__DATABASE": "mysql://bot:hunter2@host/queue",
        "SDJAX__QUEUE__ARTIFACTS": "a",
        "SDJAX__QUEUE__ARTIFACTS_FILE": str(file),
        "SDJAX__WEB__HOST_FILE": str(tmp_path / "none"),
        "SDJAX__LOG__LEVEL": "loud",
        "SDJAX__DISCORD__LANGUAGES": "[1",
        "SDJAX__MODELS__FIRST__NAME": "a",
        "SDJAX__MODELS__0__STEPS": "a",
        "SDJAX__MODELS__0__SIZES": '["9x9"]',
        "SDJAX__MODELS__2__NAME": "a",
    }
    with pytest.raises(ConfigurationError) as caught:
        Config.load(file, environ)
    first, *mistakes = str(caught.value).splitlines()
    assert first == f"{file} with the environment cannot be used:"
    assert "hunter2" not in str(caught.value)
    assert sorted(mistakes) == sorted(
        [
            "SDJAX__QUEUE__DATABSE: there is no key of this name; the nearest is SDJAX__QUEUE__DATABASE.",
            "SDJAX__QEUE__DATABASE: there is no key of this name; the nearest is SDJAX__QUEUE.",
            "SDJAX__QUEUE: it names a section: name one of its keys as well.",
            "SDJAX__QUEUE__MAX_WAITING__NOW: QUEUE__MAX_WAITING has no keys of its own.",
            "SDJAX__QUEUE__MAX_WAITING: a whole number is wanted, not “…”.",
            "SDJAX__QUEUE__LEASE_SECONDS: 5.0 is the least, not 1.",
            "SDJAX__QUEUE__DATABASE: this is not the address of a database this bot can use: "
            "write sqlite+aiosqlite://… or postgresql+asyncpg://….",
            "SDJAX__QUEUE__ARTIFACTS_FILE: SDJAX__QUEUE__ARTIFACTS says the same key; set one of them.",
            "SDJAX__WEB__HOST_FILE: the file that it names cannot be read: No such file or directory.",
            "SDJAX__LOG__LEVEL: “…” is none of 'debug', 'info', 'warning' or 'error'.",
            "SDJAX__DISCORD__LANGUAGES: a table in braces is wanted, not “…”.",
            "SDJAX__MODELS__FIRST__NAME: after MODELS, a number from 0 on is wanted, not “FIRST”.",
            "SDJAX__MODELS__0__STEPS: there is no key of this name; "
            "the nearest is SDJAX__MODELS__0__MAX_STEPS.",
            "SDJAX__MODELS__0__SIZES: 9x9 cannot be painted: 9 is not a multiple of 8 from 64 to 2048.",
            "SDJAX__MODELS__2__NAME: the list has 1 before it; the next number is 1.",
            "engine.seats: there is no key of this name in [engine]; the nearest is seats_per_device.",
        ]
    )


def test_no_mistake_shows_a_text_from_the_environment(tmp_path: Path) -> None:
    secret = "“pass” hunter2: " + "word" * 70
    (tmp_path / "secret").write_text(secret)
    tables = {"fleet": {"groups": [{"name": "a"}]}, "queue": {"roles": [{"role": 1}]}}
    names = [*as_variables(Config.parse(tables).model_dump(mode="json")), "SDJAX__USAGE__PRICES"]
    values = [
        secret,
        "hunter2/abc+DEF=",
        "-----BEGIN KEY-----\nhunter2\n-----END KEY-----\n",
        "hunter2\udcff",
    ]
    values += map(as_toml, ([secret, secret], {"a": secret}, {secret: "a"}, {"Hunter2": "a", "HUNTER2": "b"}))
    values += [as_toml([{"name": "hunter2"}] * 2), as_toml([{"name": "a", "hunter2": 1}])]
    environs = [{name: value} for name in names for value in values]
    environs += [{f"{name}_FILE": file} for name in names for file in (secret, str(tmp_path / "secret"))]
    environs += [{"SDJAX__WEB__PORT": "9000", "SDJAX__WEB__HOST": secret}]
    environs += [{"SDJAX__FLEET__GROUPS__0__MODELS": as_toml([secret])}]
    pair = {
        "SDJAX__PROVENANCE__CERTIFICATE": str(tmp_path / "secret"),
        "SDJAX__PROVENANCE__PRIVATE_KEY": secret,
    }
    environs += [pair, dict.fromkeys(pair, "hunter2")]
    options = ("timeout", "statement_cache_size", "prepared_statement_cache_size", "port")
    addresses = [f"postgresql+asyncpg://bot@db/queue?{option}=hunter2" for option in options]
    addresses += ["sqlite+aiosqlite:///queue?timeout=hunter2"]
    environs += [{"SDJAX__QUEUE__DATABASE": address} for address in addresses]
    refused = []
    for environ in environs:
        try:
            config = Config.load(None, environ)
            check_start(config, {}, others=mistakes_between_machines(config))
        except (ConfigurationError, UnreadableCheckpoint) as error:
            refused.append(Config.say_again(str(error), environ))
    assert len(refused) == len(environs)  # at least, that machines cannot share a queue in SQLite
    assert not [said for said in refused if "hunter2" in said.casefold()]


@pytest.mark.parametrize(
    ("name", "value", "below"),
    [
        ("SDJAX__MODELS__1__CHECKPOINT", "hunter2/abc", ""),
        (
            "SDJAX__MODELS",
            '[{ name = "a" }, { name = "b", preview_decoder = "hunter2/abc" }]',
            "[2].preview_decoder",
        ),
    ],
)
def test_a_text_in_a_sentence_without_a_key_is_replaced_by_its_variable(
    name: str, value: str, below: str
) -> None:
    environ = {"SDJAX__LOG__LEVEL": "debug", name: value}
    said = Config.say_again("There is no “hunter2/abc”.\nThere is no “hunter2”.", environ)
    assert said == f"{name}{below}: There is no “…”.\nThere is no “hunter2”."


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("SDJAX__FLEET__NAME", "art", "There is no fleet “art” here: start it with “sdjax-bot fleet start”."),
        ("SDJAX__ENGINE__ACCELERATOR", "cpu", "The fleet has no group “cpu”; it has gpu."),
        ("SDJAX__MODELS__0__SAMPLER", "euler", "The sampler “euler” does not suit demo: choose from ddim."),
    ],
)
def test_a_sentence_about_a_command_is_not_about_a_variable_with_an_equal_text(
    name: str, value: str, sentence: str
) -> None:
    assert Config.say_again(sentence, {name: value}) == sentence


def test_a_mistake_of_the_file_keeps_its_texts_beside_equal_ones_of_variables(tmp_path: Path) -> None:
    file = tmp_path / "bot.toml"
    file.write_text(
        '[log]\nlevel = "fast"\n[[models]]\nname = "a"\n[[models]]\nname = "a"\nflagged = "fast"\n'
        '[queue]\ndatabase = "fast"\n'
    )
    environ = {
        "SDJAX__ENGINE__ACCELERATOR": "fast",
        "SDJAX__FLEET__NAME": "a",
        "SDJAX__FLEET__GROUPS__0__NAME": "aa",
        "SDJAX__FLEET__GROUPS__1__NAME": "aa",
        "SDJAX__PROMPTS__STYLES_FILE": "fast",
        "SDJAX__WEB__PORT": "9000",
        "SDJAX__WEB__HOST": "fast",
        "SDJAX__USAGE__PRICES": '{ fast = "x" }',
        "SDJAX__MODELS__1__SAMPLER": "fast",
    }
    with pytest.raises(ConfigurationError) as caught:
        Config.load(file, environ)
    mistakes = [said.partition(" is none of")[0] for said in str(caught.value).splitlines()[1:]]
    assert sorted(mistakes) == [
        "SDJAX__FLEET__GROUPS__1__NAME: “…” is the name of fleet.groups[1] too.",
        "SDJAX__MODELS__1__SAMPLER: “…”",
        "SDJAX__PROMPTS__STYLES_FILE: “…” cannot be read: No such file or directory.",
        "SDJAX__USAGE__PRICES.…: a number is wanted, not “…”.",
        "log.level: “fast”",
        "models[2].flagged: “fast”",
        "models[2].name: “a” is the name of models[1] too.",
        "queue.database: this is not the address of a database this bot can use: "
        "write sqlite+aiosqlite://… or postgresql+asyncpg://….",
        "web.token_file: others than this machine reach web.host, so metrics and health need a token: "
        "write a long random word into a file, and its name here.",
    ]


def test_a_mistake_in_the_styles_of_a_file_that_a_variable_names_is_shown(tmp_path: Path) -> None:
    (tmp_path / "styles").write_text('[[styles]]\nname = "a"\nsampler = "magic"\n')
    with pytest.raises(
        ConfigurationError, match=r"STYLES_FILE: in “…”, styles\[1\].sampler: 'magic' is none"
    ):
        Config.load(None, {"SDJAX__PROMPTS__STYLES_FILE": str(tmp_path / "styles")})


def test_a_document_keeps_its_values_under_an_overlay() -> None:
    document = {"queue": {"roles": [{"role": 1}]}}
    found = overlaid(document, {"SDJAX__QUEUE__ROLES__0__WEIGHT": "3.0"}, Config)
    assert found.document == {"queue": {"roles": [{"role": 1, "weight": 3.0}]}}
    assert document == {"queue": {"roles": [{"role": 1}]}}
