"""The mutants of a module, from mutmut: their names, what each changes, and the list of equivalent ones."""

from __future__ import annotations

import ast
import os
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mutmut import configuration
from mutmut.mutation.data import LineSpan
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name, orig_function_and_class_names_from_key

SEED = "sdjax-bot"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One mutation: the lines of a function before and after it, without indentation."""

    module: str
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.module}: {self.function}\n    - {self.before}\n    + {self.after}"


@dataclass(frozen=True, kw_only=True)
class Mutants:
    """The mutants of one module by mutmut's names."""

    module: str
    names: tuple[str, ...]
    code: str  # of the module with every mutant in it
    spans: Mapping[str, LineSpan]  # of the functions in `code`

    def change(self, name: str) -> Change:
        """Return what the mutant changes."""
        function, owner = orig_function_and_class_names_from_key(name)
        lines = get_diff_for_mutant(name, source=self._functions(name), path=self.module).splitlines()[2:]
        before, after = (" ".join(_changed(lines, sign)) for sign in "-+")
        label = function if owner is None else f"{owner}.{function}"
        return Change(module=self.module, function=label, before=before, after=after)

    def _functions(self, name: str) -> str:
        """Return the code of the mutant and of its original only, which is quick to parse."""
        mutant = name.rpartition(".")[2]
        original = f"{mutant.partition('__mutmut_')[0]}__mutmut_orig"
        lines = self.code.splitlines()
        kept = [lines[span.start - 1 : span.end] for span in (self.spans[original], self.spans[mutant])]
        code = "\n".join(line for function in kept for line in function)
        return f"class Owner:\n{code}\n" if "ǁ" in mutant else f"{code}\n"


def _changed(lines: Sequence[str], sign: str) -> Iterator[str]:
    return (line[1:].strip() for line in lines if line.startswith(sign))


@contextmanager
def folder(path: Path) -> Iterator[None]:
    """Work in `path`, with the mutmut configuration in it."""
    before = Path.cwd()
    os.chdir(path)
    configuration.reset_config()
    try:
        yield
    finally:
        os.chdir(before)
        configuration.reset_config()


def mutants_of(module: str, root: Path) -> Mutants:
    """Return every mutant of the module, a path below `root`; call it in a `folder`."""
    mutated = mutate_file_contents(module, (root / module).read_text(encoding="utf-8"))
    names = tuple(get_mutant_name(Path(module), name) for name in mutated.mutant_names)
    return Mutants(module=module, names=names, code=mutated.code, spans=mutated.line_span_by_function_name)


def name_of(module: str) -> str:
    """Return the name that the module is imported by."""
    return module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def sample(mutants: Mutants, size: int) -> list[str]:
    """Return `size` mutants drawn by SEED and the module's path; a larger sample contains a smaller one."""
    order = list(range(len(mutants.names)))
    random.Random(f"{SEED}:{mutants.module}").shuffle(order)
    return [mutants.names[number] for number in sorted(order[:size])]


def plurals(source: str) -> dict[str, set[str]]:
    """Return the lines that are nothing but the plural of an `ngettext`, by the name of their function.

    No test can kill a change of one: a catalogue finds its entry by the singular, every language has a
    catalogue, and `test_texts.py` compares the plurals of the English one with the sources.
    """
    lines = source.splitlines()
    found: dict[str, set[str]] = {}
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
        named = [each for each in calls if isinstance(each.func, ast.Attribute)]
        for call in [each for each in named if ast.unparse(each.func).endswith(".ngettext")]:
            line = lines[call.args[1].lineno - 1].strip()
            if line == f"{ast.get_source_segment(source, call.args[1])},":
                found.setdefault(function.name, set()).add(line)
    return found


def read_equivalent(file: Path) -> dict[Change, str]:
    """Return the reason of each listed mutant that no test can kill."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("equivalent", [])
    reasons = {
        Change(**{key: entry[key] for key in entry if key != "why"}): entry["why"] for entry in entries
    }
    if len(reasons) != len(entries):
        raise ValueError("a mutant is listed twice")
    return reasons
