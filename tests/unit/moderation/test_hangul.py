"""Hangul: jamo made into syllables, stretched vowels, particles."""

import pytest

from bot.moderation import hangul


@pytest.mark.parametrize(
    ("text", "others", "joined"),
    [
        ("ㅅㅔㄱㅅㅡ", " ", "섹스 세ᄀ스"),
        ("세ㄱ스", " ", "섹스 세ᄀ스"),
        ("섹스ㅋ", " ", "섹슼 섹스"),
        ("ㅈr살", " ", "자살 ᄌr살"),
        ("a 별 ㅅㅔㄱㅅㅡ 빛", "a 별   빛", "섹스 세ᄀ스"),
        ("ㅋㅋㅋ", " ", "ᄏᄏᄏ"),
        ("닭ㄱㅅ", " ", "닭ᄀᄉ 닭"),
        ("ㄷㅏㄹㄱ", " ", "닭 다"),
        ("ㅁㅓㅅㅣ", " ", "머시"),
        ("가ㅏㅏ", " ", "가"),
        ("아ㅣㅣ 별", "  별", "아"),
        ("고ㅏ", " ", "과 고"),
        ("ㄱㅜㅓㄴ", " ", "권 구"),
        ("ㅅㅡㅣ", " ", "싀 스"),
        ("ㅅㅐㄱ1 x", "  x", "새기 새1"),
        ("ㅇlㅁ", " ", "임 ᄋlᄆ"),
        ("lㅁ", "l ", "ᄆ"),
        ("ㅇra", " a", "아 ᄋr"),
        ("ㅅㅡ ㅅㅡ", "   ", "스"),
    ],
)
def test_words_with_jamo_become_syllables_in_both_readings(text: str, others: str, joined: str) -> None:
    assert hangul.part_jamo(text, text, None) == (others, joined.replace(" ", "\n"))


def test_jamo_with_signs_between_them_are_searched_for_in_the_near_text_only() -> None:
    apart = "ㅅ.ㅔ.ㄱ.ㅅ.ㅡ"
    assert hangul.part_jamo(apart, "", None)[1].split("\n") == ["ᄉ", "ᅦ", "ᄀ", "ᅳ"]
    assert hangul.part_jamo(apart, apart, None)[1].split("\n") == ["ᄉ", "ᅦ", "ᄀ", "ᅳ", "섹스", "세ᄀ스"]


def test_of_many_words_with_jamo_the_first_and_the_last_are_read() -> None:
    text = "ㅅㅔㄱㅅㅡ 별 ㅈㅏㅅㅏㄹ ㄷㅏㄹㄱ"
    assert hangul.part_jamo(text, "", 12) == ("  별    ", "섹스\n닭\n세ᄀ스\n다")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("별 a", False), ("\u1100", True), ("ㅋ", True), ("\uffa1", True), ("\ua960", True)],
)
def test_loose_jamo_are_found(text: str, *, expected: bool) -> None:
    assert hangul.has_loose_jamo(text) is expected


@pytest.mark.parametrize(("text", "expected"), [("", False), ("a", False), ("é月ㅋ", False), ("a별", True)])
def test_syllables_are_found(text: str, *, expected: bool) -> None:
    assert hangul.has_hangul(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("누드", ""),
        ("누우우드 별", "누드"),
        ("가아 나 스으크", "가\n스크"),
        ("세에엑스", "세엑스"),
        (
            "피이 개애 갸야 거어 겨여 게에 고오 교요 구우 규유 그으",
            "피\n개\n갸\n거\n겨\n게\n고\n교\n구\n규\n그",
        ),
        ("와아 강아 거아", ""),
    ],
)
def test_stretched_vowels_are_left_out(text: str, expected: str) -> None:
    assert hangul.words_with_stretched_vowels(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("꽃이 피는 봄", "꽃이   봄"),
        ("피는 꽃", "  꽃"),
        ("꽃이 피고", "꽃이  "),
        ("장미가 피며 x", "장미가   x"),
        ("피는 것", "피는 것"),
        ("피고", "피고"),
        ("이 피는가", "이 피는가"),
        ("별", "별"),
    ],
)
def test_forms_of_to_bloom_are_left_out(text: str, expected: str) -> None:
    assert hangul.without_blooming(text) == expected


@pytest.mark.parametrize(
    ("rest", "noun", "expected"),
    [
        ("", "피", True),
        ("는", "피", True),
        ("하는", "피", False),
        ("님", "피", False),
        ("", "시체", True),
        ("들이", "시체", True),
        ("에게는", "시체", True),
        ("님", "시체", True),
        ("씨", "시체", True),
        ("씨앗", "시체", False),
        ("가나", "시체", False),
        ("했던", "자살", True),
        ("적인", "자살", True),
    ],
)
def test_a_particle_or_a_verb_may_follow_a_noun(rest: str, noun: str, *, expected: bool) -> None:
    assert hangul.is_ending(rest, noun) is expected
