"""Rules about the source that no other tool checks: lengths, leftovers, imports."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 400
LONGEST_FUNCTION = 60


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_source_file_is_longer_than_the_limit() -> None:
    files = tracked("*.py", "*.js", "*.css", "*.html")
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in files}
    assert len(lengths) > 30
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_two_test_files_have_one_name() -> None:
    names = Counter(path.name for path in tracked("tests/**/test_*.py"))
    assert [name for name, count in names.items() if count > 1] == [], "pytest cannot collect both"


def test_no_function_is_longer_than_the_limit() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in tracked("*.py")
        for function in functions(ast.parse(path.read_text()))
        if (function.end_lineno or 0) - function.lineno + 1 > LONGEST_FUNCTION
    ]
    assert too_long == []


def test_no_broad_handler_swallows_an_error() -> None:
    swallowed = [
        f"{path.relative_to(ROOT)}:{handler.lineno}"
        for path in tracked("*.py")
        for handler in ast.walk(ast.parse(path.read_text()))
        if isinstance(handler, ast.ExceptHandler)
        and (handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"})
        and all(isinstance(statement, ast.Pass | ast.Continue) for statement in handler.body)
    ]
    assert swallowed == []


def test_the_installed_package_carries_every_file_of_its_source() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    files = [path for path in tracked("bot", "sdjax_engine") if path.suffix != ".py"]
    assert any(path.suffix == ".safetensors" for path in files)
    left_out = [path for path in files if not any(path.match(pattern) for pattern in patterns)]
    assert left_out == []


@pytest.mark.parametrize(
    ("module", "must_not_load"),
    [
        ("bot.app.front", ("jax", "flax", "bot.sandbox")),
        ("bot.app.worker", ("discord", "bot.sandbox")),
        ("bot.app.both", ("bot.sandbox",)),
        ("bot.cli", ("jax", "discord", "sqlalchemy")),
        ("bot.sandbox.server", ("discord", "jax", "sqlalchemy", "bot.config", "bot.jobs", "sdjax_engine")),
        ("bot.sandbox.client", ("discord", "jax", "sqlalchemy", "bot.config", "bot.jobs", "sdjax_engine")),
        ("sdjax_engine.images", ("jax", "flax")),  # and the request, which it imports
        ("sdjax_engine.engine", ("discord", "sqlalchemy", "torch")),
        ("sdjax_engine", ("discord", "sqlalchemy", "aiohttp", "torch")),
    ],
)
def test_importing_a_package_does_not_load_unrelated_libraries(
    module: str, must_not_load: tuple[str, ...]
) -> None:
    program = f"import sys, {module}; print([name for name in {must_not_load!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_only_name_resolution_uses_the_event_loops_own_threads() -> None:
    users = [
        path.name
        for path in tracked("bot")
        if path.suffix == ".py"
        and ("asyncio.to_thread(" in (code := path.read_text()) or "run_in_executor(None" in code)
    ]
    assert users == []
