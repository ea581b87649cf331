"""The tables of `make mutants` name modules and tests that exist, each module once."""

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "tests" / "mutation"
GROUPS = tomllib.loads((TABLES / "modules.toml").read_text(encoding="utf-8"))["group"]
MODULES = [module for group in GROUPS for module in group["modules"]]


def test_each_module_is_there_and_is_named_once() -> None:
    assert [module for module in MODULES if not (ROOT / module).is_file()] == []
    assert [module for module, count in Counter(MODULES).items() if count > 1] == []


def test_the_tests_of_each_module_are_there() -> None:
    named = {test for group in GROUPS for test in group["tests"]}
    assert sorted(test for test in named if not (ROOT / "tests" / test).exists()) == []


def test_each_mutant_that_no_test_can_kill_has_a_reason() -> None:
    listed = tomllib.loads((TABLES / "equivalent.toml").read_text(encoding="utf-8"))["equivalent"]
    assert listed
    assert [entry for entry in listed if not entry["why"].strip() or entry["module"] not in MODULES] == []
