"""Runs the tests of mutants: pytest collects them once, then each mutant has its own fork of that process.

`python forks.py JOB` reads the job as JSON: the mutated code of each module by the module's name, the names
of the mutants, the arguments of pytest, and the file for the answers. A fork runs only the tests that call
the mutant's function, and ends at the first failure. Tests that have failed before run first, then the
quickest. With `every_test` it runs the others too: where modules keep results, only the first test that needs
a result calls the function. Processes that the tests start have no mutants.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings
from memory_disk import memory_disk
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

ROOT = Path(__file__).parents[2]
KILLED, SURVIVED, TIMED_OUT, NO_TEST = "killed", "survived", "timed out", "no test calls the function"
SLOWER = 10  # a mutant's tests may take so many times as long as without a mutant,
PATIENCE_SECONDS = 10.0  # and this much more


class MutatedCode(SourceLoader):
    """Loads one module with all its mutants, under the path of the original."""

    def __init__(self, path: str, code: str) -> None:
        self._path = path
        self._code = code

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._code.encode()

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        return super().source_to_code(data, path)


class MutatedModules(MetaPathFinder):
    """Finds the mutated modules before the originals."""

    def __init__(self, code: Mapping[str, str]) -> None:
        self._code = code

    def find_spec(self, name: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._code:
            return None
        file = str(ROOT / f"{name.replace('.', '/')}.py")
        return spec_from_file_location(name, file, loader=MutatedCode(file, self._code[name]))


class Forks:
    """The pytest plugin that runs each mutant in a fork, in place of the one run of all tests."""

    def __init__(self, mutants: Sequence[str], *, every_test: bool) -> None:
        self._mutants = mutants
        self._every_test = every_test
        self.answers: dict[str, str] = {}
        self._kills: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Make Hypothesis stop at the first failing example, without shrinking it."""
        phases = [Phase.explicit, Phase.generate]
        quick = settings(phases=phases, report_multiple_bugs=False, database=None)
        settings.register_profile("mutants", quick)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        answer = in_fork(lambda: self._callers(session), 600.0)
        if answer is None or answer["failed"]:
            pytest.exit(f"without a mutant, a test fails: {answer}", 1)
        self._seconds = answer["seconds"]
        callers: dict[str, list[str]] = answer["callers"]
        tests = {item.nodeid: item for item in session.items}
        for mutant in self._mutants:
            names = callers.get(mutant.partition("__mutmut_")[0], [])
            own = [tests[name] for name in names]
            others = [item for item in session.items if item not in own] if self._every_test else []
            self.answers[mutant] = self._run(session, mutant, own, others)
        return True

    def _callers(self, session: pytest.Session) -> dict[str, Any]:
        """Run every test; return which tests call each function, and the seconds of each test."""
        set_mutant_under_test("stats")
        callers, seconds = defaultdict(list), {}
        for index, item in enumerate(session.items):
            started = time.monotonic()
            _run_test(session, index, session.items)
            seconds[item.nodeid] = time.monotonic() - started
            for function in state()._stats:
                callers[function].append(item.nodeid)
            state()._stats.clear()
            if session.testsfailed:
                return {"failed": item.nodeid}
        return {"failed": None, "callers": callers, "seconds": seconds}

    def _run(
        self, session: pytest.Session, mutant: str, own: list[pytest.Item], others: list[pytest.Item]
    ) -> str:
        if not own and not others:
            return NO_TEST
        for part in (own, others):
            part.sort(key=lambda item: (-self._kills[item.nodeid], self._seconds[item.nodeid]))
        items = own + others
        allowed = PATIENCE_SECONDS + SLOWER * sum(self._seconds[item.nodeid] for item in items)

        def run() -> dict[str, Any]:
            set_mutant_under_test(mutant)
            for index, item in enumerate(items):
                _run_test(session, index, items)
                if session.testsfailed:
                    return {"killer": item.nodeid}
            return {"killer": None}

        answer = in_fork(run, allowed)
        if answer is None:
            return TIMED_OUT
        if (killer := answer["killer"]) is None:
            return SURVIVED
        self._kills[killer] += 1
        return KILLED


def _run_test(session: pytest.Session, index: int, items: Sequence[pytest.Item]) -> None:
    following = items[index + 1] if index + 1 < len(items) else None
    session.config.hook.pytest_runtest_protocol(item=items[index], nextitem=following)


def in_fork(run: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    """Return what `run` returns in a fork of this process, or None where the fork dies or takes too long."""
    descriptor, name = tempfile.mkstemp()
    os.close(descriptor)
    file = Path(name)
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 1
        try:
            file.write_text(json.dumps(run()), encoding="utf-8")
            code = 0
        finally:
            os._exit(code)
    ended = os.pidfd_open(child)
    select.select([ended], [], [], seconds)
    os.close(ended)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # and what its tests have started
    os.waitpid(child, 0)
    text = file.read_text(encoding="utf-8")
    file.unlink()
    return json.loads(text) if text else None


def main(file: Path) -> int:
    """Run the job in the file, write the answers, and return pytest's exit code."""
    job = json.loads(file.read_text(encoding="utf-8"))
    sys.meta_path.insert(0, MutatedModules(job["code"]))
    forks = Forks(job["mutants"], every_test=job["every_test"])
    with tempfile.TemporaryDirectory(dir=memory_disk(), prefix="mutants-") as folder:
        arguments = [*job["arguments"], "-q", "--no-header", "--tb=short", f"--basetemp={folder}/tests"]
        code = int(pytest.main(arguments, plugins=[forks]))
    Path(job["answers"]).write_text(json.dumps(forks.answers), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
