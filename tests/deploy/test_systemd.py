"""The systemd units, as systemd itself reads them."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from bot.cli import main
from bot.process.shutdown import MOST_FILES

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
TIMERS = sorted(path.name for path in FOLDER.glob("*.timer"))
BACKUP = "sdjax-backup.service"
PROGRAM = "/opt/sdjax/bin/sdjax-bot"
MOST_EXPOSED = 20  # in tenths, as `systemd-analyze security` counts
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def read(unit: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(FOLDER / unit)
    return parser


def service(unit: str) -> configparser.SectionProxy:
    return read(unit)["Service"]


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units; their program is replaced by one that exists on this machine."""
    for unit in UNITS + TIMERS:
        (tmp_path / unit).write_text((FOLDER / unit).read_text().replace(PROGRAM, "/bin/true"))
    return tmp_path


@needs_systemd
@pytest.mark.parametrize("unit", UNITS + TIMERS)
def test_systemd_finds_no_mistake(units: Path, unit: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", units / unit.replace("@.", "@0.")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "sdjax" in line] == []
    assert done.returncode == 0, done.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_a_unit_little_exposed(units: Path, unit: str) -> None:
    subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={MOST_EXPOSED}",
            "--no-pager",
            units / unit,
        ],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_has_an_account_of_its_own(unit: str) -> None:
    assert service(unit)["User"] == "sdjax"
    assert "u sdjax " in (FOLDER / "sysusers.conf").read_text()


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != BACKUP])
def test_a_unit_may_open_as_many_files_as_the_bot_asks_for(unit: str) -> None:
    assert int(service(unit)["LimitNOFILE"]) == MOST_FILES


@pytest.mark.parametrize("unit", UNITS)
def test_a_mistake_in_the_configuration_is_not_tried_again(unit: str) -> None:
    assert service(unit)["Restart"] == "on-failure"
    assert service(unit)["RestartPreventExitStatus"] == "2"


@pytest.mark.parametrize("unit", UNITS)
def test_an_outage_of_hours_is_survived_and_discord_is_not_asked_too_often(unit: str) -> None:
    parser = read(unit)
    every, seconds = int(parser["Service"]["RestartSec"]), int(parser["Unit"]["StartLimitIntervalSec"])
    if seconds == 0:
        assert "worker" in unit, "a front in a loop would have the bot's token taken back"
        return
    most = int(parser["Unit"]["StartLimitBurst"])
    assert every * most >= 4 * 3600
    assert most * 86400 / seconds < 1000


@pytest.mark.parametrize("unit", [unit for unit in UNITS if "front" not in unit and unit != BACKUP])
def test_a_unit_with_an_engine_waits_for_its_drain(unit: str) -> None:
    assert int(service(unit)["TimeoutStopSec"]) >= 300 + 45


def test_a_night_without_a_backup_keeps_no_other_night_from_it() -> None:
    parser, timer = read(BACKUP), read(BACKUP.replace(".service", ".timer"))["Timer"]
    minutes = int(timer["RandomizedDelaySec"].removesuffix("min"))
    interval = int(parser["Unit"]["StartLimitIntervalSec"])
    assert interval < 86400 - 60 * minutes
    tries = int(parser["Unit"]["StartLimitBurst"])
    # The limit is reached where each try takes a quarter of an hour, too.
    assert interval > 2 * tries * int(parser["Service"]["RestartSec"])
    page = (FOLDER.parents[1] / "docs" / "operators" / "backup.md").read_text()
    assert f"at most {tries} tries in the twelve hours" in page
    assert interval == 12 * 3600  # as the page says


def test_a_backup_is_made_every_night_by_a_command_that_exists() -> None:
    (timer,) = TIMERS
    assert timer == BACKUP.replace(".service", ".timer")
    program, command, place, *options = service(BACKUP)["ExecStart"].split()
    assert (program, place) == (PROGRAM, service(BACKUP)["ReadWritePaths"])
    parser = main.commands.commands[command].make_parser(click.Context(main.commands.commands[command]))
    assert parser.parse_args([place, *options])[0]["keep"] == "14"
