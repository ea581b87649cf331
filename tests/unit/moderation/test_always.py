"""The rule that is always on."""

import itertools
import tomllib

import pytest
from moderation_lists import FOLDER

from bot.moderation import hard_rule, read
from bot.moderation.tables import read_lists

BROKEN = [
    "nude 15 year old",
    "naked 15-year-old girl",
    "15yo naked",
    "nude girl, 14 y/o",
    "topless, aged 16",
    "erotic, seventeen year old",
    "sexy schoolgirl",
    "lewd preteen",
    "naked toddlers",
    "nude children",
    "a n u d e child",
    "s3xy ch1ld",
    "ｌｏｌｉ nsfw",
    "teen titans hentai",
    "미성년자 누드",
    "15살 소녀의 나체",
    "열다섯 살 섹스",
    "중학생의 알몸",
    "미.성.년.자 ㄴㅜㄷㅡ",
    "未成年人裸体",
    "十五岁少女性感",
    "15岁 裸體",
    "未 成 年 色.情",
    "صورة عارية لطفلة",
    "قاصر عارية",
    "١٥ سنة عارية",
    "عمرها 12 وهي عارية",
    "naked schoolchildren",
    "prepubescent nudist",
    "누드 여자아이",
    "발가벗은 어린애",
    "全裸小女生",
    "صبية متعرية",
    "#nudekid",
    "nudelittlekid",
    "kidinthenude",
    "sexyasianschoolgirls",
    "NudeKids",
    "n u d e k i d",
    "nuuuudekiiid",
    "n.u.d.e.k.i.d",
    "nud3kid",
    "a nakedlittlegirl",
    "nude15yo",
    "15살누드",
    "누드아이들이",
    "섹시한소녀를",
    "الطفلالعاري",
]
KEPT = [
    "a child playing football",
    "teen titans poster",
    "nude beige lipstick, grown woman",
    "baby shower card",
    "sex education book cover",
    "sex education for teens, book cover",
    "nude lipstick for teens",
    "a naked mole rat and a child",
    "baby blue lingerie, grown woman",
    "nude woman, 25 years old",
    "a 50 year old nude man",
    "a 15 year old whisky, naked eye test",
    "children at a class in Essex",
    "rape flowers field with children",
    "grapes for kids",
    "어린이가 노는 공원",
    "스물다섯 살 여자 누드",
    "25살 여성 누드",
    "누드 톤 립스틱, 아이",
    "二十五岁 性感 女人",
    "25岁性感女人",
    "118岁 裸体 老人",
    "成年女性裸体素描",
    "طفل يلعب كرة القدم",
    "جنسية الطفل في جواز السفر",
    "امرأة عارية عمرها 35",
    "جماعات من الأطفال",
]


@pytest.mark.parametrize("text", BROKEN)
def test_sexual_content_with_minors_breaks_the_rule(text: str) -> None:
    assert hard_rule().matches(text)
    assert hard_rule().matches(read(text))


@pytest.mark.parametrize("text", KEPT)
def test_one_of_both_alone_or_in_a_harmless_phrase_keeps_the_rule(text: str) -> None:
    assert not hard_rule().matches(text)


@pytest.mark.parametrize("age", range(1, 18))
def test_every_age_of_a_minor_counts_in_every_language(age: int) -> None:
    for text in (f"{age} year old", f"{age}yo", f"{age}살", f"{age}岁", f"{age} سنة"):
        assert hard_rule().matches(f"nude {text}"), text


@pytest.mark.parametrize("age", [18, 19, 21, 35, 70, 115])
def test_no_age_of_a_grown_person_counts(age: int) -> None:
    for text in (f"{age} year old", f"{age}yo", f"{age}살", f"{age}岁", f"{age} سنة"):
        assert not hard_rule().matches(f"nude {text}"), text


def test_a_harmless_phrase_does_not_cover_another_use() -> None:
    assert hard_rule().matches("sex education, naked child")
    assert hard_rule().matches("baby blue, nude baby")


@pytest.mark.parametrize("language", ["en", "ko", "zh", "ar"])
def test_a_word_for_a_minor_and_a_sexual_one_written_together_break_the_rule(language: str) -> None:
    lists = read_lists("hard_rule.toml")
    minors, sexual = (
        [word for word in lists[kind][language] if word.isalpha()] for kind in ("minors", "sexual")
    )
    pairs = [
        one + other
        for ones, others in ((minors, sexual), (sexual, minors))
        for one, other in itertools.product(ones, others)
    ]
    kept = [pair for pair in pairs if not hard_rule().matches(pair)]
    assert len(kept) <= 0.05 * len(pairs), kept


@pytest.mark.parametrize("language", ["en", "ko", "ar"])
def test_harmless_words_and_compounds_keep_the_rule(language: str) -> None:
    words = tomllib.loads((FOLDER / "joined.toml").read_text(encoding="utf-8"))[language].split()
    broken = [word for word in words if hard_rule().matches(word)]
    assert len(broken) <= 0.01 * len(words), broken
