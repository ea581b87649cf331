"""Skeletons of texts: letters in place of the characters that look like them."""

import pytest

from bot.moderation.bounds import bound_of
from bot.moderation.characters import skeleton


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("A star, 3!", "A star, 3!"),
        ("bIood", "bIood\nblood"),
        ("Illness IOU", "Illness IOU\nlllness"),
        ("IOU", "IOU"),
        ("bIood, x.Iy", "bIood, x.Iy\nblood ly"),
        ("１ bIg", "1 bIg\nblg"),
        ("ｎｕｄｅ", "nude"),
        ("𝓷é", "ne"),
        ("\U0001f150\U0001f169\U0001f170\U0001f189🇦🇿", "azazaz"),
        ("🆎🆑🆒🆖🆗🆚", "abclcoolngokvs"),
        ("nu\u200bd\u00ade", "nude"),
        ("a\ud800b", "ab"),
        ("\ud800é", "e"),
        ("ﷺ.", " ."),
        ("㎏ ㍿", "kg 株式会社"),
        ("ﬃⅷ½", "ffiviii1⁄2"),
        ("ﻛﻠﺐ", "كلب"),
        ("١٢", "12"),
        ("دمىة", "دمية"),
        ("ٴـx", "x"),
        ("漢語", "汉语"),
        ("\U0002f800", "丽"),
        ("\U00020001 x", "\U00020001 x"),
        ("\U000e0061x", "x"),
        ("\U000e0100é", "e"),
        ("\U00010400é", "\U00010400e"),
        ("누드", "누드\n\n"),
        ("누우드", "누우드\n\n누드"),
        ("ㅅㅔ a", "  a\n세\n"),
        ("누우ㅅ", " \n누웃\n누우\n누"),
        ("ㅔ1|ㅅb", " b\nᅦ1|ᄉ\n"),
        ("ㅇIa", " a\n이\nᄋI\n"),
        ("\U000e01efé", "e"),
        ("\U0010ffffé", "\U0010ffffe"),
        ("세ㄱ스 bIg", "  bIg\n섹스\n세ᄀ스\n\nblg"),
    ],
)
def test_a_character_becomes_the_letters_that_it_stands_for(text: str, expected: str) -> None:
    assert skeleton(text) == expected


def test_of_a_long_text_only_the_first_characters_become_several_letters() -> None:
    text = "㎏" * 3000
    most = bound_of(text)
    assert most is not None
    made = skeleton(text, most)
    assert made == "kg" * most + " " * (3000 - most)


RED = "red " * 3000


@pytest.mark.parametrize(("before", "others"), [("", ""), ("é ", ""), ("ㅅㅔ ", "세\n\n")])
def test_of_a_long_text_the_words_with_a_capital_i_at_its_beginning_and_end_are_read(
    before: str, others: str
) -> None:
    text = f"{before}bIood {RED}gIow {RED}cIay"
    made = skeleton(text, bound_of(text))
    assert made.endswith(f" bIood {RED}gIow {RED}cIay\n{others}blood clay"[not before :])


def test_of_many_words_with_jamo_the_first_and_the_last_are_read() -> None:
    text = " ".join("ㅋ" + chr(ord("가") + number) for number in range(1000))
    _, *words, last = skeleton(text, bound_of(text)).split("\n")
    assert words[:2] == ["ᄏ가", "ᄏ각"]
    assert words[-1] == "ᄏ" + chr(ord("가") + 999)
    assert (len(words), last) == (200, "")
