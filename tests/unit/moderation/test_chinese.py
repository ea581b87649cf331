"""Chinese terms: found anywhere in a clause, except within other common words."""

import pytest

from bot.moderation.chinese import MAX_EXPLAINED, found, read_clauses
from bot.moderation.tables import read_words


@pytest.mark.parametrize(
    ("text", "clauses", "others"),
    [
        ("", "", []),
        ("血,腥 图", "血\n腥图", []),
        ("血。、腥!", "血\n腥\n", []),
        (",血", "\n血", []),
        ("一张nude的图", "一张nude的图", []),
        ("a片, b", "a片\nb", []),
        ("x 月 y", "x月y", []),
        ("a.b 月", "a\tb月", []),
        ("1 - 2", "1\t2", []),
        (" a ", "a", []),
        ("é z", "éz", []),
        ("看3人 图", "看3人图", ["看人图"]),
        ("2 人 3个", "2人3个", ["人个"]),
        ("月 1", "月1", []),
        ("12a月", "12a月", []),
        ("红红的花", "红红的花", ["红的花"]),
        ("重重1月", "重重1月", ["重重月", "重月"]),
    ],
)
def test_clauses_are_read_without_numbers_and_repeated_characters_too(
    text: str, clauses: str, others: list[str]
) -> None:
    read = read_clauses(text)
    assert read.clauses == clauses
    assert read.versions == (clauses, *others)


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("看血腥图", "血腥", True),
        ("看血 腥图", "血腥", True),
        ("血1腥", "血腥", True),
        ("血血腥", "血腥", True),
        ("血腥1腥片", "血腥片", True),
        ("血腥", "血", True),
        ("花", "血", False),
        ("腥血", "血腥", False),
        ("血,腥", "血腥", True),
        ("血,腥图", "血腥", True),
        ("图血,腥", "血腥", True),
        ("月,血,腥图", "血腥", True),
        ("图血,腥,月", "血腥", True),
        ("图血,腥图", "血腥", False),
        ("血,月腥", "血腥", False),
        ("看a 片", "a片", True),
        ("nba片段", "a片", False),
        ("五岁", "五岁", True),
        ("十五岁", "五岁", False),
        ("18禁", "18禁", True),
        ("118禁", "18禁", False),
        ("禁18", "禁18", True),
        ("禁180", "禁18", False),
        ("小偷偷偷", "偷偷", True),
        ("水枪支持", "枪支", False),
        ("吸血鬼", "血鬼", False),
        ("热血", "血", True),
        ("屠格涅夫七色", "夫七", False),
        ("格涅夫七色", "夫七", True),
        ("水枪支", "枪支", True),
        ("枪支持", "枪支", True),
    ],
)
def test_a_term_is_found_in_a_clause_or_across_its_end(text: str, term: str, *, expected: bool) -> None:
    assert found(read_clauses(text), [term]) == ({term} if expected else set())


def test_a_match_that_common_words_explain_does_not_count_until_there_are_too_many() -> None:
    assert {"水枪", "支持"} <= read_words("chinese_words.txt")
    most = MAX_EXPLAINED // 2  # each match is looked at within its clause, and across ends of clauses
    assert found(read_clauses("水枪支持," * most), ["枪支"]) == set()
    assert found(read_clauses("水枪支持," * (most + 1)), ["枪支"]) == {"枪支"}
    most = MAX_EXPLAINED // 3  # and within the clauses without repeated characters
    assert found(read_clauses("花花," + "水枪支持," * most), ["枪支"]) == set()
    assert found(read_clauses("花花," + "水枪支持," * (most + 1)), ["枪支"]) == {"枪支"}


def test_numbers_within_a_term_count_as_one_match_of_those_that_are_looked_at() -> None:
    assert found(read_clauses("水枪1支持," * MAX_EXPLAINED), ["枪支"]) == set()
    assert found(read_clauses("水枪1支持," * (MAX_EXPLAINED + 1)), ["枪支"]) == {"枪支"}


def test_a_numeral_within_longer_ones_is_not_found_however_many_there_are() -> None:
    assert found(read_clauses("十五岁," * (MAX_EXPLAINED + 10)), ["五"]) == set()
