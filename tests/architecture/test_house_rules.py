"""Rules about the source that no other tool checks: lengths, leftovers, imports."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 600
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


def long_functions() -> Iterator[str]:
    """The places of functions that break the rule."""
    for path in tracked("*.py"):
        for node in statements(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_long(node):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements and handlers of a file; the nodes within expressions, which are most, are left out."""
    yield tree
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(tree, field, ()):
            yield from statements(node)


def is_long(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return (function.end_lineno or 0) - function.lineno + 1 > LONGEST_FUNCTION


def test_no_source_file_is_longer_than_the_limit() -> None:
    files = tracked("*.py", "*.js", "*.css", "*.html")
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in files}
    assert len(lengths) > 30
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    assert [*long_functions()] == []


def test_the_installed_package_carries_every_file_of_its_source() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    files = [path for path in tracked("bot", "sdjax_engine") if path.suffix != ".py"]
    assert any(path.suffix == ".safetensors" for path in files)
    left_out = [path for path in files if not any(path.match(pattern) for pattern in patterns)]
    assert left_out == []


UNRELATED_TO_THE_SANDBOX = ("discord", "jax", "sqlalchemy", "bot.config", "bot.domain.jobs", "sdjax_engine")
UNRELATED: Sequence[Mapping[str, Sequence[str]]] = (
    {
        "sdjax_engine.images": ("jax", "flax"),  # and the request, which it imports
        "sdjax_engine": ("discord", "sqlalchemy", "aiohttp", "torch"),
        "sdjax_engine.engine": ("discord", "sqlalchemy", "torch"),
        "bot.app.worker": ("discord", "bot.sandbox"),
        "bot.app.both": ("bot.sandbox", "opentelemetry"),
    },
    {
        "bot.fleet.unit_process": ("bot.config", "sqlalchemy"),  # Ray imports it for each unit
        "bot.cli.main": ("jax", "discord", "sqlalchemy"),
        "bot.app.front": ("jax", "flax", "bot.sandbox", "opentelemetry"),
    },
    dict.fromkeys(("bot.sandbox.client", "bot.sandbox.server"), UNRELATED_TO_THE_SANDBOX),
)
"""What each module must not load.

One process imports the modules of a table in order, so a module that may load less stands before the others.
"""

IMPORTS = """
import importlib, json, sys
for module, unrelated in json.loads(sys.argv[1]).items():
    importlib.import_module(module)
    for name in unrelated:
        if name in sys.modules:
            print(module, "loads", name)
"""


@pytest.mark.parametrize("modules", UNRELATED, ids=" ".join)
def test_importing_a_package_does_not_load_unrelated_libraries(modules: Mapping[str, Sequence[str]]) -> None:
    """One process imports one module after the other."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, json.dumps(modules)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout == ""


def test_only_name_resolution_uses_the_event_loops_own_threads() -> None:
    users = [
        path.name
        for path in tracked("bot")
        if path.suffix == ".py"
        and ("asyncio.to_thread(" in (code := path.read_text()) or "run_in_executor(None" in code)
    ]
    assert users == []


def test_only_a_family_knows_the_names_of_its_networks() -> None:
    names = re.compile(
        r"[Uu][Nn]et|\bCLIP\b|time_ids|text_embeds|keys_values|penultimate|text_encoder_|\bVAE\b"
    )
    rooms = ("compiling", "denoising", "lane", "memory", "model", "scheduler", "startup", "weights")
    of_one = {
        "weights/controlnet.py",
        "weights/image_prompt.py",
        "weights/lora.py",
        "weights/lora_names.py",
    }  # names in files of one family
    found = {
        f"{path.relative_to(ROOT)}:{number}": line.strip()
        for room in rooms
        for path in (ROOT / "sdjax_engine" / room).glob("*.py")
        if f"{room}/{path.name}" not in of_one
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if names.search(line)
    }
    assert found == {}
