"""The table of packages in docs/structure.md against the source."""

from package_table import PAGE, table, written

REMEDY = "run: python tests/architecture/package_table.py --write"


def cells(markdown: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines()[2:]]


def near(said: str, counted: str) -> bool:
    """Whether a number in the page is within a quarter of the counted one, or within 3."""
    number, true = (int(text.replace(",", "")) for text in (said, counted))
    return abs(number - true) <= max(3, true / 4)


def test_the_table_names_every_package_on_its_layer() -> None:
    said, counted = cells(written(PAGE.read_text())), cells(table())
    assert len(counted) > 20
    assert [row[:2] for row in said] == [row[:2] for row in counted], REMEDY


def test_the_table_has_the_size_of_every_package() -> None:
    pairs = zip(cells(written(PAGE.read_text())), cells(table()), strict=True)
    wrong = [said[1] for said, counted in pairs if not all(map(near, said[2:4], counted[2:4]))]
    assert wrong == [], REMEDY


def test_every_package_says_what_it_is() -> None:
    assert [row[1] for row in cells(table()) if row[4] == "no docstring"] == []


def test_a_number_that_is_far_off_is_noticed() -> None:
    assert near("1,000", "1,100")
    assert not near("1,000", "1,500")
