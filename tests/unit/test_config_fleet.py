"""The configuration of the fleet's groups: the example, and every mistake at once."""

from __future__ import annotations

import re
import tomllib

from test_config import EXAMPLE, mistakes_in

from bot.config.fleet import GroupConfig


def test_the_example_of_a_group_names_every_key_and_its_default() -> None:
    block = EXAMPLE.read_text(encoding="utf-8").partition("[[fleet.groups]]\n")[2].partition("\ngroups =")[0]
    lines = re.findall(r"(?m)^#   (\w+) = (\S+)(?: +# default ([\w.]+))?", block)
    assert {key for key, _, _ in lines} == GroupConfig.model_fields.keys()
    shown = {key: tomllib.loads(f"x = {default or value}")["x"] for key, value, default in lines}
    assert {**shown, "name": "a"} == GroupConfig(name="a").model_dump(mode="json")


def test_every_mistake_in_groups_of_the_fleet_is_listed() -> None:
    groups = [
        {"name": "a", "models": ["demo", "none"], "least": 3, "most": 2},
        {"name": "a", "gpus": 1.5, "custom": {"attic": 0}},
        {"role": "front", "name": "front", "most": 2, "cors": 1},
    ]
    assert mistakes_in({"fleet": {"groups": groups}}) == [
        "fleet.groups[2].name: “a” is the name of fleet.groups[1] too.",
        "fleet.groups[1].models: there is no model “none”.",
        "fleet.groups[1].most: 2 is less than least = 3.",
        "fleet.groups[2].gpus: 1.5 GPUs: a part of a GPU, or whole GPUs.",
        "fleet.groups[2].custom.attic: 0.0001 is the least, not 0.",
        "fleet.groups[3].most: fronts do not depend on the waiting work: least says how many of them run.",
        "fleet.groups[3].cors: there is no key of this name in [fleet.groups[3]]; the nearest is cores.",
    ]
    refused = {"name": "a", "tpus": 3, "cores": 0.00001, "custom": {"GPU": 1.0}}
    assert mistakes_in({"fleet": {"groups": [refused]}}) == [
        "fleet.groups[1].tpus: 3 is none of 0, 1, 2, 4 or 8.",
        "fleet.groups[1].cores: 1e-05 is less than 0.0001, the least part that Ray counts.",
        "fleet.groups[1].custom: GPU: use the keys cores, gpus, tpus and memory_gib.",
    ]
    assert mistakes_in({"fleet": {"groups": [{"name": "a"}, {"name": "a"}]}}) == [
        "fleet.groups[2].name: “a” is the name of fleet.groups[1] too."
    ]
