"""The pages for moderators in every language: restrictions, entries of the log, and the exported file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_review_pages import JOB

from bot.front.answers.answers import MAX_PAGE
from bot.front.commands.help import Steps, moderators_help
from bot.front.features import other_commands
from bot.front.moderators.audit import entry_lines, lines_of
from bot.front.moderators.moderate import restriction_lines
from bot.front.moderators.whose import Found
from bot.front.moderators.whose import lines_of as whose_lines
from bot.store.moderation.known import Match
from bot.store.rows.audit import Act, Entry
from bot.store.rows.restrictions import Kind, Restriction, Scope
from bot.texts.catalogue import LANGUAGES, Texts

SERVER, CHANNEL, MINA, RAVI = 21, 31, 11, 12


def entry(act: Act, **values: Any) -> Entry:
    facts: dict[str, Any] = {"id": 1, "at": 1_780_000_000.25, "guild_id": SERVER, "actor_id": MINA}
    facts |= {"subject_id": RAVI, "reason": "", "before": None, "after": None}
    return Entry(act=act, **{**facts, **values})


ENTRIES = [
    entry(Act.BLOCK, reason="*spam*", after={"until": 1_780_003_600.0, "reason": "*spam*"}),
    entry(Act.UNBLOCK, before={"until": None, "reason": ""}),
    entry(Act.PAUSE, subject_id=0, after={"until": None, "reason": "", "channel_id": CHANNEL}),
    entry(Act.RESUME, subject_id=0, before={"until": None, "reason": ""}),
    entry(Act.CLEAR, after={"requests": 3}),
    entry(Act.DELETE, after={"job": "abc"}, actor_id=-5, subject_id=-6),
    entry(Act.CANCEL, after={"job": "abc"}),
    entry(Act.RULE, subject_id=0, after={"name": "*a*", "terms": ["b"]}),
    entry(Act.RULE, subject_id=0, before={"name": "a"}, after={"name": "A"}),
    entry(Act.RULE, subject_id=0, before={"name": "a"}),
    entry(Act.POLICY, subject_id=0, before={"scope": "role", "id": 41}, after={"scope": "role", "id": 41}),
    entry(Act.BLOCK, subject_id=0, actor_id=0, after={"until": None, "reason": ""}),
]


def test_an_entry_shows_time_people_and_reason() -> None:
    assert entry_lines(ENTRIES, Texts("en")) == [
        "- <t:1780000000:R> · <@11> blocked <@12> · ends <t:1780003600:R> · \\*spam\\*",
        "- <t:1780000000:R> · <@11> unblocked <@12>",
        "- <t:1780000000:R> · <@11> paused painting in <#31>",
        "- <t:1780000000:R> · <@11> resumed painting in this server",
        "- <t:1780000000:R> · <@11> deleted 3 requests of <@12>",
        "- <t:1780000000:R> · person no. 5 deleted 1 request of person no. 6",
        "- <t:1780000000:R> · <@11> cancelled a request of <@12>",
        "- <t:1780000000:R> · <@11> added the rule \\*a\\*",
        "- <t:1780000000:R> · <@11> changed the rule A",
        "- <t:1780000000:R> · <@11> removed the rule a",
        "- <t:1780000000:R> · <@11> changed a policy: <@&41>",
        "- <t:1780000000:R> · the bot's owner blocked this server",
    ]


WHERE = {"scope": "channel", "id": CHANNEL}
CHANGED = [
    (Act.POLICY, {**WHERE, "paint": True}, {**WHERE, "paint": False}, "May paint: yes → no"),
    (Act.POLICY, WHERE, {**WHERE, "pictures_per_day": 5}, "Pictures a day: — → 5"),
    (
        Act.POLICY,
        {**WHERE, "private": "always"},
        {**WHERE, "private": "x"},
        "Private results: always → x",
    ),
    (Act.REVIEW, {"channel_id": None, "hours": 72}, {"channel_id": 9, "hours": 72}, "channel: — → <#9>"),
    (Act.RULE, {"name": "a", "terms": ["x"]}, {"name": "A", "terms": ["x", "*y*"]}, "Words: x → x, \\*y\\*"),
    (Act.RULE, {"name": "a", "applied": False}, {"name": "a", "applied": True}, "applied: no → yes"),
    (
        Act.STYLE,
        {"name": "a", "options": {"a": 3}},
        {"name": "a", "options": {}},
        "Settings: a 3 → —",
    ),
]


@pytest.mark.parametrize(("act", "before", "after", "said"), CHANGED)
def test_an_entry_says_the_old_and_the_new_value_of_what_was_changed(
    act: Act, before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    (line,) = entry_lines([entry(act, subject_id=0, before=before, after=after)], Texts("en"))
    assert line.endswith(f" · {said}")


def test_an_entry_of_many_changes_says_how_many_others_the_export_has() -> None:
    after = {**WHERE, "steps": 1, "variants": 2, "pictures_per_day": 3, "cool_down": 4, "weight": 5}
    (line,) = entry_lines([entry(Act.POLICY, subject_id=0, before=WHERE, after=after)], Texts("en"))
    assert line.endswith("Pictures a day: — → 3 · and 2 more")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_act_names_its_people_in_every_language(language: str) -> None:
    lines = entry_lines(ENTRIES, Texts(language))
    assert all("<@11>" in line and "<t:1780000000:R>" in line for line in lines[:5])
    assert all("{" not in line for line in lines)
    assert entry_lines([], Texts(language)) != entry_lines([], Texts("en")) or language == "en"


@pytest.mark.parametrize("language", LANGUAGES)
def test_restrictions_are_listed_in_every_language(language: str) -> None:
    places = [Scope(guild_id=SERVER, user_id=RAVI), Scope(guild_id=SERVER)]
    places.append(Scope(guild_id=SERVER, channel_id=CHANNEL))
    found = [
        Restriction(kind=kind, scope=scope, until=until, reason="a", by=by, at=0.0)
        for scope, kind, until, by in zip(
            places,
            (Kind.BLOCK, Kind.BLOCK, Kind.PAUSE),
            (9.0, None, None),
            (MINA, 0, MINA),
            strict=True,
        )
    ]
    lines = restriction_lines(found, Texts(language))
    assert [line.startswith("### ") for line in lines] == [True, False, False, True, False]
    assert "<@12>" in lines[1]
    assert "<t:9:R>" in lines[1]
    assert "<#31>" in lines[4]
    assert len(restriction_lines([], Texts(language))) == 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_help_for_moderators_fits_a_message(language: str) -> None:
    texts = Texts(language)
    assert len(moderators_help(texts, texts, Steps())) < MAX_PAGE


def test_the_help_for_moderators_begins_with_three_steps_and_says_which_are_done() -> None:
    texts = Texts("en")
    _, *first = moderators_help(texts, texts, Steps(channel=True)).splitlines()[:4]
    assert ["✅" in line for line in first] == [False, True, False]
    assert ["private channel" in first[0], "/review channel" in first[1], "/rules add" in first[2]] == [
        True
    ] * 3


def test_the_help_for_moderators_has_every_command_that_is_for_them_alone() -> None:
    texts = Texts("en")
    told = moderators_help(texts, texts, Steps())
    for command in other_commands():
        assert command.default_permissions is None or f"**/{command.name}" in told


def test_the_file_has_as_many_lines_as_there_is_room_for() -> None:
    everything, count = lines_of(ENTRIES)
    assert count == len(ENTRIES) == everything.count(b"\n")
    first = json.loads(everything.splitlines()[0])
    assert (first["at"], first["actor"], first["subject"]) == ("2026-05-28T20:26:40.250+00:00", "11", "12")
    assert json.loads(everything.splitlines()[2])["after"]["channel_id"] == "31"
    some, fewer = lines_of(ENTRIES, limit=len(everything) - 1)
    assert fewer == len(ENTRIES) - 1
    assert everything.startswith(some)


@pytest.mark.parametrize(
    ("hash_", "distance", "certain", "said"),
    [
        (0xF00F_1234_5678_9ABC, 0, False, "certain"),
        (0xF00F_1234_5678_9ABC, 4, False, "very likely"),
        (0xF00F_1234_5678_9ABC, 5, False, "not certain"),
        (1, 0, False, "not certain"),  # of a flat picture, as many have it
        (1, 0, True, "certain"),  # the bot's own message
    ],
)
def test_whose_a_picture_is_is_said_with_a_word_for_how_certain_it_is(
    hash_: int, distance: int, certain: bool, said: str
) -> None:
    match = Match(job=JOB, index=0, hash=hash_, distance=distance)
    line, *warning = whose_lines([Found(hash=hash_, matches=(match,), certain=certain)], Texts("en"))
    assert said in line.split(" · ")
    assert bool(warning) == (said == "not certain")
