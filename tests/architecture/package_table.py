"""The table of packages in docs/structure.md, from the source and from import-linter's contracts.

python tests/architecture/package_table.py            print it
python tests/architecture/package_table.py --write    put it into docs/structure.md
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "structure.md"
BEGIN, END = "<!-- packages: begin -->\n", "<!-- packages: end -->\n"
HEAD = "| layer | package, or modules | files | lines | what it is |\n|---|---|---|---|---|\n"
MODULES = "single modules"


def layers(container: str) -> list[list[str]]:
    """Return the modules and packages of each layer of `bot` or `sdjax_engine`, the lowest layer first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [contract] = [each for each in contracts if each.get("containers") == [container]]
    return [re.split(r"\s*[|:]\s*", layer) for layer in reversed(contract["layers"])]


def row(layer: str, names: list[str], files: list[Path], what: str) -> str:
    lines = sum(len(file.read_text().splitlines()) for file in files)
    label = ", ".join(f"`{name}`" for name in names)
    return f"| {layer} | {label} | {len(files)} | {lines:,} | {what} |\n"


def described(package: Path) -> str:
    """The first line of a package's docstring, without its last full stop."""
    found = re.match(r'"""(.+?)(\.?""" *$|\.?$)', (package / "__init__.py").read_text(), re.MULTILINE)
    return found[1] if found else "no docstring"


def rows(container: str) -> list[str]:
    """Return a row for each package and one for all single modules of a layer, the highest layer first."""
    made = []
    for layer, names in reversed(list(enumerate(layers(container), start=1))):
        folder = ROOT / container
        packages = sorted(name for name in names if (folder / name).is_dir())
        modules = sorted(name for name in names if (folder / f"{name}.py").exists())
        for name in packages:
            files = sorted((folder / name).rglob("*.py"))
            made.append(row(str(layer), [f"{container}.{name}"], files, described(folder / name)))
        if modules:
            made.append(row(str(layer), modules, [folder / f"{name}.py" for name in modules], MODULES))
    return made


def table() -> str:
    """The whole table, as Markdown."""
    return HEAD + "".join(rows("bot") + rows("sdjax_engine"))


def written(page: str) -> str:
    """Return the table between the two marks of a page."""
    return page.partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    if "--write" in sys.argv:
        text = PAGE.read_text()
        PAGE.write_text(text.replace(BEGIN + written(text) + END, BEGIN + table() + END))
    else:
        print(table(), end="")
