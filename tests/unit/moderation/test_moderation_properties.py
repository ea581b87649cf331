"""Properties of the search for any text and any list."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bot.moderation import Terms, find_all, hard_rule, matches, read
from bot.moderation.letters import skeleton, squeeze, words_of

TERMS = ("blood", "nude", "weapon", "섹스", "살인", "血腥", "暴力", "قتل", "مخدرات", "dead body")
WORDS = st.sampled_from(TERMS)
INVISIBLE = st.sampled_from("\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\ufe0f\u0336\u0301\u3164")
SURROUNDING = st.sampled_from(["", "a ", "red, ", "(", "그 ", "的，", "في "])
AFTER = st.sampled_from(["", ".", ", oil painting", " 그림", "，", " هنا", ")"])


@given(st.text(max_size=200), st.lists(st.text(max_size=12), max_size=8))
def test_no_text_and_no_list_raises(text: str, terms: list[str]) -> None:
    found = find_all(text, terms)
    assert matches(text, terms) == bool(found)
    hard_rule().matches(text)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=100))
def test_lone_surrogates_and_unassigned_characters_do_not_raise(text: str) -> None:
    read(text)
    find_all(text, TERMS)


@given(WORDS, st.data())
def test_invisible_characters_hide_no_term(term: str, data: st.DataObject) -> None:
    hidden = "".join(letter + data.draw(st.one_of(st.just(""), INVISIBLE)) for letter in term)
    text = data.draw(SURROUNDING) + hidden + data.draw(AFTER)
    assert term in find_all(text, TERMS), text


@given(st.sampled_from([term for term in TERMS if term.isascii()]), st.data())
def test_case_hides_no_term(term: str, data: st.DataObject) -> None:
    changed = "".join(letter.upper() if data.draw(st.booleans()) else letter for letter in term)
    assert matches(changed, [term]), changed


@given(st.sampled_from([term for term in TERMS if term.isalpha()]), st.data())
def test_stretching_hides_no_term(term: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(term) - 1))
    times = data.draw(st.integers(3, 40))
    assert matches(term[:place] + term[place] * times + term[place + 1 :], [term])


@given(WORDS.filter(str.isalpha), st.sampled_from([".", "*", "-", "_", "~", "|", "·", "🔥", "**", "..", "'"]))
def test_a_sign_between_all_letters_hides_no_term(term: str, sign: str) -> None:
    assert matches(sign.join(term), [term]), sign.join(term)


@given(
    st.text(alphabet="血㐀\U0002ebe1\U0002ebf0\U00031350\U0003ffff", min_size=2, max_size=4),
    st.sampled_from("，:·"),
)
def test_chinese_characters_that_unicode_has_late_or_not_yet_are_terms_as_others(
    term: str, sign: str
) -> None:
    apart = sign.join(term)
    assert all(matches(text, [own]) for text in (term, apart) for own in (term, apart))
    assert not matches("一只猫", [apart])


@given(WORDS.filter(str.isalpha), st.integers(1, 3))
def test_spaces_between_all_letters_hide_no_term(term: str, width: int) -> None:
    assert matches((" " * width).join(term), [term])


@given(st.text(alphabet="cfghjkqvwyz ,.-*\n", max_size=300))
def test_a_text_without_the_letters_of_any_term_holds_none(text: str) -> None:
    assert find_all(text, ["blood", "nude", "섹스", "血腥", "قتل"]) == []


@given(st.lists(WORDS, min_size=1, max_size=6), st.data())
def test_a_term_is_found_among_others_as_alone(words: list[str], data: st.DataObject) -> None:
    text = ", ".join(words)
    together = Terms(TERMS)
    assert together.find_all(text) == [term for term in TERMS if matches(text, [term])]
    assert set(words) <= set(together.find_all(text))


def test_every_character_has_the_same_letters_alone_and_among_others() -> None:
    every = [chr(code) for code in range(0x80, 0x20000) if not 0xD800 <= code < 0xE000]
    assert skeleton("\n".join(every)).split("\n") == list(map(skeleton, every))


@given(st.text(max_size=200))
def test_words_of_ascii_are_those_of_any_text(text: str) -> None:
    ascii_text = text.encode("ascii", "ignore").decode().lower()
    for digits in (False, True):
        expected = [*words_of(ascii_text, digits=digits), "ω"]
        assert words_of(f"{ascii_text} ω", digits=digits) == expected


@given(st.text(alphabet="ab가", min_size=150, max_size=300))
def test_long_texts_are_squeezed_as_short_ones(text: str) -> None:
    assert squeeze(text) == "".join(letter for letter, _ in itertools.groupby(text))
