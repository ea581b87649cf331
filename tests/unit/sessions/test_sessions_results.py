"""Places in a vote, and archives."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from recipes import recipe

from bot.sessions.archive import DOCUMENT, OVERHEAD, Packer, document, file_name
from bot.sessions.results import page_of, places
from bot.store.rows.sessions import GroupSession, Phase, Plan
from bot.store.sessions.boards import Entry

ENTRY = Entry(
    round=1,
    number=1,
    job_id="a",
    index=1,
    user_id=11,
    user_name="Mina",
    recipe=recipe(init_image="aa/secret.png", variants=2),
    artifact="aa/1.png",
    spoiler=False,
    votes=0,
)
SESSION = GroupSession(
    id="abcd",
    guild_id=21,
    channel_id=31,
    host_id=1,
    locale="en",
    plan=Plan(theme="boats", quota=3, session_seconds=60.0),
    phase=Phase.RESTING,
    round=1,
    paused=False,
    opened_at=1.0,
    collect_until=None,
    closed_at=None,
    board_id=None,
    boards=0,
    keeper_token=0,
)


def voted(*votes: int, **changed: Any) -> list[Entry]:
    return [
        replace(ENTRY, number=number, votes=count, **changed) for number, count in enumerate(votes, start=1)
    ]


def found(*votes: int) -> list[tuple[int, int, list[int]]]:
    return [
        (place.number, place.votes, [entry.number for entry in place.entries])
        for place in places(voted(*votes))
    ]


def test_a_tie_is_a_tie_and_the_place_after_it_is_left_out() -> None:
    assert found(1, 4, 4, 0, 2) == [(1, 4, [2, 3]), (3, 2, [5])]
    assert found(5, 3, 3, 1) == [(1, 5, [1]), (2, 3, [2, 3])]
    assert found(0, 0) == []
    assert [place.tied for place in places(voted(2, 2, 1))] == [True, False]


def test_a_picture_that_was_deleted_has_no_place() -> None:
    first, second = voted(3, 1)
    assert [place.entries for place in places([replace(first, artifact=None), second])] == [(second,)]


@given(st.lists(st.integers(0, 9), max_size=40))
def test_no_picture_without_a_place_has_more_votes_than_one_with_a_place(votes: list[int]) -> None:
    placed = {entry.number for place in places(voted(*votes)) for entry in place.entries}
    others = [entry.votes for entry in voted(*votes) if entry.number not in placed]
    least = min((entry.votes for entry in voted(*votes) if entry.number in placed), default=0)
    assert max(others, default=0) <= least
    numbers = [place.number for place in places(voted(*votes))]
    assert numbers == sorted(set(numbers))


def test_pages_have_twenty_pictures_and_keep_their_numbers() -> None:
    entries = voted(*[0] * 45)
    del entries[22]
    assert [len(page_of(entries, page)) for page in (1, 2, 3, 4)] == [20, 20, 5, 0]
    assert [entry and entry.number for _, entry in page_of(entries, 2)][:4] == [21, 22, None, 24]
    assert [number for number, _ in page_of(entries, 3, whole=True)] == [41, 42, 43, 44]


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_an_archive_is_divided_by_its_limit_and_loses_nothing(sizes: list[int]) -> None:
    packer, made = Packer(4000), []
    files = {f"{number}.png": bytes(size) for number, size in enumerate(sizes)}
    for name, data in files.items():
        assert packer.fits(data)
        made.append(packer.add(name, data))
    archives = [each for each in (*made, packer.take()) if each is not None]
    assert all(len(each) <= 4000 for each in archives)
    read: dict[str, bytes] = {}
    for each in archives:
        with zipfile.ZipFile(io.BytesIO(each)) as archive:
            read |= {name: archive.read(name) for name in archive.namelist()}
    assert read == files
    assert not packer.fits(bytes(4001 - OVERHEAD))


def test_a_description_that_is_longer_than_a_file_may_be_is_compressed() -> None:
    packer, description = Packer(4000), b'{"prompt": "a boat"}' * 900
    assert packer.add(DOCUMENT, description) is None
    archive = packer.add("1.png", bytes(9))
    assert archive is not None
    assert len(archive) <= 4000
    assert zipfile.ZipFile(io.BytesIO(archive)).read(DOCUMENT) == description


def test_the_description_has_recipes_and_votes_but_no_file_of_the_bot() -> None:
    text = document(SESSION, voted(2), unseen=3)
    described = json.loads(text)
    (picture,) = described["pictures"]
    assert (described["theme"], described["left_out"], picture["votes"]) == ("boats", 3, 2)
    assert picture["seed"] == ENTRY.recipe.seed + 1
    assert picture["file"] == "round-1/1-Mina.png"
    assert b"secret" not in text


def test_the_description_leaves_out_pictures_that_are_no_longer_shown() -> None:
    described = json.loads(document(SESSION, [*voted(2, artifact=None, withheld=True), ENTRY], unseen=1))
    assert [picture["votes"] for picture in described["pictures"]] == [0]


def test_names_of_files_leave_nothing_of_a_hostile_name() -> None:
    hostile = replace(ENTRY, user_name="../../\N{RIGHT-TO-LEFT OVERRIDE}윤아 :*?")
    assert file_name(hostile) == "round-1/1-윤아.png"
    assert file_name(replace(ENTRY, user_name="///")) == "round-1/1.png"
