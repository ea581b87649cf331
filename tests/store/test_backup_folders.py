"""Backups in a folder: interrupted, damaged, shared and deleted ones; which pictures are in one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gzip
import json
import os
import signal
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from backups import backed_up, restored
from processes import end, in_tests, start
from recipes import ORIGIN, RECIPE, origin, recipe
from stores import TTL, small_disk

from bot.backup import making, picture_files, places, table_files
from bot.backup import manifest as manifests
from bot.backup.durable import refused_by_disk
from bot.backup.places import UNDER_WAY, under_way
from bot.backup.table_files import read_rows
from bot.domain.errors import BackupRefused, StoreUnavailable
from bot.domain.jobs import Job
from bot.files import Artifacts, Files
from bot.store import Store

pytestmark = pytest.mark.usefixtures("reflected_once")

KILLED = in_tests("""
import asyncio, os, pathlib, signal, sys
from backups import backed_up
from bot.backup import making
from bot.files import Artifacts

making.write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(backed_up(sys.argv[1], pathlib.Path(sys.argv[2]), Artifacts(sys.argv[3]), keep=1))
""")


class Scene:
    """A queue with pictures, and a folder for its backups."""

    def __init__(self, url: str, folder: Path, store: Store) -> None:
        self.url = url
        self.folder = folder
        self.place = folder / "backups"
        self.store = store
        self.artifacts = Artifacts(str(folder / "artifacts"))
        self.files = Files(store.files, self.artifacts)
        self._number = 0

    async def paint(self, picture: bytes) -> tuple[Job, str]:
        """A finished job and the name of its picture."""
        self._number += 1
        await self.store.jobs.enqueue(RECIPE, origin(self._number))
        (claim,) = await self.store.leases.claim("worker", limit=1, ttl=TTL)
        name = await self.files.keep(picture, "png")
        return await self.store.leases.complete(claim, artifact=name, seconds=1.0), name

    async def back_up(self, *, keep: int | None = None) -> Path:
        return (await backed_up(self.url, self.place, self.artifacts, keep=keep)).folder

    async def restore(self, place: Path | None = None, *, into: str = "restored") -> None:
        folder = self.folder / into
        url = f"sqlite+aiosqlite:///{folder}/queue.sqlite3"
        await restored(place or self.place, url, Artifacts(str(folder / "artifacts")))


@pytest.fixture
async def scene(sqlite_url: str, tmp_path: Path) -> contextlib.AsyncIterator[Scene]:
    store = await Store.open(sqlite_url)
    yield Scene(sqlite_url, tmp_path, store)
    await store.close()


def files_of(backup: Path) -> list[Path]:
    return sorted(path for path in backup.rglob("*") if path.is_file())


def found(backup: Path) -> list[str]:
    """The damages of a backup."""
    try:
        return manifests.damages(backup, manifests.read_manifest(backup))
    except BackupRefused as error:
        return [str(error)]


async def test_the_damage_of_any_file_is_found_before_anything_is_restored(scene: Scene) -> None:
    await scene.paint(b"a picture")
    backup = await scene.back_up()
    assert found(backup) == []
    for file in files_of(backup):
        whole = file.read_bytes()
        for damaged in (bytes([whole[0] ^ 1]) + whole[1:], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
            file.write_bytes(damaged)
            if file.name != manifests.HASH or damaged.split(b" ")[0] != whole.split(b" ")[0]:
                assert len(found(backup)) == 1  # in the hash's file, the text after the hash is not checked
        file.unlink()
        assert len(found(backup)) == 1
        file.write_bytes(whole)
    (picture,) = (backup / "pictures").glob("*/*")
    picture.write_bytes(b"another picture")
    with pytest.raises(BackupRefused, match=f"1 file of .* is missing or damaged .*{picture.name}"):
        await scene.restore()
    assert not (scene.folder / "restored" / "artifacts").exists()
    picture.write_bytes(b"a picture")
    await scene.restore()


async def test_a_picture_that_the_disk_does_not_give_back_is_named(scene: Scene) -> None:
    _, name = await scene.paint(b"a picture")
    backup = await scene.back_up()
    (backup / "pictures" / name).unlink()
    with pytest.raises(BackupRefused, match=f"pictures/{name} cannot be read: No such file"):
        await picture_files.bring_back(backup, [name], scene.artifacts)


ROWS = gzip.compress(b"[1]\n" * 99)


@pytest.mark.parametrize(
    "content",
    [ROWS[:-4], ROWS[:10] + b"\xff" * 20, gzip.compress(b"[1"), gzip.compress(b"\xff")],
    ids=["cut", "no rows", "no JSON", "no UTF-8"],
)
def test_rows_that_changed_after_they_were_checked_are_no_traceback(tmp_path: Path, content: bytes) -> None:
    (file := tmp_path / "jobs.gz").write_bytes(content)
    with pytest.raises(BackupRefused, match=r"jobs\.gz is damaged"):
        list(read_rows(file))


def test_an_interrupted_backup_that_cannot_be_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(places.shutil, "rmtree", refuse)
    with pytest.raises(BackupRefused, match=f"{UNDER_WAY}, .* Operation not permitted"), under_way(tmp_path):
        pass


def test_a_backup_that_is_a_link_is_no_obstacle_and_named_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = tmp_path / "2026-01-01T000000Z", tmp_path / "2026-01-02T000000Z"
    (elsewhere := tmp_path / "elsewhere").mkdir()
    old.symlink_to(elsewhere)
    new.mkdir()
    assert places.delete_oldest(tmp_path, 1) == []
    assert "cannot be deleted: Cannot call rmtree on a symbolic link. Delete it" in caplog.text


async def test_only_the_owner_may_read_a_backup(scene: Scene) -> None:
    await scene.paint(b"a picture")
    backup = await scene.back_up()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in files_of(backup)}
    folders = [scene.place, backup, *(path for path in backup.rglob("*") if path.is_dir())]
    assert (modes, {stat.S_IMODE(path.stat().st_mode) for path in folders}) == ({0o600}, {0o700})


async def test_a_killed_backup_is_no_backup_and_the_next_one_clears_it(scene: Scene) -> None:
    await scene.paint(b"a picture")
    first = await scene.back_up()
    arguments, err = (scene.url, str(scene.place), str(scene.folder / "artifacts")), scene.folder / "err"
    killed = await end(await start(*arguments, err=err, program=("-c", KILLED), forked=True))
    assert killed.status == -signal.SIGKILL, killed.err
    assert {path.name for path in scene.place.iterdir()} == {".lock", UNDER_WAY, first.name}
    await scene.restore()
    second = await scene.back_up()
    assert {path.name for path in scene.place.iterdir()} == {".lock", first.name, second.name}


@pytest.mark.parametrize("passes", [3, 0])  # with none, pictures are copied in the transaction
async def test_a_full_disk_leaves_no_backup_and_deletes_no_old_one(
    passes: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "PASSES", passes)
    first = await scene.back_up()
    await scene.paint(b"p" * 20_000)
    with small_disk(), pytest.raises(BackupRefused, match=r"pictures.*png cannot be written: File too large"):
        await scene.back_up(keep=1)
    assert {path.name for path in scene.place.iterdir()} == {".lock", first.name}


async def test_a_disk_that_is_full_of_rows_is_named_and_not_the_database(scene: Scene) -> None:
    prompt = "".join(sha256(b"%d" % number).hexdigest() for number in range(600))
    await scene.store.jobs.enqueue(recipe(prompt=prompt), ORIGIN)
    with small_disk(), pytest.raises(BackupRefused, match=r"tables.*gz cannot be written: File too large"):
        await scene.back_up()


async def test_a_backup_whose_name_may_not_be_on_the_disk_is_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = places.sync_folder

    def fail_for_names(folder: Path) -> None:
        if folder == scene.place:
            raise OSError(errno.EIO, "Input/output error")
        sync(folder)

    first = await scene.back_up()
    monkeypatch.setattr(places, "sync_folder", fail_for_names)
    with pytest.raises(BackupRefused, match="backups cannot be written: Input/output"):
        await scene.back_up(keep=1)
    assert {path.name for path in scene.place.iterdir()} == {".lock", first.name}


async def test_two_backups_are_not_written_at_once(scene: Scene) -> None:
    with under_way(scene.place), pytest.raises(BackupRefused, match="wait until it is done"):
        await scene.back_up()


async def test_a_missing_parent_folder_is_not_made(scene: Scene) -> None:
    scene.place = scene.folder / "no disk" / "backups"
    with pytest.raises(BackupRefused, match="cannot be written: No such file"):
        await scene.back_up()


async def test_unchanged_pictures_are_shared_unless_they_are_damaged(scene: Scene) -> None:
    _, same = await scene.paint(b"the same")
    _, broken = await scene.paint(b"damaged in the first backup")
    first = await scene.back_up()
    (first / "pictures" / broken).write_bytes(b"rot")
    second = await scene.back_up()
    assert (first / "pictures" / same).samefile(second / "pictures" / same)
    assert (second / "pictures" / broken).read_bytes() == b"damaged in the first backup"


async def test_a_disk_without_hard_links_gets_copies(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    _, name = await scene.paint(b"a picture")
    first = await scene.back_up()
    monkeypatch.setattr(picture_files.os, "link", refuse)
    second = await scene.back_up()
    assert not (first / "pictures" / name).samefile(second / "pictures" / name)
    await scene.restore()


async def test_only_the_newest_are_kept_and_the_newest_is_restored(scene: Scene) -> None:
    made = [await scene.back_up()]
    await scene.paint(b"a picture")
    made += [await scene.back_up(), await scene.back_up(keep=2)]
    assert sorted(path.name for path in scene.place.glob("2*")) == [path.name for path in made[1:]]
    assert len({path.name for path in made}) == 3
    await scene.restore()
    assert list((scene.folder / "restored" / "artifacts").glob("*/*.png"))


async def test_after_the_clock_was_set_back_the_new_backup_is_the_newest(scene: Scene) -> None:
    (scene.place / "2999-12-31T235959Z").mkdir(parents=True)
    assert (await scene.back_up(keep=1)).name == "3000-01-01T000000Z"
    assert [path.name for path in scene.place.glob("[23]*")] == ["3000-01-01T000000Z"]


async def test_a_backup_names_a_damaged_picture_and_leaves_it(scene: Scene) -> None:
    _, name = await scene.paint(b"a picture")
    original = scene.folder / "artifacts" / name
    original.write_bytes(b"damaged")
    assert list(manifests.read_manifest(await scene.back_up()).lost) == [name]
    assert original.read_bytes() == b"damaged"


async def test_a_picture_that_was_lost_before_is_named(scene: Scene) -> None:
    _, lost = await scene.paint(b"lost")
    _, kept = await scene.paint(b"kept")
    await scene.artifacts.delete(lost)
    folder = await scene.back_up()
    backup = manifests.read_manifest(folder)
    assert (set(backup.pictures), list(backup.lost)) == ({kept}, [lost])
    await scene.restore()


async def test_a_name_that_leaves_the_folder_is_not_followed(scene: Scene) -> None:
    (scene.folder / "secret").write_text("not a picture")
    await scene.store.jobs.enqueue(RECIPE, ORIGIN)
    (claim,) = await scene.store.leases.claim("worker", limit=1, ttl=TTL)
    await scene.store.leases.complete(claim, artifact="../../../secret", seconds=1.0)
    await scene.back_up()
    backup = await scene.back_up()
    assert not [file for file in files_of(backup) if file.read_bytes() == b"not a picture"]


async def test_a_place_of_other_pictures_is_refused(scene: Scene) -> None:
    await scene.paint(b"a picture")
    await scene.back_up()
    await Artifacts(str(scene.folder / "restored" / "artifacts")).put(b"another", "png")
    with pytest.raises(StoreUnavailable, match="which is not in the backup"):
        await scene.restore()


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"format": 2}, "has format 2"), ({"revision": "v999"}, "newer version"), ({"tables": 1}, "damaged")],
)
async def test_a_backup_of_another_version_is_refused(
    scene: Scene, changed: dict[str, object], said: str
) -> None:
    backup = await scene.back_up()
    facts = json.loads((backup / manifests.MANIFEST).read_text())
    for name in (manifests.MANIFEST, manifests.HASH):
        (backup / name).unlink()
    data = json.dumps(facts | changed).encode()
    manifests.write_durably(backup / manifests.MANIFEST, data)
    digest = manifests.hashlib.sha256(data).hexdigest()
    manifests.write_durably(backup / manifests.HASH, f"{digest}  manifest.json\n".encode())
    with pytest.raises(BackupRefused, match=said):
        await scene.restore()


async def test_a_folder_without_backups_is_refused(scene: Scene) -> None:
    scene.place.mkdir()
    with pytest.raises(BackupRefused, match="holds no backup"):
        await scene.restore()


Rows = list[Any]
Change = Callable[[dict[str, Any], dict[str, Rows], Path], None]


def change_of(table: str, row: int, column: str, value: Any) -> Change:
    """A change of one value of one row."""

    def change(manifest: dict[str, Any], rows: dict[str, Rows], _backup: Path) -> None:
        rows[table][row][manifest["tables"][table]["columns"].index(column)] = value

    return change


def deep(_manifest: dict[str, Any], rows: dict[str, Rows], _backup: Path) -> None:
    rows["jobs"] = ["[" * 200_000]


def named(name: str) -> Change:
    def change(manifest: dict[str, Any], _rows: dict[str, Rows], _backup: Path) -> None:
        manifest["pictures"][name] = 9

    return change


def linked(_manifest: dict[str, Any], _rows: dict[str, Rows], backup: Path) -> None:
    (picture,) = (backup / "pictures").glob("*/*")
    moved = picture.rename(backup.parent / "elsewhere")
    picture.symlink_to(moved)


def piped(_manifest: dict[str, Any], _rows: dict[str, Rows], backup: Path) -> None:
    (picture,) = (backup / "pictures").glob("*/*")
    picture.unlink()
    os.mkfifo(picture)


def renamed(table: str, to: str) -> Change:
    def change(manifest: dict[str, Any], rows: dict[str, Rows], backup: Path) -> None:
        manifest["tables"][to] = manifest["tables"].pop(table)
        rows[to] = rows.pop(table)

    return change


HOSTILE: dict[str, Change] = {
    "unknown table": renamed("styles", "owners"),
    "table of SQLite": renamed("styles", "sqlite_master"),
    "table of migrations": renamed("styles", "alembic_version"),
    "table outside the folder": renamed("styles", "../../styles"),
    "SQL as a table": renamed("styles", "styles; drop table jobs"),
    "unknown column": lambda manifest, _rows, _backup: manifest["tables"]["jobs"]["columns"].__setitem__(
        0, "x"
    ),
    "SQL as a column": lambda manifest, _rows, _backup: manifest["tables"]["jobs"]["columns"].__setitem__(
        0, "id) VALUES (1); DROP TABLE jobs; --"
    ),
    "missing column": lambda manifest, _rows, _backup: manifest["tables"]["jobs"]["columns"].pop(),
    "huge number of rows": lambda _manifest, rows, _backup: rows["jobs"].extend(rows["jobs"] * 9),
    "row that is a number": lambda _manifest, rows, _backup: rows["jobs"].__setitem__(0, 7),
    "row that is an object": lambda _manifest, rows, _backup: rows["jobs"].__setitem__(0, {"id": 1}),
    "row too short": lambda _manifest, rows, _backup: rows["jobs"][0].pop(),
    "deep nesting": deep,
    "value that is a list": change_of("jobs", 0, "user_name", ["x"]),
    "value that is an object": change_of("jobs", 0, "user_id", {"$ne": 1}),
    "number beyond 64 bits": change_of("jobs", 0, "user_id", 10**30),
    "lone surrogate": change_of("jobs", 0, "user_name", "\ud800"),
    "null where none may be": change_of("jobs", 0, "channel_id", None),
    "image of no job": change_of("images", 0, "job_id", "nobody"),
    "the same job twice": lambda _manifest, rows, _backup: rows["jobs"].append(rows["jobs"][0]),
    "picture outside the folder": named("../../../etc/passwd"),
    "picture with an absolute name": named("/etc/passwd"),
    "picture with a short name": named("aa/" + "a" * 63 + ".png"),
    "picture that is not there": named("aa/" + "a" * 64 + ".png"),
    "negative format": lambda manifest, _rows, _backup: manifest.__setitem__("format", -1),
    "format that is a list": lambda manifest, _rows, _backup: manifest.__setitem__("format", [1]),
    "revision outside the folder": lambda manifest, _rows, _backup: manifest.__setitem__(
        "revision", "../v001"
    ),
    "tables that are a list": lambda manifest, _rows, _backup: manifest.__setitem__("tables", []),
    "link as a picture": linked,
    "pipe as a picture": piped,
}


def rewrite(backup: Path, change: Change) -> None:
    """Change a backup as somebody does who writes right hashes."""
    manifest = json.loads((backup / manifests.MANIFEST).read_bytes())
    lines = {
        name: gzip.decompress(manifests.table_file(backup, name).read_bytes()).splitlines()
        for name in manifest["tables"]
    }
    rows: dict[str, Rows] = {name: [json.loads(line) for line in of] for name, of in lines.items()}
    change(manifest, rows, backup)
    for name, of_table in rows.items():
        file = manifests.table_file(backup, name.replace("/", "_"))
        text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in of_table)
        file.write_bytes(gzip.compress(text.encode(errors="surrogatepass")))
        if isinstance(manifest["tables"], dict):
            manifest["tables"][name] |= {
                "sha256": sha256(file.read_bytes()).hexdigest(),
                "bytes": file.stat().st_size,
            }
    data = json.dumps(manifest).encode()
    (backup / manifests.MANIFEST).write_bytes(data)
    (backup / manifests.HASH).write_text(f"{sha256(data).hexdigest()}  {manifests.MANIFEST}\n")


@pytest.mark.parametrize("how", HOSTILE)
async def test_a_backup_with_foreign_content_is_refused_in_one_sentence_with_nothing_written(
    scene: Scene, how: str
) -> None:
    await scene.paint(b"a picture")
    backup = await scene.back_up()
    rewrite(backup, HOSTILE[how])
    with pytest.raises((BackupRefused, StoreUnavailable)) as refused:
        async with asyncio.timeout(20):
            await scene.restore()
    assert "\n" not in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert not (scene.folder / "restored" / "artifacts").exists()
    with closing(sqlite3.connect(scene.folder / "restored" / "queue.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


@pytest.mark.parametrize("content", [b"[" * 200_000, b"{}", b"", b"\xff", b"null", b"[1]"])
async def test_a_manifest_of_somebody_else_is_refused(scene: Scene, content: bytes) -> None:
    await scene.paint(b"a picture")
    backup = await scene.back_up()
    (backup / manifests.MANIFEST).write_bytes(content)
    (backup / manifests.HASH).write_text(f"{sha256(content).hexdigest()}  {manifests.MANIFEST}\n")
    with pytest.raises(BackupRefused):
        await scene.restore()


def test_a_row_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl.gz"
    with gzip.open(file, "wb") as packed:
        packed.write(b"[")
        for _ in range(table_files.MOST_CHARACTERS // 2**20):
            packed.write(b" " * 2**20)
    assert file.stat().st_size < 100_000
    with pytest.raises(BackupRefused, match="is damaged"):
        list(read_rows(file))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_sentence_says_to_free_space(number: int) -> None:
    with (
        pytest.raises(BackupRefused, match=r"^The disk that holds /b/a is full: free some space\.$"),
        refused_by_disk(Path("/b/a"), "written"),
    ):
        raise OSError(number, "in the system's words")
