"""Mutation testing: changes modules in small ways, and counts how many changes the modules' own tests notice.

`make mutants` runs a sample of each module, `make mutants ALL=1` every mutant, and
`make mutants ONLY="scheduler store/caps"` the modules whose paths contain one of the words. The exit code is
1 below 95 %, of all mutants together in a sample and of each module with every mutant, and where
equivalent.toml lists a mutant that does not exist.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutants import Change, Mutants, folder, mutants_of, read_equivalent, sample

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORK = ROOT / "var" / "mutants"
SAMPLE = 12
ENOUGH = 95.0  # percent
_SPINNER = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
# Exit codes of mutmut: no test has failed, none calls the function, or the mutant was not run.
SURVIVED = {0, 5, 33, None}


@dataclass(frozen=True, kw_only=True)
class Group:
    """Modules with the same tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


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
            groups.append(Group(modules=tuple(modules), tests=tuple(entry["tests"])))
    return groups


def prepare(group: Group) -> Path:
    """Make the folder that mutmut works in, configured for these modules and their own tests only."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in ("bot", "sdjax_engine", "tests", "config.example.toml"):
        (WORK / name).symlink_to(ROOT / name)
    own = {
        "only_mutate": list(group.modules),
        "pytest_add_cli_args_test_selection": [f"tests/{test}" for test in group.tests],
    }
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
    project, head = (ROOT / "pyproject.toml").read_text(encoding="utf-8"), "[tool.mutmut]\n"
    if head not in project:
        raise ValueError(f"pyproject.toml has no line {head.strip()}")
    (WORK / "pyproject.toml").write_text(project.replace(head, head + lines), encoding="utf-8")
    return WORK


def run_group(group: Group, size: int, equivalent: Mapping[Change, str]) -> list[Result]:
    """Run the tests of the group on the mutants of its modules, and return how they ended."""
    work = prepare(group)
    drawn: dict[str, tuple[Mutants, list[str]]] = {}
    results = {}
    with folder(work):
        for module in group.modules:
            mutants = mutants_of(module, ROOT)
            result = results[module] = Result(module=module, total=len(mutants.names))
            listed = {change for change in equivalent if change.module == module}
            known = {name: mutants.change(name) for name in _of_functions(mutants, listed)}
            if missing := listed - set(known.values()):
                result.failure = "no such mutant: " + "\n".join(map(str, missing))
            names = sample(mutants, size)
            left = [name for name in names if known.get(name) not in listed]
            result.ran, result.equivalent = len(left), len(names) - len(left)
            drawn[module] = mutants, left
        chosen = [name for _, names in drawn.values() for name in names]
        failure = _mutmut(work, chosen) if chosen else ""
        for module, (mutants, names) in drawn.items():
            result = results[module]
            result.failure = result.failure or failure
            if failure:
                result.ran = 0
            elif names:
                codes = _exit_codes(work, module)
                result.survivors = [mutants.change(name) for name in names if codes.get(name) in SURVIVED]
    return list(results.values())


def _of_functions(mutants: Mutants, listed: set[Change]) -> list[str]:
    functions = {change.function.rpartition(".")[2] for change in listed}
    return [name for name in mutants.names if any(function in name for function in functions)]


def _mutmut(work: Path, names: list[str]) -> str:
    """Run mutmut with one process at a time; return its output where it failed."""
    program = Path(sys.executable).with_name("mutmut")
    command = [str(program), "run", "--max-children", "1", *names]
    done = subprocess.run(
        command, check=False, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    told = [line for line in done.stdout.splitlines() if not line.startswith(_SPINNER)]
    return "\n".join(told[-40:]) if done.returncode else ""


def _exit_codes(work: Path, module: str) -> dict[str, int | None]:
    meta = json.loads((work / "mutants" / f"{module}.meta").read_text(encoding="utf-8"))
    codes: dict[str, int | None] = meta["exit_code_by_key"]
    return codes


def show(result: Result) -> None:
    """Print the module's line of the table, then its survivors."""
    counts = (
        f"{result.ran} of {result.total} | {result.killed} | {len(result.survivors)} | {result.equivalent}"
    )
    print(f"| `{result.module}` | {counts} | {result.percent:.1f} % |", flush=True)
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
