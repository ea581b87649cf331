"""`sdjax-bot backup` and `restore`: what they say, and their mistakes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import run

from bot.backup import places

pytestmark = pytest.mark.usefixtures("reflected_once")


@pytest.fixture
def configs(tmp_path: Path, sqlite_url: str) -> tuple[str, str]:
    """The configuration of a queue, and one of an empty folder."""
    files = []
    for name, url in (("old", sqlite_url), ("new", f"sqlite+aiosqlite:///{tmp_path}/new/queue.sqlite3")):
        file = tmp_path / f"{name}.toml"
        file.write_text(f'[queue]\ndatabase = "{url}"\nartifacts = "{tmp_path}/{name}/artifacts"\n')
        files.append(str(file))
    return files[0], files[1]


def test_a_backup_is_made_kept_and_restored(
    configs: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (old, new), place = configs, tmp_path / "backups"
    for _ in range(2):
        assert run(monkeypatch, "backup", str(place), "--config", old, "--keep", "1") == 0
    first, second, deleted = capsys.readouterr().out.splitlines()
    assert first.split(" holds ")[1] == second.split(" holds ")[1] == "0 requests and 0 pictures, 0.0 MiB."
    assert deleted == f"{first.split(' holds ')[0]} is deleted."
    assert run(monkeypatch, "restore", str(place), "--config", new) == 0
    assert capsys.readouterr().out.startswith(f"{second.split(' holds ')[0]} is restored: 0 requests")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["backup", "{place}", "--keep", "0"], (2, "--keep")),
        (["backup"], (2, "PLACE")),
        (["backup", "{place}/no/disk"], (1, "cannot be written: No such file or directory.")),
        (["restore", "{place}"], (1, "cannot be read: No such file or directory.")),
    ],
)
def test_mistakes_are_sentences(
    arguments: list[str],
    answer: tuple[int, str],
    configs: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, said = answer
    filled = [each.format(place=Path(configs[0]).parent / "place") for each in arguments]
    assert run(monkeypatch, *filled, "--config", configs[0]) == status
    assert said in capsys.readouterr().err


def test_a_backup_of_a_queue_that_is_not_there_leaves_no_folder_behind(
    configs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "backups"
    assert run(monkeypatch, "backup", str(place), "--config", configs[1]) == 1
    assert not place.exists()
    assert run(monkeypatch, "backup", str(place), "--config", configs[0]) == 0
    assert run(monkeypatch, "backup", str(place), "--config", configs[1]) == 1
    assert len(places.backups(place)) == 1


def test_the_drill_of_the_documentation_restores_a_backup(
    configs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    assert run(monkeypatch, "backup", str(tmp_path / "backups"), "--config", configs[0]) == 0
    page = (root / "docs" / "operators" / "backup.md").read_text()
    drill = page.partition("## Try it")[2].split("```sh\n")[1].partition("```")[0]
    command = f"{sys.executable} -m bot"
    drill = drill.replace("/var/backups/sdjax", str(tmp_path / "backups")).replace("sdjax-bot", command)
    shutil.copy(root / "config.example.toml", tmp_path / "bot.toml")
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-euc", drill], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert " is restored: 0 requests" in done.stdout
    assert not list(tmp_path.glob("tmp.*"))
