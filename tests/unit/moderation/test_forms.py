"""The forms of words: inflections, stretched letters, letters typed apart."""

from __future__ import annotations

import pytest

from bot.moderation import arabic, english, find_all
from bot.moderation.bounds import LONGEST_SENT, beginning_and_end, bound_of, bounded
from bot.moderation.chinese import read_clauses
from bot.moderation.hangul import words_with_stretched_vowels
from bot.moderation.mending import LONGEST_PIECE, mended_words
from bot.moderation.readings import read, spaced_syllables
from bot.moderation.scripts import is_hangul
from bot.moderation.stretching import is_stretched, is_stretched_end


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("ox", ""),
        ("cat", "cats catted catting"),
        ("fix", "fixes fixs"),
        ("toy", "toys"),
        ("gas", "gases gassed gassing"),
        ("man", "mans men manned manning"),
        ("stab", "stabs stabbed stabbing"),
        ("kill", "kills killed killing"),
        ("rape", "rapes raped raping"),
        ("show", "shows showed showing"),
        ("beat", "beats beated beating"),
        ("body", "bodys bodies bodied bodyed bodying"),
        ("boxes", "boxeses boxesed boxesing boxessed boxessing"),
        ("submit", "submits submited submiting submitted submitting"),
        ("fireman", "firemans firemen firemaned firemaning firemanned firemanning"),
    ],
)
def test_an_english_word_has_these_forms_beside_itself(word: str, forms: str) -> None:
    assert english.inflect(word) == {word, *forms.split()}


@pytest.mark.parametrize(
    ("word", "there", "not_there"),
    [
        ("دم", "دم دمه دمها دمي دما دمات", "دمت دمية"),
        ("ظبي", "ظبي ظبى ظبيه ظبيها ظبيين ظبيت", "ظبية ظي"),
        ("عاري", "عاري عارى عارية عاريه", "عاة"),
        ("دمى", "دمى دمي", "دي"),
        ("سلاح", "سلاح سلاحت سلاحهم", "سلاحي سلاحية"),
        ("مخدر", "مخدر مخدرات", "مخدرية"),
        ("حشيشي", "حشيشي حشيشى حشيشية", ""),
        ("قنبلة", "قنبلة قنبله قنبلات قنبلتها قنبلتين قنبلاتهم", "قنبلةه"),
        ("وجه", "وجة وجه وجات وجتك وجهها", "وجةها"),
    ],
)
def test_an_arabic_word_has_its_endings_and_pronouns(word: str, there: str, not_there: str) -> None:
    forms = arabic.inflect(word)
    assert set(there.split()) <= forms
    assert forms.isdisjoint(not_there.split())


def test_an_arabic_word_that_begins_as_with_a_clitic_is_whole_also_after_an_article() -> None:
    assert [arabic.is_whole(word) for word in ("بحر", "البحر", "والبحر", "بالدم")] == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("word", "form", "stretched"),
    [
        ("nude", "nude", True),
        ("nuudde", "nude", True),
        ("nuude", "nude", True),
        ("bloooood", "blood", True),
        ("blod", "blood", False),
        ("godddd", "good", False),
        ("good", "god", False),
        ("gooood", "god", True),
        ("a555", "a5", False),
        ("دددم", "دم", True),
        ("ددم", "دم", False),
        ("سلااح", "سلاح", True),
        ("سللاح", "سلاح", False),
    ],
)
def test_a_word_is_stretched_where_letters_are_repeated_and_none_is_missing(
    word: str, form: str, stretched: bool
) -> None:
    key = "".join(letter for letter, after in zip(form, f"{form[1:]} ", strict=True) if letter != after)
    assert is_stretched(word, form, key) is stretched


@pytest.mark.parametrize(
    ("word", "form", "stretched"),
    [("xnude", "nude", True), ("xnuuudee", "nude", True), ("xgod", "good", False), ("nud", "nude", False)],
)
def test_the_end_of_a_word_may_be_stretched(word: str, form: str, stretched: bool) -> None:
    assert is_stretched_end(word, form) is stretched


def test_stretched_vowels_of_syllables_are_left_out() -> None:
    assert words_with_stretched_vowels("누우우드 그림 소오리") == "누드\n소리"
    assert words_with_stretched_vowels("우유 아이") == ""


def test_syllables_that_stand_apart_have_a_line_with_the_word_after_them() -> None:
    assert spaced_syllables(["자", "살", "그림", "피아노", "섹", "스를"]) == " 자 살 그림 \n 섹 스를 \n"


@pytest.mark.parametrize(
    ("word", "hangul"),
    [
        ("k팝", True),
        ("팝k", False),
        ("총기", True),
        ("가", True),
        ("힣", True),
        ("\u1109", True),
        ("", False),
    ],
)
def test_a_particle_may_follow_a_word_whose_last_letter_is_hangul(word: str, hangul: bool) -> None:
    assert is_hangul(word) is hangul


def test_latin_words_beside_chinese_stay_apart_and_keep_their_digits() -> None:
    assert read_clauses("a b,片 c").clauses == "a\tb\n片c"
    assert read_clauses("血5腥 a5b").versions == ("血5腥a5b", "血腥a5b")
    assert find_all("看 a b中", ["ab中"]) == find_all("看a5b中", ["ab中"]) == []


def test_digits_are_no_arabic_letters_in_other_scripts() -> None:
    assert find_all("15살 그림", ["اه"]) == []


def test_a_piece_longer_than_any_word_is_not_mended() -> None:
    assert mended_words(f"n.u{'.' * (LONGEST_PIECE - 6)}d.e") == ["nude"]
    assert mended_words(f"n.u{'.' * LONGEST_PIECE}d.e") == []


def test_a_text_is_bounded_only_where_it_is_longer_than_a_person_can_send() -> None:
    assert bound_of("x" * LONGEST_SENT) is None
    assert bound_of("x" * (LONGEST_SENT + 1)) == 600


def test_bounded_pieces_stay_whole() -> None:
    pieces = [f"{number:03} x" for number in range(200)]
    kept = bounded(pieces, 100)
    assert (kept[0], kept[-1]) == ("000 x", "199 x")
    assert set(kept) < set(pieces)


def test_a_long_text_with_as_many_changes_as_prose_has_is_read_whole() -> None:
    prose = "b" * 2_000 + "a," * 500 + " "  # 500 signs, and 1,000 changes
    assert beginning_and_end(prose, 600) == prose
    assert beginning_and_end(f"{prose}b", 600) != prose


def test_in_the_middle_of_a_long_text_of_signs_single_letters_are_not_joined() -> None:
    noise = " ".join(f"q{number}w,x" for number in range(2_000))
    assert read(f"{noise} n u d e {noise}").runs == []
    assert read("n u d e").runs == ["nude"]
