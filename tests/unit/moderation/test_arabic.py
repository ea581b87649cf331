"""Arabic words: letters, clitics before a word, endings and pronouns after it."""

import pytest

from bot.moderation import arabic

PRONOUNS = ["ه", "ها", "هم", "هن", "هما", "ك", "كم", "كن", "نا"]
ENDINGS = ["ا", "ات", "ين", "ون", "ان", "وا"]
AFTER_TEH = [*PRONOUNS, "ين", "ان"]


def forms(stem: str, endings: list[str]) -> set[str]:
    return {stem + ending for ending in endings}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("يد", {"يد", "يدي"} | forms("يد", PRONOUNS + ENDINGS)),
        ("سكس", {"سكس", "سكست"} | forms("سكس", PRONOUNS + ENDINGS)),
        ("دمي", {"دمي", "دمى", "دميت"} | forms("دمي", PRONOUNS + ENDINGS)),
        ("حربي", forms("حرب", ["ي", "ى", "ية", "يه"]) | forms("حربي", [*PRONOUNS, *ENDINGS, "ت"])),
        ("حربى", forms("حرب", ["ي", "ى", "ية", "يه"]) | forms("حربى", [*PRONOUNS, *ENDINGS, "ت"])),
        ("سلاح", {"سلاح", "سلاحت"} | forms("سلاح", PRONOUNS + ENDINGS)),
        ("قنابل", forms("قنابل", ["", "ت", "ي", "ية", "يه", *PRONOUNS, *ENDINGS])),
        ("انتحار", forms("انتحار", ["", "ت", "ي", "ية", "يه", *PRONOUNS, *ENDINGS])),
        ("جثة", forms("جث", ["ة", "ه", "ات"]) | forms("جثت", AFTER_TEH) | forms("جثات", PRONOUNS)),
        (
            "وجه",
            forms("وج", ["ة", "ه", "ات"])
            | forms("وجت", AFTER_TEH)
            | forms("وجات", PRONOUNS)
            | forms("وجه", PRONOUNS),
        ),
        ("فه", {"فه", "فهي"} | forms("فه", PRONOUNS + ENDINGS)),
    ],
)
def test_a_word_has_these_forms(word: str, expected: set[str]) -> None:
    assert arabic.inflect(word) == expected


def test_clitics_are_kept_by_their_length() -> None:
    assert [sorted(clitics) for clitics in arabic.prefixes()] == [
        sorted(["و", "ف", "ب", "ل", "ك"]),
        sorted(["وب", "ول", "وك", "فب", "فل", "فك", "ال", "لل"]),
        sorted(["وال", "فال", "بال", "كال", "لال", "ولل", "فلل"]),
        sorted(["وبال", "وكال", "ولال", "فبال", "فكال", "فلال"]),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("a", False), ("é별", False), ("a د", True), ("\u0620", True), ("\u06ff", True)],
)
def test_arabic_letters_are_found(text: str, *, expected: bool) -> None:
    assert arabic.has_letters(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("دمى", "دمى"), ("دمىة", "دمية"), ("ىىد ى", "ييد ى"), ("دم", "دم"), ("ى.ى", "ى.ى")],
)
def test_yeh_without_dots_stays_at_the_end_of_words(text: str, expected: str) -> None:
    assert arabic.normalise(text) == expected


def test_words_after_a_line_break_may_begin_with_a_clitic() -> None:
    assert arabic.with_clitics("\nوبالدم\nدم\nقنبلة\nلدم") == ["وبالدم", "لدم"]
    assert arabic.with_clitics("وبالدم") == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [("بحر", True), ("البحر", True), ("والبحر", True), ("بالبحر", True), ("للبحر", True), ("بدم", False)],
)
def test_a_common_word_only_looks_as_if_it_began_with_a_clitic(word: str, *, expected: bool) -> None:
    assert arabic.is_whole(word) is expected
