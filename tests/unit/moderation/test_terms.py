"""Uses of a term: spellings, boundaries, inflections, phrases."""

import pytest

from bot.moderation import BothOf, Terms, find, find_all, matches, read

CAUGHT = {
    "the word itself": ("a nude woman", "nude"),
    "case": ("NuDe", "nude"),
    "full-width letters": ("ｎｕｄｅ", "nude"),
    "letters of mathematics": ("𝓷𝓾𝓭𝓮", "nude"),
    "look-alikes of other scripts": ("ոսԁе", "nude"),
    "letters of flags": ("🇳🇺🇩🇪", "nude"),
    "white letters on black": ("🅝🅤🅓🅔", "nude"),
    "small capitals": ("ɴᴜᴅᴇ", "nude"),
    "bracketed letters": ("⒩⒰⒟⒠", "nude"),
    "marks": ("n̷u̷d̷e̷", "nude"),
    "accents": ("nüdé", "nude"),
    "zero-width characters": ("nu\u200bd\ufeffe", "nude"),
    "tags": ("n\U000e0061ude", "nude"),
    "spaces": ("n u d e", "nude"),
    "an article before spaced letters": ("a n u d e", "nude"),
    "a long spaced text": ("r e d b l o o d d r o p s", "blood"),
    "one letter apart": ("n ude", "nude"),
    "pieces": ("n u de", "nude"),
    "an article before pieces": ("a nu de", "nude"),
    "full stops": ("n.u.d.e", "nude"),
    "emphasis": ("n**ud**e", "nude"),
    "a spoiler": ("||nu||de", "nude"),
    "within weights": ("(n.u.d.e:1.3),tree", "nude"),
    "a list without spaces": ("tree,n.u.d.e,lake", "nude"),
    "underscores between words": ("nude_woman", "nude"),
    "digits for letters": ("nud3", "nude"),
    "1 as i": ("k1d", "kid"),
    "1 as l": ("ki11", "kill"),
    "signs for letters": ("@n@l", "anal"),
    "a sign at the end": ("boob$", "boobs"),
    "a capital I for l": ("kiII", "kill"),
    "a star for a vowel": ("p*rn", "porn"),
    "stretching": ("nuuuuude", "nude"),
    "stretching at the end": ("nudeeee", "nude"),
    "a plural": ("guns", "gun"),
    "a plural on es": ("bitches", "bitch"),
    "a plural on ies": ("dead bodies", "dead body"),
    "another plural": ("knives", "knife"),
    "-ing": ("a killing", "kill"),
    "-ed with a doubled letter": ("stabbed", "stab"),
    "a possessive": ("the nude's shadow", "nude"),
    "a phrase across lines": ("dead\n body", "dead body"),
    "a phrase without its space": ("deadbody", "dead body"),
    "a phrase whose words are hidden": ("d3ad b.o.d.y", "dead body"),
    "a phrase that is spaced out": ("d e a d  b o d y", "dead body"),
    "a term with a hyphen": ("self harm", "self-harm"),
    "a term in digits and signs": ("ass", "a$$"),
    "a masked term": ("f*ck", "f*ck"),
    "a Latin term before a Korean particle": ("nude를", "nude"),
    "a Latin term within Chinese": ("一张nude的图", "nude"),
    "a Korean term without its spaces": ("총기난사를", "총기 난사"),
    "jamo with spaces": ("ㅅ ㅔ ㄱ ㅅ ㅡ", "섹스"),
    "jamo with Latin vowels": ("ㅈr살", "자살"),
    "decomposed syllables": ("\u1109\u1166\u11a8\u1109\u1173", "섹스"),
    "laughter after a syllable": ("섹스ㅋㅋㅋ", "섹스"),
    "a stacked particle": ("시체에게는", "시체"),
    "a Korean verb": ("자살했던", "자살"),
    "two clitics": ("وبالدم", "دم"),
    "an article and a pronoun": ("وقنابلهم", "قنابل"),
    "a digit for alef": ("سل١ح", "سلاح"),
    "Chinese across a comma": ("血，腥", "血腥"),
    "Chinese that begins within a compound": ("小偷偷偷", "偷偷"),
    "a Chinese term with a Latin letter": ("看A 片", "A片"),
    "digits": ("chapter 69, page 1", "69"),
    "digits in Arabic": ("٦٩", "69"),
    "a single letter": ("model x", "x"),
    "signs": ("a fight 💉!", "💉"),
    "the beginning of a word": ("bloodstained", "blood*"),
    "the end of a word": ("lifeblood", "*blood"),
    "the middle of a word": ("unbloodied", "*blood*"),
    "a Korean term with a number": ("18금은 x", "18금"),
    "a term with a capital I": ("biood", "bIood"),
    "a term with a number and two scripts": ("19금 BJ방송 보기", "19금 BJ방송"),
    "a term with a middle dot": ("nude girl", "nude・girl"),
    "Chinese with repeated characters around a space": ("儿童 童色情", "儿童色情"),
    "a Chinese term with a space": ("血腥", "血 腥"),
    "a masked term without its sign": ("fck", "f*ck"),
    "a term of two scripts": ("b 가", "b가"),
    "a short phrase without its space": ("redox", "red ox"),
    "a word of half a run of letters": ("x b l o o d x y z w", "blood"),
    "syllables apart before others": ("시 체를 x 시 체가나", "시체"),
    "syllables apart among others": ("시 체가나 x 시 체를 x 시 체가나", "시체"),
}
PASSED = {
    "within a word": ("class of glass", "ass"),
    "within a name": ("Scunthorpe", "cunt"),
    "another word by one letter fewer": ("as he is", "ass"),
    "a doubled letter that makes another word": ("good God-less food", "goo"),
    "good for god": ("a good mood", "god"),
    "a contraction": ("he'll go", "hell"),
    "whore in who're": ("who're you", "whore"),
    "two whole words": ("the pen is red", "penis"),
    "a word spaced out around it": ("g r a p e", "rape"),
    "a model number": ("Samsung A55", "ass"),
    "a number": ("room 455", "ass"),
    "words of a phrase apart": ("a dead tree and a body", "dead body"),
    "words of a phrase the other way round": ("body dead", "dead body"),
    "a Korean word that begins so": ("피아노", "피"),
    "a Korean word that ends so": ("커피", "피"),
    "refuge": ("피란 시절", "피"),
    "a flower that blooms": ("꽃이 피는 정원", "피"),
    "two Korean words": ("자, 살며시", "자살"),
    "an Arabic word that begins so": ("دمية", "دم"),
    "an Arabic word that ends so": ("قدم", "دم"),
    "an Arabic word that begins with a clitic's letter": ("بحر", "حر"),
    "dolls, with alef at the end": ("دمى", "دم"),
    "two Chinese words": ("红色情人节", "色情"),
    "a Chinese clause's end": ("红色，情侣", "色情"),
    "a longer number": ("115岁", "15岁"),
    "a longer number in words": ("二十五岁", "五岁"),
    "a letter within a word": ("xylophone x-ray", "x"),
    "a number within a number": ("1690", "69"),
    "the beginning of another word": ("a cold bloodhound", "hound*"),
    "the beginning of a longer word": ("bloodstained", "*blood"),
    "syllables apart within another word": ("시 체가나", "시체"),
    "syllables apart within other words": ("시 체가나 x " * 70, "시체"),
    "a short word within a run of letters": ("x n u d e x y z w v", "nude"),
    "more than half of a run of letters": ("x k i l l e r x y z", "killer"),
    "a word of Hebrew with an Arabic ending": ("דםه", "דם"),
}


@pytest.mark.parametrize(("text", "term"), CAUGHT.values(), ids=CAUGHT.keys())
def test_a_term_is_found_behind(text: str, term: str) -> None:
    assert matches(f"{text}", [term])
    assert find_all(f"{text}, oil painting", ["zebra", term]) == [term]


@pytest.mark.parametrize(("text", "term"), PASSED.values(), ids=PASSED.keys())
def test_a_term_is_not_found_in(text: str, term: str) -> None:
    assert find_all(text, ["zebra", term]) == []


def test_the_first_term_of_the_list_is_named() -> None:
    assert find("blood and gore", ["gore", "blood"]) == "gore"
    assert find("a lake", ["gore", "blood"]) is None


def test_all_terms_are_named_in_the_order_of_the_list() -> None:
    assert find_all("b l o o d, g0re, 裸 體", ["裸体", "gore", "x", "blood"]) == ["裸体", "gore", "blood"]


def test_a_term_is_named_as_the_list_has_it() -> None:
    assert find("bl00d", ["  BLOOD "]) == "  BLOOD "


@pytest.mark.parametrize("terms", [[], [""], ["  ", "\u200b"]])
def test_an_empty_list_matches_nothing(terms: list[str]) -> None:
    assert not matches("anything at all", terms)
    assert not matches("", terms)


def test_readings_serve_many_lists() -> None:
    readings = read("a nud3 with a g u n")
    assert Terms(["nude"]).matches(readings)
    assert Terms(["lake", "gun"]).find(readings) == "gun"
    assert Terms(["lake"]).find_all(readings) == []


def test_both_lists_must_match() -> None:
    both = BothOf(["gun", "knife"], ["school"])
    assert both.matches("a gun in a school")
    assert not both.matches("a gun in a field")
    assert not both.matches("a pen in a school")


def test_both_are_found_where_they_are_hidden() -> None:
    assert BothOf(["nude"], ["kid"]).matches("nu.de kid")


def test_a_term_that_is_a_harmless_phrase_counts_for_no_list() -> None:
    assert not BothOf(["xx"], ["kid"], harmless=["xx"]).matches("xx kid")


def test_both_are_found_in_one_word_with_joints_between_them() -> None:
    both = BothOf(["gun"], ["school", "child"], joints=["in", "the"])
    for text in (
        "gunschool",
        "schoolguns",
        "guninschool",
        "guninthechildren",
        "g u n s c h o o l",
        "guuuunschool",
    ):
        assert both.matches(text), text
    for text in ("gunatschool", "gunin", "inschoolgun", "gunschoolteacher", "begunschool"):
        assert not both.matches(text), text
    assert not BothOf(["gun"], ["school"]).matches("guninschool")
    assert BothOf(["gun"], ["15yo"]).matches("gun15yo")
    assert not BothOf(["gun"], ["15yo"]).matches("gun115yo")


def test_a_word_of_very_many_letters_is_joined_only_where_few_are_left_without_repetitions() -> None:
    both = BothOf(["gun"], ["schol"])
    assert both.matches("gu" + "n" * 60 + "schol")
    assert not both.matches("gunschol" * 6)


def test_an_arabic_word_can_be_read_with_a_short_clitic_and_with_a_long_one() -> None:
    assert find_all("والدم", ["دم", "الدم"]) == ["دم", "الدم"]


def test_a_harmless_phrase_counts_for_neither_list() -> None:
    both = BothOf(["gun"], ["school"], harmless=["water gun"])
    assert not both.matches("a Water-Gun in a school")
    assert both.matches("a water gun and a gun in a school")


def test_many_compounds_of_a_chinese_term_do_not_hide_a_true_use() -> None:
    assert not matches("红色情人节，" * 20, ["色情"])
    assert matches("红色情人节，" * 20 + "色情", ["色情"])
