"""Programs that were loaded instead of compiled, and are compiled after all if they do not work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
from jax.stages import Compiled

from sdjax_engine.wording import first_line

FAULTS_OF_A_PROGRAM = ("INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND")


class LoadedProgram:
    """A program that JAX's private interfaces made from bytes; may be used from any thread.

    If a use fails before the first call has succeeded, `compile_again` compiles the program, once, and
    `report` is called with a line. An error of the devices, such as a shortage of memory, is no fault of the
    program and is raised.
    """

    def __init__(
        self, program: Compiled, compile_again: Callable[[], Compiled], report: Callable[[str], None]
    ) -> None:
        self._program = program
        self._report = report
        self._compile_again: Callable[[], Compiled] | None = compile_again  # None: it works
        self._analysis: tuple[Compiled | None, Any] = None, None
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Queue the program's work."""
        if self._compile_again is None:
            return self._program(*arguments)
        result = self._tried(lambda program: program(*arguments))
        self._compile_again = None
        return result

    @property
    def out_info(self) -> Any:
        """The results, as shapes."""
        return self._tried(lambda program: program.out_info)

    def memory_analysis(self) -> Any:
        """Return XLA's analysis of the memory that the program needs. It takes milliseconds and is cached."""
        return self._tried(self._analysed)

    def _analysed(self, program: Compiled) -> Any:
        analysed, answer = self._analysis
        if analysed is not program:
            answer = program.memory_analysis()
            self._analysis = program, answer
        return answer

    def _tried(self, use: Callable[[Compiled], Any]) -> Any:
        program = self._program
        try:
            return use(program)
        except Exception as error:
            if is_of_devices(error):
                raise
            with self._lock:  # the first thread that fails compiles, the others use its program
                if self._program is program:
                    if self._compile_again is None:
                        raise
                    reason = first_line(error)
                    self._report(f"compiled again, because what was loaded does not work: {reason}")
                    self._program, self._compile_again = self._compile_again(), None
        return use(self._program)


def is_of_devices(error: Exception) -> bool:
    """Whether an error is the devices' own, so that another program would not help."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return not any(word in str(error) for word in FAULTS_OF_A_PROGRAM)
    return isinstance(error, MemoryError)
