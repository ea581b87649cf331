"""Rules about the pages in docs/: their length, and that every link leads somewhere."""

import inspect
import itertools
import re
import subprocess
from pathlib import Path

import pytest
from yarl import URL

from bot.doctor.discord_side import IN_THREADS, PERMISSIONS
from bot.front.uploads.attachments import CDN, PROXIES

ROOT = Path(__file__).parents[2]
LONGEST_PAGE = 150
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COPYING = re.compile(r"\.venv/bin/[^`\n]*\binstall '?\.(?=[\[\s'`])")
HOST = re.compile(r"`([\w.-]+\.(?:com|net))`")
TEST = re.compile(r"`(tests/[\w/]+\.py)`")
PAGE = re.compile(r"(?<![\w./-])docs/[\w./-]*\w")
CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
SIBLING = re.compile(r"^(?:README|guide)[\w.-]*\.md$")  # the same page in another language
HEADING = re.compile(r"^#+ ", re.MULTILINE)
COUNTED = re.compile(r"^ *(#+ |\||\d\. |- )", re.MULTILINE)  # headings, rows of tables, items of lists


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def pages() -> list[Path]:
    return tracked("*.md")


def named_pages(file: Path) -> set[str]:
    """The paths in docs/ that a file of text names."""
    try:
        return set(PAGE.findall(file.read_text()))
    except UnicodeDecodeError:  # a picture, for instance
        return set()


def links(text: str) -> list[str]:
    """The targets of a page's links, outside its blocks of code."""
    return LINK.findall(CODE.sub("", text))


def anchors(text: str) -> set[str]:
    """The names under which GitHub links to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """The links of a page to files or headings that do not exist."""
    found = []
    for target in links(page.read_text()):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            found.append(target)
    return found


def test_no_page_of_the_docs_is_longer_than_the_limit() -> None:
    lengths = {
        str(page.relative_to(ROOT)): len(page.read_text().splitlines())
        for page in pages()
        if page.is_relative_to(ROOT / "docs")
    }
    assert len(lengths) > 5
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_PAGE} == {}


def test_every_link_leads_somewhere() -> None:
    assert [(str(page.relative_to(ROOT)), target) for page in pages() for target in broken(page)] == []


def test_every_test_that_a_page_names_is_there() -> None:
    named = [(page.name, test) for page in pages() for test in TEST.findall(page.read_text())]
    assert named
    assert [(page, test) for page, test in named if not (ROOT / test).exists()] == []


def test_every_page_that_any_file_names_is_there() -> None:
    named = {(str(file.relative_to(ROOT)), page) for file in tracked("*") for page in named_pages(file)}
    assert len(named) > 20
    assert sorted((file, page) for file, page in named if not (ROOT / page).exists()) == []


def test_no_page_replaces_the_clone_in_its_environment_by_a_copy() -> None:
    """`make install` installs the clone itself; a copy would stay as it is after `git pull`."""
    assert COPYING.search("`.venv/bin/pip install '.[cuda]'`")
    assert COPYING.search(".venv/bin/python -m pip install .\n")
    assert [page.name for page in pages() if COPYING.search(page.read_text())] == []


@pytest.mark.parametrize("page", ["operators/install.md", "operators/limits.md"])
def test_a_page_names_every_host_that_files_are_fetched_from(page: str) -> None:
    named = set(HOST.findall((ROOT / "docs" / page).read_text()))
    assert named == {URL(address).host for address in (*CDN, *PROXIES)}


def test_a_page_names_every_permission_that_the_doctor_asks_for() -> None:
    page = " ".join((ROOT / "docs/operators/install.md").read_text().casefold().split())
    assert [name for name in (*PERMISSIONS, IN_THREADS) if name.replace("_", " ") not in page] == []


@pytest.mark.parametrize("page", ["README.md", "docs/internals/guide.md"])
@pytest.mark.parametrize("language", ["ko", "zh-CN", "ar"])
def test_a_translation_has_the_sections_commands_and_links_of_the_english_page(
    page: str, language: str
) -> None:
    english = parts((ROOT / page).read_text())
    translated = parts(
        (ROOT / page).with_suffix(f".{language}.md").read_text().replace(f"guide.{language}.md", "guide.md")
    )
    assert translated == english


def parts(text: str) -> list[tuple[list[str], list[str], list[str]]]:
    """What the translations of a page share in each section: commands, links, and the shape of its lists."""
    return [
        (
            [inspect.cleandoc(each) for each in CODE.findall(section)],
            sorted(each for each in links(section) if not SIBLING.search(each)),
            [each.strip() for each in COUNTED.findall(CODE.sub("", section))],
        )
        for section in sections(text)
    ]


def sections(text: str) -> list[str]:
    """A page, cut before each heading."""
    starts = [match.start() for match in HEADING.finditer(text)]
    return [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]
