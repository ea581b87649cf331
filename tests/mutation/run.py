"""Mutation testing: changes modules in small ways, and counts how many changes the modules' own tests notice.

`make mutants` runs a sample of each module, `make mutants ALL=1` every mutant, and
`make mutants ONLY="scheduler store/jobs"` the modules whose paths contain one of the words. The exit code is
1 below 95 %, of all mutants together in a sample and of each module with every mutant, and where
equivalent.toml lists a mutant that does not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutants import Change, Mutants, folder, mutants_of, name_of, plurals, read_equivalent, sample
from mutmut import configuration

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SAMPLE = 12
ENOUGH = 95.0  # percent
SURVIVED = {"survived", "no test calls the function"}


@dataclass(frozen=True, kw_only=True)
class Group:
    """Modules with the same tests; with `every_test`, tests that do not call the function are run too."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    every_test: bool


@dataclass(kw_only=True)
class Result:
    """How the mutants of one module ended; `failure` where they could not run."""

    module: str
    total: int
    ran: int = 0
    equivalent: int = 0
    survivors: list[Change] = field(default_factory=list)
    failure: str = ""

    @property
    def killed(self) -> int:
        return self.ran - len(self.survivors)

    @property
    def percent(self) -> float:
        return _percent([self])


def read_groups(file: Path, words: list[str]) -> list[Group]:
    """Return the groups, with only those modules whose paths contain one of the words; all without words."""
    groups = []
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["group"]:
        modules = [each for each in entry["modules"] if not words or any(word in each for word in words)]
        if modules:
            every_test = entry.get("every_test", False)
            groups.append(Group(modules=tuple(modules), tests=tuple(entry["tests"]), every_test=every_test))
    return groups


def run_group(group: Group, size: int, equivalent: Mapping[Change, str]) -> list[Result]:
    """Run the tests of the group on the mutants of its modules, and return how they ended."""
    drawn: dict[str, tuple[Mutants, list[str]]] = {}
    results = {}
    with folder(ROOT):
        for module in group.modules:
            mutants = mutants_of(module, ROOT)
            result = results[module] = Result(module=module, total=len(mutants.names))
            listed = {change for change in equivalent if change.module == module}
            plural = plurals((ROOT / module).read_text(encoding="utf-8"))
            functions = {change.function.rpartition(".")[2] for change in listed} | plural.keys()
            known = {name: mutants.change(name) for name in _of_functions(mutants, functions)}
            if missing := listed - set(known.values()):
                result.failure = "no such mutant: " + "\n".join(map(str, missing))
            names = sample(mutants, size)
            spared = {
                name
                for name, change in known.items()
                if change in listed
                or (change.after and change.before in plural.get(change.function.rpartition(".")[2], ()))
            }
            left = [name for name in names if name not in spared]
            result.ran, result.equivalent = len(left), len(names) - len(left)
            drawn[module] = mutants, left
        answers, failure = _run_tests(group, drawn)
        for module, (mutants, names) in drawn.items():
            result = results[module]
            result.failure = result.failure or failure
            if failure:
                result.ran = 0
            result.survivors = [mutants.change(name) for name in names if answers.get(name) in SURVIVED]
    return list(results.values())


def _of_functions(mutants: Mutants, functions: set[str]) -> list[str]:
    return [name for name in mutants.names if any(function in name for function in functions)]


def _run_tests(group: Group, drawn: Mapping[str, tuple[Mutants, list[str]]]) -> tuple[dict[str, str], str]:
    """Return how the tests of each mutant ended, and the output of pytest where it could not run."""
    names = [name for _, chosen in drawn.values() for name in chosen]
    if not names:
        return {}, ""
    code = {name_of(module): mutants.code for module, (mutants, _) in drawn.items()}
    arguments = [*configuration.config().pytest_add_cli_args, *(f"tests/{test}" for test in group.tests)]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", HERE)))
    with tempfile.TemporaryDirectory() as work:
        job, answers = Path(work, "job.json"), Path(work, "answers.json")
        content = {
            "code": code,
            "mutants": names,
            "arguments": arguments,
            "answers": str(answers),
            "every_test": group.every_test,
        }
        job.write_text(json.dumps(content), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(HERE / "forks.py"), str(job)],
            check=False,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            return {}, "\n".join(done.stdout.splitlines()[-20:])
        ended: dict[str, str] = json.loads(answers.read_text(encoding="utf-8"))
    return ended, ""


def show(result: Result) -> None:
    """Print the module's line of the table, then its survivors."""
    counts = (
        f"{result.ran} of {result.total} | {result.killed} | {len(result.survivors)} | {result.equivalent}"
    )
    percent = "did not run" if result.failure and not result.ran else f"{result.percent:.1f} %"
    print(f"| `{result.module}` | {counts} | {percent} |", flush=True)
    for text in [str(change) for change in result.survivors] + [result.failure] * bool(result.failure):
        print("    " + text.replace("\n", "\n    "), flush=True)


def main() -> int:
    """Run the modules that the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of modules' paths; without any, every module")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="mutants of a module")
    parser.add_argument("--all", action="store_true", help="every mutant of a module")
    options = parser.parse_args()
    equivalent = read_equivalent(HERE / "equivalent.toml")
    size = sys.maxsize if options.all else options.sample
    print(
        "| module | mutants | killed | survived | equivalent | killed |\n|---|---|---|---|---|---|",
        flush=True,
    )
    results, started = [], time.monotonic()
    for group in read_groups(HERE / "modules.toml", options.words):
        results += (ended := run_group(group, size, equivalent))
        for result in ended:
            show(result)
    minutes = (time.monotonic() - started) / 60
    print(f"\n{total(results)} in {minutes:.0f} minutes")
    listed = {module for group in read_groups(HERE / "modules.toml", []) for module in group.modules}
    unknown = sorted({change.module for change in equivalent} - listed)
    print(
        "".join(f"equivalent.toml names {each}, which is not in modules.toml\n" for each in unknown), end=""
    )
    failed = unknown or any(each.failure for each in results)
    below = [each.percent < ENOUGH for each in results] if options.all else [_percent(results) < ENOUGH]
    return 1 if failed or any(below) else 0


def total(results: Sequence[Result]) -> str:
    """Return the totals of a run in words."""
    ran, killed = sum(each.ran for each in results), sum(each.killed for each in results)
    return f"{killed} of {ran} mutants killed, {_percent(results):.1f} %"


def _percent(results: Sequence[Result]) -> float:
    ran = sum(each.ran for each in results)
    return 100.0 * sum(each.killed for each in results) / ran if ran else 100.0


if __name__ == "__main__":
    sys.exit(main())
