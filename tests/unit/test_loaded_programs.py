"""A loaded program that fails is compiled again once, whichever threads notice it."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from jax.stages import Compiled

from sdjax_engine.compiling.loaded_programs import LoadedProgram

DEADLINE = 10.0


class FailingProgram:
    """A program of which every call fails, once all threads are within one."""

    def __init__(self, threads: int) -> None:
        self.barrier = threading.Barrier(threads)

    def __call__(self, *_arguments: Any) -> Any:
        self.barrier.wait(DEADLINE)
        raise ValueError("bytes of another version")


def test_threads_that_fail_at_the_same_time_compile_once_and_all_get_a_result() -> None:
    compiled, lines, results = list[int](), list[str](), list[int]()

    def compile_again() -> Compiled:
        compiled.append(1)
        return cast("Compiled", lambda number: number + 1)

    program = LoadedProgram(cast("Compiled", FailingProgram(3)), compile_again, lines.append)
    threads = [threading.Thread(target=lambda: results.append(program(1))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert (results, compiled) == ([2, 2, 2], [1])
    assert lines == ["compiled again, because what was loaded does not work: bytes of another version."]


def test_a_program_that_has_worked_is_not_compiled_again() -> None:
    def refuse() -> Compiled:
        raise AssertionError("compiled again")

    def half(number: int) -> float:
        return 1 / number

    program = LoadedProgram(cast("Compiled", half), refuse, lambda _line: None)
    assert program(2) == 0.5
    with pytest.raises(ZeroDivisionError):
        program(0)


class AnalysedProgram:
    """A program that says what memory it needs, and counts how often it is asked; fails unless it `works`."""

    def __init__(self, memory: int, *, works: bool) -> None:
        self.memory = memory
        self.works = works
        self.asked = 0

    def __call__(self, number: int) -> int:
        if not self.works:
            raise ValueError("bytes of another version")
        return number

    def memory_analysis(self) -> int:
        self.asked += 1
        return self.memory


def test_xla_is_asked_once_what_a_program_needs_and_again_once_it_is_compiled_again() -> None:
    loaded, compiled = AnalysedProgram(1, works=False), AnalysedProgram(2, works=True)
    program = LoadedProgram(cast("Compiled", loaded), lambda: cast("Compiled", compiled), lambda _line: None)
    assert [program.memory_analysis() for _ in range(2)] == [1, 1]
    assert program(5) == 5
    assert [program.memory_analysis() for _ in range(2)] == [2, 2]
    assert (loaded.asked, compiled.asked) == (1, 1)
