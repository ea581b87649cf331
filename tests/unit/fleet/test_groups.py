"""What groups run, and which values their machines cannot share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bot.config import Config
from bot.fleet.groups import launches, mistakes, sizes, warnings

DOCUMENT: dict[str, Any] = {
    "models": [{"name": "small"}, {"name": "large", "checkpoint": "someone/large"}],
    "engine": {"cache_dir": "/shared/cache"},
    "queue": {"database": "postgresql+asyncpg://bot@db/queue", "artifacts": "s3://pictures"},
    "fleet": {
        "groups": [
            {"name": "h100", "gpus": 2, "cores": 8, "memory_gib": 4, "models": ["large"], "most": 4},
            {"name": "rest", "custom": {"attic": 1.0}, "idle_minutes": 2.0},
            {"name": "fronts", "role": "front", "least": 1, "cores": 0.5},
        ]
    },
    "provenance": {"folder": "/srv/provenance"},
}


def configured(**fleet: Any) -> Config:
    return Config.parse({**DOCUMENT, **fleet})


def test_a_group_runs_the_shipped_command_with_its_models_class_and_resources() -> None:
    found = launches(configured(), "the text")
    h100 = found["h100"]
    assert (h100.role, h100.config) == ("worker", "the text")
    assert h100.command == (sys.executable, "-m", "bot")
    assert h100.arguments == ("--only", "large", "--accelerator", "nvidia")
    assert (h100.cores, h100.gpus, h100.memory, h100.resources) == (8, 2, 4 * 2**30, {})
    assert found["rest"].arguments == ("--accelerator", "cpu")
    assert found["rest"].resources == {"attic": 1.0}
    assert (found["fronts"].role, found["fronts"].arguments) == ("front", ())
    assert "the text" not in repr(h100), "it may hold a password"


def test_groups_of_workers_have_bounds() -> None:
    (h100, rest) = sizes(configured())
    assert (h100.models, rest.models) == ({"large"}, {"small", "large"})
    assert (rest.idle_seconds, h100.most) == (120, 4)


def test_a_generation_changes_with_what_units_run_and_not_with_their_number() -> None:
    def generation(**values: Any) -> str:
        groups = [{"name": "a", **values.pop("group", {})}]
        return launches(configured(fleet={"groups": groups}, **values), "")["a"].generation

    same = generation()
    assert generation(group={"most": 9, "least": 2, "idle_minutes": 1.0, "target_seconds": 5.0}) == same
    changes: list[dict[str, Any]] = [
        {"group": {"version": "2"}},
        {"group": {"gpus": 1}},
        {"engine": {"cache_dir": "/elsewhere"}},
    ]
    assert len({same, *(generation(**change) for change in changes)}) == 4


def test_every_value_that_machines_cannot_share_is_listed() -> None:
    found = mistakes(Config.parse({"models": [{"checkpoint": "./model.safetensors"}]}))
    keys = [sentence.partition(":")[0] for sentence in found]
    assert keys == [
        "fleet.groups",
        "queue.database",
        "queue.artifacts",
        "engine.cache_dir",
        "models[1].checkpoint",
    ]


def test_paths_of_parts_and_fronts_and_a_port_are_listed_too() -> None:
    model = {"name": "a", "checkpoint": "/m/a", "loras": {"ink": "loras/ink.safetensors"}}
    model["picture_classifier"] = "./classifier"
    model["embeddings"] = {"cat": "cat.safetensors"}
    model["controlnets"] = {"canny": {"source": "./canny", "types": ["edges"]}}
    model |= {"image_prompt": "plus.safetensors", "image_encoder": "./image_encoder"}
    groups = [{"name": "fronts", "role": "front", "least": 1}]
    values: dict[str, Any] = {
        "models": [model],
        "fleet": {"groups": groups},
        "web": {"port": 9000},
        "discord": {"token_file": "token"},
        "provenance": {},
    }
    found = {sentence.partition(":")[0] for sentence in mistakes(configured(**values))}
    keys = ("loras", "embeddings", "controlnets", "image_prompt", "image_encoder", "picture_classifier")
    ours = {*(f"models[1].{key}" for key in keys), "web.port"}
    assert found == ours | {"discord.token_file", "provenance.folder"}
    values["provenance"] = {"certificate": "cert.pem", "private_key": "/key.pem"}
    found = {sentence.partition(":")[0] for sentence in mistakes(configured(**values))}
    assert found == ours | {"discord.token_file", "provenance.certificate"}


def test_files_of_words_are_at_one_place_on_every_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "styles.toml").write_text("")
    prompts = {"styles_file": "styles.toml", "keywords_file": "keywords.txt"}
    found = {sentence.partition(":")[0] for sentence in mistakes(configured(prompts=prompts))}
    assert found == {"prompts.styles_file", "prompts.keywords_file"}


def test_a_password_that_ray_would_keep_is_warned_of_and_not_repeated() -> None:
    assert warnings(configured()) == []
    queue = {**DOCUMENT["queue"], "database": "postgresql+asyncpg://bot:a-secret@db/queue"}
    (warning,) = warnings(configured(queue=queue))
    assert "PGPASSFILE" in warning
    assert "a-secret" not in warning
