"""Words with signs or digits within: without them, and with them as letters."""

import pytest

from bot.moderation.mending import (
    LONGEST_PIECE,
    all_words_in_shapes,
    as_letters,
    as_letters_with_l,
    mended_words,
    without_listing,
    without_signs,
    words_in_shapes,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n.u_d-e 3x", "nude x"),
        ("a\nb", "a\nb"),
        ("별.별_3 é!  x", "별별 é x"),
    ],
)
def test_signs_and_digits_are_left_out(text: str, expected: str) -> None:
    assert without_signs(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b;c:d(e)f[g]h{i}j<k>l"m/n\\o', "a b c d e f g h i j k l m n o"),
        ("a,(b", "a  b"),
        ("a.b-c", "a.b-c"),
        ("별,(별、月。人", "별 별 月 人"),
    ],
)
def test_commas_brackets_and_slashes_are_spaces(text: str, expected: str) -> None:
    assert without_listing(text) == expected


def test_digits_and_signs_have_the_shapes_of_letters() -> None:
    assert as_letters("0123456789@$!|+ x") == "oizeasgtbgasiit x"
    assert as_letters_with_l("0123456789@$!|+ x") == "olzeasgtbgasllt x"
    assert as_letters("nud€") == "nude"
    assert as_letters_with_l("nud€ 1") == "nude l"


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        ("", []),
        ("a nude star", []),
        ("n.u.d.e and nu-de", ["nude", "nude"]),
        ("tree,n.u.d.e,lake", ["nude", "treenudelake"]),
        ("n(u)de", ["nude"]),
        ("b,l,o,o,d", ["blood"]),
        ("b,l,o,o,d," + "x" * 22, ["blood" + "x" * 22]),
        ("b,l,o,o,d," + "x" * 23, []),
        ("15!", []),
        ("n." * (LONGEST_PIECE // 2), ["n" * (LONGEST_PIECE // 2)]),
        ("n." * (LONGEST_PIECE // 2) + "n", []),
        ("the star's ray", []),
        ("별.별", ["별별"]),
        ("별 15", []),
        ("د.م", ["دم"]),
        ("س1ح x", ["سح", "ساح"]),
        ("س1ح د0م", ["سح", "دم", "ساح", "دهم"]),
    ],
)
def test_words_with_signs_within_are_mended(lower: str, expected: list[str]) -> None:
    assert mended_words(lower) == expected


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        ("bl00d", ["blood"]),
        ("k1d", ["kid", "kld"]),
        ("k!d", ["kid", "kld"]),
        ("k|d", ["kid", "kld"]),
        ("k!11", ["kiii", "klll"]),
        ("k1|", ["kii", "kll"]),
        ("b,l,0,o,d k,1,d", ["blood", "kid"]),
        ("a55 bl00d", ["blood"]),
        ("a$$", ["ass"]),
        ("nude", []),
        ("b,l,0,o,d", ["blood"]),
        ("bl,00d", ["ood", "blood"]),
        ("bl||ood", []),
        ("nud€", ["nude"]),
        ("stop!!!", []),
        ("why?! now", []),
        ("n(u)d3" + "?" * 30, ["de", "nude"]),
        ("n(u)d3" + "!" * 30, ["de", "nude"]),
        ("nvwde", []),
    ],
)
def test_digits_and_signs_stand_for_letters_in_both_readings(lower: str, expected: list[str]) -> None:
    assert words_in_shapes(lower, frozenset({"a55"})) == expected


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        ("", []),
        ("a nud3, st4r", ["a", "nude", "star"]),
        ("(k1d) #x", ["kid", "x"]),
        ("별 nud€!", ["nude"]),
    ],
)
def test_all_words_are_read_in_order(lower: str, expected: list[str]) -> None:
    assert all_words_in_shapes(lower) == expected
