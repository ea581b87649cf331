"""The doctor's looks at this machine: each fault is one line that says what to do."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from doctor_looks import changed, found, problems
from watermarks import write_weights

from bot.app import local_paths
from bot.config import Config
from bot.doctor import database, examine, painting, places, versions
from bot.doctor.findings import Finding
from bot.store import Store
from bot.store.database import sqlite_file

NO_WRITING = "/proc/sdjax"  # nobody makes folders there, root included


def entries(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_a_look_that_hangs_or_fails_stops_no_other() -> None:
    async def broken() -> AsyncIterator[Finding]:
        yield Finding(well=True, text="half")
        raise ZeroDivisionError("a bug")

    async def hanging() -> AsyncIterator[Finding]:
        await asyncio.Event().wait()
        yield Finding(well=True, text="never")

    findings = await found(hanging, broken, versions.look, seconds=0.5)
    assert "no answer within 0.5 s" in findings[0].text
    assert findings[1].text == "half"
    assert "ZeroDivisionError" in findings[2].text
    assert len(findings) > 3


async def test_the_devices_are_opened_by_one_process_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    async def in_process(_config: Config, look: str) -> AsyncIterator[Finding]:
        opened.append(look)
        await asyncio.sleep(0)
        yield Finding(well=len(opened) == 1, text=f"{opened} at once")
        opened.remove(look)

    monkeypatch.setattr(painting, "in_process", in_process)
    monkeypatch.chdir(tmp_path)
    findings = [each async for each in examine(Config.parse({}), tmp_path / "bot.toml", role="worker")]
    told = [each for each in findings if each.part in painting.LOOKS]
    assert [each.part for each in told] == ["devices", "checkpoints"]
    assert problems(told) == ""


async def test_a_disk_that_hangs_stops_no_other_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()

    def hang(path: Path) -> Path:
        hanging.wait()
        return path

    monkeypatch.setattr(local_paths, "nearest", hang)
    monkeypatch.setattr(places, "_problem", hang)
    monkeypatch.setattr(database, "check_file_system", hang)
    config, file = Config.parse({}), tmp_path / "bot.toml"
    url = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    try:
        findings = await found(
            lambda: places.disks(config),
            lambda: places.modes(config, file),
            lambda: database.look(url),
            seconds=0.1,
        )
    finally:
        hanging.set()
    assert ["no answer within" in finding.text for finding in findings] == [True] * 3


async def test_a_file_of_sqlite_on_a_network_file_system_is_refused_as_at_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "network_file_system", lambda _path: "nfs4")
    url = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    assert "network file system (nfs4)" in problems(await found(lambda: database.look(url)))


async def test_a_file_of_sqlite_is_looked_at_and_never_migrated(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    assert "the first start makes it" in (await found(lambda: database.look(url)))[0].text
    assert entries(tmp_path) == []
    await (await Store.open(url)).close()
    assert problems(await found(lambda: database.look(url))) == ""
    await changed(url, "UPDATE alembic_version SET version_num = 'v999'")
    assert "newer version of the bot (v999)" in problems(await found(lambda: database.look(url)))
    (tmp_path / "queue.sqlite3").write_bytes(b"no database" * 100)
    assert "is not a queue database" in problems(await found(lambda: database.look(url)))
    elsewhere = "sqlite+aiosqlite:////proc/sdjax/queue/queue.sqlite3"
    assert "there is no folder" in problems(await found(lambda: database.look(elsewhere)))


async def test_the_place_for_pictures_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    assert "can be written, read, renamed" in (await found(lambda: places.pictures(str(tmp_path))))[0].text
    assert entries(tmp_path) == []
    assert problems(await found(lambda: places.pictures("memory://doctor"))) == ""
    assert "cannot be made" in problems(await found(lambda: places.pictures(f"{NO_WRITING}/here")))
    assert "cannot be written" in problems(await found(lambda: places.pictures("/proc/self")))
    assert "queue.artifacts: “nothing://x” is neither a folder" in problems(
        await found(lambda: places.pictures("nothing://x"))
    )


def test_the_nearest_folder_is_looked_for_also_above_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    assert local_paths.nearest(tmp_path / ("x" * 300) / "cache") == tmp_path


async def test_secrets_that_others_can_read_are_named_with_the_command_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    token.chmod(0o644)
    config = Config.parse(
        {"discord": {"token_file": str(token)}, "queue": {"artifacts": str(tmp_path / "none")}}
    )
    monkeypatch.chdir(tmp_path)
    assert f"chmod 600 {token}" in problems(await found(lambda: places.modes(config, tmp_path / "bot.toml")))
    token.chmod(0o600)
    assert problems(await found(lambda: places.modes(config, tmp_path / "bot.toml"))) == ""
    # The bot reads a file of another owner through its group: with mode 600 it could not read it.
    uid, gid = os.getuid(), os.getgid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    token.chmod(0o660)
    assert problems(await found(lambda: places.modes(config, tmp_path / "bot.toml"))) == ""
    token.chmod(0o644)
    told = problems(await found(lambda: places.modes(config, tmp_path / "bot.toml")))
    assert f"chgrp {gid} {token} && chmod 640 {token}" in told


async def test_files_that_a_start_would_refuse_are_named(tmp_path: Path) -> None:
    (empty := tmp_path / "keywords.csv").touch()
    config = Config.parse({"prompts": {"keywords_file": str(empty)}, "web": {"token_file": "none"}})
    told = problems(await found(lambda: places.files(config, front=True)))
    assert f"prompts.keywords_file: “{empty}” has no keywords" in told
    assert "web.token_file: there is no such file. If this is the token itself" in told
    assert "keywords" not in problems(await found(lambda: places.files(config, front=False)))
    assert problems(await found(lambda: places.files(Config.parse({}), front=True))) == ""
    (write_weights(tmp_path) / "decoder_P.ckpt").write_bytes(b"words")
    config = Config.parse({"provenance": {"watermark": str(tmp_path)}})
    told = problems(await found(lambda: places.files(config, front=True)))
    assert told.startswith(f"provenance.watermark: {tmp_path}/decoder_P.ckpt is no whole file of torch: ")
    assert problems(await found(lambda: places.files(config, front=False))) == ""


@pytest.mark.parametrize(
    ("login", "secret"), [("sdjax@", False), ("sdjax:word@", True), ("", False), ("?", True)]
)
async def test_a_configuration_is_a_secret_where_it_holds_a_password(
    login: str, secret: bool, tmp_path: Path
) -> None:
    (file := tmp_path / "bot.toml").touch()
    file.chmod(0o644)
    query = "?password=word" if login == "?" else ""
    queue = {
        "database": f"postgresql+asyncpg://{login.strip('?')}host/sdjax{query}",
        "artifacts": f"{tmp_path}/pictures",
    }
    config = Config.parse({"queue": queue, "provenance": {"sign": False}})
    assert (str(file) in problems(await found(lambda: places.modes(config, file)))) is secret


async def test_versions_are_compared_with_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(
        "aiohttp==0.1 \\\n    --hash=sha256:00\nno-such-package==1\nabc==1 ; sys_platform == 'none'\n"
    )
    told = problems(await found(lambda: versions.look(lock)))
    assert "aiohttp is" in told
    (page,) = set(re.findall(r"as (\S+\.md) says", told))
    assert f"--requirement {lock.name}" in (Path(__file__).parents[2] / page).read_text()
    assert "no-such-package is not installed" in told
    assert "abc" not in told


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux tells the files of processes")
async def test_a_process_that_uses_a_deleted_queue_is_named(tmp_path: Path) -> None:
    file = tmp_path / "queue.sqlite3"
    store = await Store.open(f"sqlite+aiosqlite:///{file}")
    await store.jobs.counts()
    file.unlink()
    said = [
        finding.text async for finding in database.look(f"sqlite+aiosqlite:///{file}") if not finding.well
    ]
    await store.close()
    assert said == [
        f"the process {os.getpid()} uses {file}, which was deleted or replaced: stop that process, restore a "
        "backup, and start it again."
    ]
