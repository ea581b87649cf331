"""Programs that were loaded instead of compiled, and are compiled after all where they do not work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.stages import Compiled

from sdjax_engine.wording import first_line

FAULTS_OF_A_PROGRAM = ("INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND")


class LoadedProgram:
    """A program from bytes, which JAX's private interfaces made of them: it is on trial until its first call.

    Where that fails, `compile_again` makes the program anew, once, and `tell` is told so. What the devices
    themselves report, a shortage of memory among it, is no fault of the program and is raised.
    """

    def __init__(
        self, program: Compiled, compile_again: Callable[[], Compiled], tell: Callable[[str], None]
    ) -> None:
        self._program = program
        self._tell = tell
        self._compile_again: Callable[[], Compiled] | None = compile_again  # None: the trial is over

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
        """What XLA says of the memory that the program needs."""
        return self._tried(lambda program: program.memory_analysis())

    def _tried(self, use: Callable[[Compiled], Any]) -> Any:
        try:
            return use(self._program)
        except Exception as error:
            if self._compile_again is None or is_of_devices(error):
                raise
            self._tell(f"compiled again, because what was loaded does not work: {first_line(error)}")
            self._program, self._compile_again = self._compile_again(), None
            return use(self._program)


def is_of_devices(error: Exception) -> bool:
    """Whether an error is the devices' own, so that another program would not help."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return not any(word in str(error) for word in FAULTS_OF_A_PROGRAM)
    return isinstance(error, MemoryError)
