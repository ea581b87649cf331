"""Mutation testing of one module: makes small changes to it, and runs tests on each change.

`make mutants MODULE=bot/process/retries.py TESTS=tests/unit/test_retries.py` tries a sample of the
changes, the same one each time, and prints those that no test notices.
Processes that the tests start have no changes.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from mutmut import configuration
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.utils.format_utils import get_mutant_name


class MutatedModule(MetaPathFinder, SourceLoader):  # type: ignore[misc]  # the stubs of its bases differ
    """Finds and loads one module with all its mutants, under the path of the original."""

    def __init__(self, path: Path, code: str) -> None:
        self._path, self._code = path, code
        self._name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._path, loader=self) if name == self._name else None

    def get_filename(self, _name: str) -> str:
        return str(self._path.absolute())

    def get_data(self, _path: str) -> bytes:
        return self._code.encode()


def passes(mutant: str, module: MutatedModule, tests: list[str]) -> bool:
    """Run the tests on one mutant in a fork of this process; return whether none of them fails."""
    if (child := os.fork()) == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, sys.stdout.fileno())
        os.dup2(silent, sys.stderr.fileno())
        sys.meta_path.insert(0, module)
        set_mutant_under_test(mutant)
        arguments = configuration.config().pytest_add_cli_args
        os._exit(pytest.main([*arguments, "--exitfirst", "-p", "no:cacheprovider", *tests]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main() -> int:
    """Run the module and the tests that the command line names; return 1 where a mutant survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", type=Path, help="path of the module")
    parser.add_argument("tests", nargs="+", help="files of tests")
    parser.add_argument("--most", type=int, default=40, help="how many mutants")
    options = parser.parse_args()
    mutated = mutate_file_contents(str(options.module), options.module.read_text(encoding="utf-8"))
    module = MutatedModule(options.module, mutated.code)
    if not passes("", module, options.tests):
        sys.exit("a test fails without a mutant")
    names = [get_mutant_name(options.module, name) for name in mutated.mutant_names]
    drawn = random.Random(0).sample(names, min(options.most, len(names)))
    survivors = [name for name in drawn if passes(name, module, options.tests)]
    for name in survivors:
        print(get_diff_for_mutant(name, source=mutated.code, path=str(options.module)))
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} mutants killed; {len(names)} exist")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
