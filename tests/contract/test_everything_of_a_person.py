"""What is left of a person after everything of theirs was deleted: in all tables, and in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from busy_person import OTHER, PERSON, WORD, BusyPerson, traces
from personal_data import TABLES, unclassified
from recipes import RECIPE, origin

from bot.app.operator import forget_now
from bot.config import Config
from bot.domain.errors import UnknownJob
from bot.domain.jobs import Descent, Job, Parent
from bot.files import Artifacts, Files
from bot.files.erasure import forget
from bot.front.results.export import FAVOURITES, MODERATION, REQUESTS, USAGE, VOTES, sections
from bot.process.threads import in_thread
from bot.store import Store
from bot.store.queue.seed_sequences import NextOf


def test_every_column_is_classified_as_personal_or_not() -> None:
    assert unclassified() == {}


def test_every_personal_table_is_exported_or_has_a_reason() -> None:
    assert [name for name, kept in TABLES.items() if bool(kept.section) is bool(kept.unexported)] == []


async def test_the_export_has_each_section_of_the_tables_and_no_other_person(
    store: Store, person: BusyPerson
) -> None:
    exported = await sections(store, PERSON)
    assert exported.keys() | {REQUESTS} == {kept.section for kept in TABLES.values()} - {""}
    empty = [name for name, said in exported.items() if not said]
    assert empty == []
    wordless = [name for name, said in exported.items() if WORD not in json.dumps(said)]
    assert set(wordless) == {FAVOURITES, VOTES, USAGE}
    assert all(exported[USAGE].values())
    assert all(exported[MODERATION][name] for name in ("blocks", "log"))
    assert str(OTHER) not in json.dumps(exported)


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
async def person(store: Store, artifacts: Path) -> BusyPerson:
    """A person who has done everything: each column that can hold something of theirs does."""
    person = BusyPerson(store, Files(store.files, Artifacts(str(artifacts))))
    await person.lives()
    left = await traces(store, names=person.names)
    assert left == {name: kept.personal for name, kept in TABLES.items() if kept.personal}
    return person


async def left_over(store: Store, person: BusyPerson) -> dict[str, set[str]]:
    """The columns that still hold something of the person, without those that have a reason."""
    left = await traces(store, names=person.names)
    found = {name: columns - TABLES[name].kept.keys() for name, columns in left.items()}
    return {name: columns for name, columns in found.items() if columns}


def files_left(artifacts: Path) -> list[Path]:
    return [path for path in artifacts.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]


async def test_nothing_is_left_of_a_person_who_deletes_everything(
    store: Store, artifacts: Path, person: BusyPerson
) -> None:
    assert files_left(artifacts)
    await forget(store.erasure, person.files, user_id=PERSON)
    assert await left_over(store, person) == {}
    assert files_left(artifacts) == []
    assert (await store.jobs.get(person.others.id)).origin.user_id == OTHER


async def test_nothing_is_left_of_a_person_whom_the_operator_forgets(
    store: Store, database_url: str, artifacts: Path, person: BusyPerson
) -> None:
    queue = {"database": database_url, "artifacts": str(artifacts)}
    config = Config.model_validate({"queue": queue})
    await in_thread(lambda: forget_now(config, user_id=PERSON, guild_id=None), "operator")
    assert await left_over(store, person) == {}
    assert files_left(artifacts) == []


async def test_a_copy_made_during_the_deletion_is_deleted_too(store: Store, person: BusyPerson) -> None:
    late: list[str] = []

    async def copied(jobs: Sequence[Job]) -> None:
        if not late and any(job.id == person.mine.id for job in jobs):
            single = Parent(job_id=person.mine.id, descent=Descent.SINGLE, index=0)
            copy = await store.jobs.copy(person.mine.id, person.asks(OTHER, parent=single), index=0)
            late.append(copy.id)

    await forget(store.erasure, person.files, user_id=PERSON, first=copied)
    with pytest.raises(UnknownJob):
        await store.jobs.get(late[0])
    assert await left_over(store, person) == {}


async def test_what_another_person_asked_for_again_stays_that_persons_request(
    store: Store, person: BusyPerson
) -> None:
    repeat = await store.jobs.enqueue(NextOf(job_id=person.mine.id), person.asks(OTHER))
    await forget(store.erasure, person.files, user_id=PERSON)
    assert (await store.jobs.get(repeat.id)).recipe.prompt == WORD


async def test_the_log_of_a_deletion_names_a_job_by_which_a_restored_backup_is_cleaned(
    store: Store, person: BusyPerson, caplog: pytest.LogCaptureFixture
) -> None:
    assert await store.erasure.person_of(person.mine.id) == PERSON
    with caplog.at_level("INFO"):
        await forget(store.erasure, person.files, user_id=PERSON)
    assert f"everything of the person of job {person.mine.id} is deleted" in caplog.messages
    assert str(PERSON) not in caplog.text


async def test_the_file_of_the_queue_keeps_no_deleted_words(bare_sqlite_url: str, tmp_path: Path) -> None:
    store = await Store.open(bare_sqlite_url)
    job = await store.jobs.enqueue(replace(RECIPE, prompt=f"{WORD} " * 900), origin(1, user_id=PERSON))
    files = Files(store.files, Artifacts(str(tmp_path / "artifacts")))
    await forget(store.erasure, files, user_id=PERSON)
    with pytest.raises(UnknownJob):
        await store.jobs.get(job.id)
    await store.close()
    assert files_left(tmp_path) == []
