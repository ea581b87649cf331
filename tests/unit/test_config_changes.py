"""What a running process takes from a configuration that is read again: each key has a decision."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from bot.config import Config, ModelConfig
from bot.config.changes import ALIVE, AT_START, OF_COMMANDS, changes

PAGE = Path(__file__).parents[2] / "docs/operators/configuration.md"


def keys_of(section: str) -> set[str]:
    value = getattr(Config(), section)
    return set(type(value if isinstance(value, BaseModel) else ModelConfig()).model_fields)


def test_every_key_is_taken_alive_at_a_start_or_by_a_command() -> None:
    decided = [
        (section, key)
        for keys in (ALIVE, AT_START, OF_COMMANDS)
        for section, of in keys.items()
        for key in of
    ]
    assert sorted(decided) == sorted(
        (section, key) for section in Config.model_fields for key in keys_of(section)
    )


def test_the_page_says_what_the_code_does() -> None:
    rows = re.findall(r"^\| `\[{1,2}(\w+)\]{1,2}` \|(.*)\|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    said = {section: (alive, at_start) for section, alive, at_start in rows}
    assert said.keys() == Config.model_fields.keys() - OF_COMMANDS.keys()
    for section, cells in said.items():
        for cell, keys in zip(cells, (ALIVE, AT_START), strict=True):
            every = keys_of(section) if cell.strip() == "all" else set(re.findall(r"`(\w+)`", cell))
            assert every == keys.get(section, frozenset()), section


def test_changed_keys_are_named_and_those_for_a_restart_keep_their_values() -> None:
    running = Config.parse({"models": [{"loras": {"ink": "ink.safetensors"}}], "web": {"port": 9090}})
    found = Config.parse(
        {
            "models": [{}],
            "queue": {"max_waiting": 100, "lease_seconds": 9.0},
            "policy": {"bounds": {"pixels": 1000}},
            "fleet": {"name": "other"},
        }
    )
    told = changes(running, found)
    assert told.alive == ("models", "queue.max_waiting", "policy.bounds")
    assert told.at_start == ("queue.lease_seconds", "web.port")
    assert told.of_commands == ("fleet.name",)
    config = told.config
    assert (config.web.port, config.queue.lease_seconds) == (9090, 60.0)
    assert (config.queue.max_waiting, config.models[0].loras) == (100, {})
    again = changes(config, found)
    assert again.alive == again.of_commands == ()
    assert again.at_start == told.at_start
