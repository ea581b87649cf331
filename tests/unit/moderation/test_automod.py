"""Discord's AutoMod rules on prompts: the strategies of its documents, allow lists, exemptions, patterns."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.moderation.automod import PATTERNS_SECONDS, READING_SECONDS, Ignored, judged, normal, read_rules
from bot.moderation.rust_patterns import NotAlike, compiled, cost_of, translated

RULE: dict[str, Any] = {
    "id": "1",
    "guild_id": "2",
    "creator_id": "3",
    "name": "Words",
    "event_type": 1,
    "trigger_type": 1,
    "actions": [{"type": 1, "metadata": {}}],
    "enabled": True,
    "exempt_roles": [],
    "exempt_channels": [],
    "trigger_metadata": {"keyword_filter": [], "regex_patterns": [], "allow_list": []},
}
DOCUMENTED = {  # keyword: what Discord's documents say that it matches
    "cat*": ("catch", "Catapult", "CAttLE"),
    "tra*": ("train", "trade", "TRAditional"),
    "the mat*": ("the matrix",),
    "*cat": ("wildcat", "copyCat"),
    "*tra": ("extra", "ultra", "orchesTRA"),
    "*the mat": ("breathe mat",),
    "*cat*": ("location", "eduCation"),
    "*the mat*": ("breathe matter",),
    "cat": ("cat", "CAT", "a cat, asleep", "(cat)"),
    "train": ("train",),
    "the mat": ("the mat", "on the  mat"),
    "i like c++": ("I like C++",),
    "고양이": ("고양이", "작은 고양이!"),
    "*고양이*": ("고양이를 그려",),
    "قطة": ("قطة صغيرة",),
}
ELSEWHERE = {
    "cat*": ("wildcat", "education"),
    "*cat": ("catch", "education"),
    "cat": ("catch", "wildcat", "cat_tree", "cats", "ca t", "c.a.t"),
    "the mat": ("breathe mat", "the matter"),
    "고양이": ("고양이를 그려",),
    "*": ("anything",),
    "**": ("anything",),
}


def rule(**facts: Any) -> dict[str, Any]:
    words = {"keyword_filter": [], "regex_patterns": [], "allow_list": []}
    given = {name: facts.pop(name) for name in list(facts) if name in words}
    return {**RULE, **facts, "trigger_metadata": {**words, **given}}


def refuses(text: str, *, roles: tuple[int, ...] = (), places: tuple[int, ...] = (), **facts: Any) -> bool:
    return judged([text], read_rules([rule(**facts)]), roles=roles, places=places) is not None


@pytest.mark.parametrize("keyword", DOCUMENTED)
def test_a_keyword_matches_as_discords_documents_say(keyword: str) -> None:
    for text in DOCUMENTED[keyword]:
        assert refuses(text, keyword_filter=["zebra", keyword]), text


@pytest.mark.parametrize("keyword", ELSEWHERE)
def test_a_keyword_matches_nothing_else(keyword: str) -> None:
    for text in ELSEWHERE[keyword]:
        assert not refuses(text, keyword_filter=["zebra", keyword]), text


def test_an_allowed_phrase_does_not_count_and_excuses_nothing_else() -> None:
    words = {"keyword_filter": ["*blood*"], "allow_list": ["blood orange", "bloodhound*"]}
    assert not refuses("a Blood Orange, two bloodhounds", **words)
    assert refuses("a blood orange in blood", **words)
    assert refuses("bloodoranges", **words)


def test_exempt_roles_and_channels_are_let_in() -> None:
    words = {"keyword_filter": ["cat"], "exempt_roles": ["7"], "exempt_channels": ["8"]}
    assert refuses("cat", roles=(1,), places=(2,), **words)
    assert not refuses("cat", roles=(1, 7), **words)
    assert not refuses("cat", places=(9, 8), **words)


def test_the_verdict_names_the_rule_and_what_it_found() -> None:
    verdict = judged(["a fine wildCat."], read_rules([rule(keyword_filter=["*cat"])]), roles=(), places=())
    assert verdict is not None
    assert (verdict.rule.name, verdict.found) == ("Words", "Cat.")


def test_rules_that_are_off_or_not_about_words_do_not_hold_and_say_why() -> None:
    words = {"keyword_filter": ["cat"], "allow_list": [], "regex_patterns": []}
    preset = {**RULE, "trigger_type": 4, "trigger_metadata": {"presets": [1], "allow_list": []}}
    rules = read_rules(
        [
            rule(enabled=False, **words),
            preset,
            {**RULE, "trigger_type": 5, "trigger_metadata": {"mention_total_limit": 3}},
            {**RULE, "trigger_type": 3, "trigger_metadata": {}},
            rule(trigger_type=6, event_type=2, **words),
            rule(actions=[{"type": 2, "metadata": {"channel_id": "1"}}], **words),
            None,
        ]
    )
    why = [each.ignored for each in rules]
    assert why == [Ignored.PRESET, *[Ignored.NOT_WORDS] * 3, Ignored.NOT_BLOCKING]
    assert judged(["cat"], rules, roles=(), places=()) is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(b|c)at", "a Bat"),
        (r"^(?:[0-9]{1,3}\.){3}[0-9]{1,3}$", "10.0.0.1"),
        (r"\bcats?\b", "two cats"),
        (r"\w+버섯", "독버섯"),
        (r"[\w-]+@[\w.]+", "사람@집.한국"),
        (r"\d{4}", "٢٠٢٦"),
        (r"[[:alpha:]]+zz", "abzz"),
        (r"\p{Greek}+", "λόγος"),
        (r"(?P<x>dis)cord\.gg/\S+", "discord.gg/abc"),
        (r"[]x]y", "]y"),
        (r"a\W+b", "a . b"),
    ],
)
def test_a_pattern_of_rust_is_searched_for(pattern: str, text: str) -> None:
    assert refuses(text, regex_patterns=[pattern])
    assert not refuses("nothing of this", regex_patterns=[pattern])


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=x)",
        r"(a)\1",
        r"\b버섯",
        r"[a-z&&[^b]]",
        r"[a-z--b]",
        r"[\W]x",
        r"(?x) a b",
        r"\b{start}x",
        r"\Qx\E",
        "(",
        "(?:a{9}){2000}",
    ],
)
def test_a_pattern_that_re2_would_read_otherwise_is_named_and_does_not_hold(pattern: str) -> None:
    [read] = read_rules([rule(regex_patterns=[pattern, "dog"])])
    assert read.unread == (pattern,)
    assert read.patterns == ("dog",)
    with pytest.raises(NotAlike):
        compiled(pattern)


ORDINARY = (
    r"\w*kitty\w*",
    r"[\w.]{2,32}#\d{4}",
    r"(?:https?://)?[\w-]+(?:\.[\w-]+)+/\S*",
    r"n[i1!l|]+[gq69]{2,}[e3a@4]+r*",
    r"(?:kill|hurt)\s+(?:your|my)self",
    r"[\x{0300}-\x{036f}]{5,}",
)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:ab?){0,999}" * 18 + "1",
        "Zq9" + "(?:xy?){0,999}" * 15 + "1",
        r"(?:\x{3b1}\x{3b2}?){0,500}" * 9 + "1",
        "(?:a{0,30}){0,30}" * 14 + "z",
        "([^z]{0,30}){0,30}" * 8 + "z",
    ],
)
def test_a_pattern_that_takes_too_long_is_named_and_does_not_hold(pattern: str) -> None:
    [read] = read_rules([rule(regex_patterns=[pattern, *ORDINARY])])
    assert read.patterns == ORDINARY
    assert pattern in (*read.slow, *read.unread)


def test_the_patterns_of_a_server_fit_into_one_time_together() -> None:
    costs = {"a": 0.5, "b": 0.75, "c": 0.25, "d": 0.25, "e": 0.0}

    def cost_of(pattern: str, *, limit: float) -> float:
        assert limit <= PATTERNS_SECONDS
        return costs[pattern] * PATTERNS_SECONDS

    one, two = read_rules([rule(regex_patterns=["a", "b"]), rule(regex_patterns=[*"cde"])], cost_of=cost_of)
    assert (one.patterns, one.slow) == (("a",), ("b",))
    assert (two.patterns, two.slow) == (("c", "d", "e"), ())


def test_a_pattern_over_the_limit_is_measured_no_further() -> None:
    asked = count()
    assert cost_of("abc", limit=1.0, clock=asked.__next__) > 1.0
    assert next(asked) == 4  # two searches in the first text


def test_patterns_are_left_out_once_reading_them_has_taken_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.moderation.automod.thread_time", count(step=READING_SECONDS / 5).__next__)
    [read] = read_rules([rule(regex_patterns=[*"abcdef"])], cost_of=nothing)
    assert (read.patterns, read.slow) == (("a", "b", "c"), ("d", "e", "f"))


def nothing(_pattern: str, **_limit: float) -> float:
    return 0.0


def test_the_allow_list_holds_for_patterns_too() -> None:
    assert not refuses("a bat cave", regex_patterns=["bat"], allow_list=["bat cave"])


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5), st.text(max_size=30))
def test_any_text_and_any_words_have_a_verdict(text: str, words: list[str], pattern: str) -> None:
    given = rule(keyword_filter=words, allow_list=words[:2], regex_patterns=[pattern])
    judged([text], read_rules([given], cost_of=nothing), roles=(), places=())


@given(st.text(alphabet=r"\wdsWDSbB[]^-&ab(){}?+*|.:1,", max_size=25))
def test_what_re2_takes_after_translation_never_raises_in_a_search(pattern: str) -> None:
    try:
        found = compiled(pattern)
    except NotAlike:
        return
    found.search("ab 가 1-^ ]")


@pytest.mark.parametrize("pattern", ["a|b", "(?:x{2,3})+?", "[^a-c]$", "^.*$", r"\.\*\x41", "[]a]", "[^]a]"])
def test_a_pattern_that_means_the_same_is_handed_on_as_it_is(pattern: str) -> None:
    assert translated(pattern) == pattern


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=50))
def test_a_normal_text_can_be_encoded(text: str) -> None:
    assert normal(text).encode() == normal(normal(text)).encode()
