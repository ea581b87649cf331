"""The catalogues: every sentence of the code in every language, with the same fields."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po
from discord.app_commands import Command

import bot
from bot.config import Config
from bot.delivery import render, result
from bot.domain.errors import BotError, NotYours, StoreUnavailable, UnknownJob, UserMistake
from bot.front.features import commands, menus
from bot.texts.catalogue import LANGUAGES, Texts
from bot.texts.mistakes import MISTAKES
from sdjax_engine.errors import InvalidRequest
from sdjax_engine.request import SAMPLER_NAMES, ControlType, Sampler
from sdjax_engine.sampler_names import parse_sampler

OFFER = replace(
    Config().models[0].offer,
    loras=("ink",),
    sizes=((64, 64), (128, 128)),
    most_skipped=3,
    controlnets=("net",),
    control_types=tuple((kind, "net") for kind in ControlType),
    image_prompts=True,
    references=2,
)
ROOT = Path(bot.__file__).parent
SAID_IN_WORDS = {"ar": (0, 1, 2)}  # plural forms that stand for one number only
METHODS = [("**.py", "python"), ("page/templates/**.html", "jinja2")]
KEYWORDS = {"gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2), "locale_str": None}


def catalogue(language: str) -> Catalog:
    with (ROOT / "locales" / language / "LC_MESSAGES" / "bot.po").open("rb") as file:
        return read_po(file, locale=language)


def messages(language: str) -> list[Message]:
    return [message for message in catalogue(language) if message.id]


@pytest.fixture(scope="module")
def said() -> frozenset[str]:
    """The English form of every sentence."""
    return frozenset(said_by_the_code())


def said_by_the_code() -> Iterator[str]:
    """The English form of every sentence: written in a call, or in a table of sentences."""
    keys_of_tables = {*MISTAKES, *result.FAILURES, *render.TROUBLES}
    for _, _, found, _, _ in extract_from_dir(str(ROOT), METHODS, keywords=KEYWORDS, comment_tags=()):
        sentence = found[0] if isinstance(found, tuple) else found
        if sentence not in keys_of_tables:
            yield sentence
    for defined in commands([OFFER, OFFER]):
        yield defined.name
        for command in [defined] if isinstance(defined, Command) else defined.walk_commands():
            assert isinstance(command, Command)
            yield command.name
            yield from (parameter.name for parameter in command.parameters)
    yield from (menu.name for menu in menus([OFFER]))
    yield from MISTAKES.values()
    yield from result.FAILURES.values()
    yield from render.TROUBLES.values()
    yield from InvalidRequest.SENTENCES.values()


def places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


def forms(value: str | tuple[str, ...] | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_exactly_the_sentences_of_the_code(language: str, said: frozenset[str]) -> None:
    known = {forms(message.id)[0] for message in messages(language)}
    assert said - known == set(), "not in the catalogue"
    assert known - said == set(), "said nowhere"


def test_people_read_the_english_plural_that_the_code_has() -> None:
    written = {
        found
        for _, _, found, _, _ in extract_from_dir(str(ROOT), METHODS, keywords=KEYWORDS, comment_tags=())
    }
    for message in messages("en"):
        if message.pluralizable:
            assert message.string == message.id
            assert message.id in written, "the code has another plural"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_is_translated_with_the_same_fields(language: str) -> None:
    for message in messages(language):
        wanted = places(forms(message.id)[-1])
        for number, form in enumerate(forms(message.string)):
            assert form, f"{message.id} is not translated"
            in_words = message.pluralizable and number in SAID_IN_WORDS.get(language, ())
            filled = places(form) | {"count"} if in_words else places(form)
            assert filled == wanted, f"{form} fills other places than {message.id}"
            assert not (in_words and "({count})" in form), f"{form} says its number twice"
        assert not message.fuzzy


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sentence_has_all_plural_forms_of_the_language(language: str) -> None:
    translations = catalogue(language)
    plural = [message for message in translations if message.pluralizable]
    assert plural
    assert all(len(message.string) == translations.num_plurals for message in plural)


def test_what_is_counted_in_arabic_has_the_ending_of_its_number() -> None:
    texts, ending = Texts("ar"), "\N{ARABIC FATHATAN}\N{ARABIC LETTER ALEF}"
    counted = {count: texts.ngettext("{count} request", "{count} requests", count) for count in (30, 100)}
    assert [ending in said for said in counted.values()] == [True, False]
    for message in messages("ar"):
        if message.pluralizable and message.string[4] != message.string[5]:
            of_hundreds, of_eleven_to_99 = (form.count(ending) for form in message.string[4:])
            assert of_eleven_to_99 > of_hundreds, message.id


@pytest.mark.parametrize(("language", "script"), [("ko", "HANGUL"), ("zh", "CJK"), ("ar", "ARABIC")])
def test_translations_are_in_the_script_of_the_language(language: str, script: str) -> None:
    for message in messages(language):
        if language == "ar" and message.context == "name":
            continue  # Discord has no Arabic, so names there stay as they are
        for form in forms(message.string):
            assert any(unicodedata.name(letter, "").startswith(script) for letter in form), form


@pytest.mark.parametrize(
    ("locale", "language"),
    [("ko", "ko"), ("zh-CN", "zh"), ("zh-TW", "zh"), ("en-GB", "en"), ("ar", "ar"), ("fr", "en"), ("", "en")],
)
def test_a_locale_of_discord_finds_its_language(locale: str, language: str) -> None:
    assert Texts.for_locale(locale).language == language


@pytest.mark.parametrize(
    ("locale", "places_in_the_queue"),
    [
        ("en-US", ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd"]),
        ("ko", ["1번째", "2번째", "3번째", "4번째", "11번째", "12번째", "13번째", "21번째", "102번째"]),
        ("zh-CN", ["第1位", "第2位", "第3位", "第4位", "第11位", "第12位", "第13位", "第21位", "第102位"]),
    ],
)
def test_ordinals(locale: str, places_in_the_queue: list[str]) -> None:
    texts = Texts.for_locale(locale)
    assert [texts.ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102)] == places_in_the_queue


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "1 s"), (12.4, "12 s"), (43, "45 s"), (89, "90 s"), (90, "2 min"), (600, "10 min"), (7000, "2 h")],
)
def test_a_duration_is_rounded(seconds: float, said: str) -> None:
    assert Texts.for_locale("en-US").duration(seconds) == said


def test_a_count_takes_its_plural_form() -> None:
    english, arabic = Texts.for_locale("en"), Texts.for_locale("ar")
    assert [english.ngettext("{count} picture", "{count} pictures", n) for n in (0, 1, 2)] == [
        "0 pictures",
        "1 picture",
        "2 pictures",
    ]
    said = {arabic.ngettext("{count} picture", "{count} pictures", n).split()[-1] for n in (3, 11)}
    assert said == {"صور", "صورة"}


def test_values_in_arabic_sentences_keep_their_own_direction() -> None:
    said = Texts.for_locale("ar").gettext("seed {seed}", seed="7–10")
    assert said == "البذرة \N{FIRST STRONG ISOLATE}7–10\N{POP DIRECTIONAL ISOLATE}"


def test_braces_in_a_value_are_only_text() -> None:
    assert (
        Texts.for_locale("en").gettext("without: {negative}", negative="{seed} {0}") == "without: {seed} {0}"
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "error",
    [
        UnknownJob(),
        NotYours(),
        UserMistake("queue_full", limit=2000),
        UserMistake("queue_full_user", limit=50),
        UserMistake("a_mistake_of_a_later_version"),
        StoreUnavailable("disk full"),
    ],
)
def test_every_refusal_has_a_sentence_in_every_language(language: str, error: BotError) -> None:
    sentence = Texts.for_locale(language).mistake(error)
    assert sentence
    assert "{" not in sentence
    if isinstance(error, UserMistake) and "limit" in error.details:
        assert str(error.details["limit"]) in sentence


def test_an_invalid_request_has_a_sentence_in_the_persons_language() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_sampler("eular")
    assert Texts.for_locale("ko").mistake(caught.value).startswith("“eular”(이)라는 샘플러는 없습니다.")
    assert str(caught.value) == Texts.for_locale("en").mistake(caught.value)


def test_every_sampler_has_a_name_to_show() -> None:
    assert SAMPLER_NAMES.keys() == set(Sampler)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_has_its_name_in_the_language(language: str) -> None:
    texts = Texts.for_locale(language)
    for command in commands([OFFER, OFFER]):
        if (name := texts.gettext(command.name)) != command.name:
            for message in messages(language):
                assert f"/{command.name}" not in str(message.string), f"the command is /{name}"


@pytest.mark.parametrize(
    ("language", "term", "translation"),
    [
        ("ar", "almost identical", "[تي]كاد"),
        ("ko", "almost identical", "거의 같"),
        ("zh", "almost identical", "几乎相同"),
        ("ar", "standard pictures", "الصور القياسية"),
        ("ko", "standard pictures", "표준 그림"),
        ("zh", "standard pictures", "标准图片"),
        ("ar", "can have at most", "على الأكثر"),
        ("ko", "can have at most", "까지"),
        ("zh", "can have at most", "最多"),
    ],
)
def test_a_term_has_one_translation(language: str, term: str, translation: str) -> None:
    having = [message for message in messages(language) if term in forms(message.id)[0]]
    assert len(having) > 1
    for message in having:
        assert [said for said in forms(message.string) if not re.search(translation, said)] == [], message.id


def test_chinese_addresses_people_in_one_way() -> None:
    assert not [message.string for message in messages("zh") if "您" in str(message.string)]
