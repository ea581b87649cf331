"""The limit on restarts of a process, and the restart itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from processes import end, sentences, start

from bot.process.restarts import MOST, VARIABLE, WITHIN_SECONDS, count, last
from bot.process.restarts import record as record_restart

NOW = 1_800_000_000.0


def test_a_restart_is_appended_to_the_restarts_of_the_last_hour() -> None:
    assert record_restart({}, now=NOW) == "1800000000"
    record = f"{NOW - WITHIN_SECONDS - 1:.0f} {NOW - 60:.0f} nonsense"
    after = record_restart({VARIABLE: record}, now=NOW)
    assert after == "1799999940 1800000000"
    assert (count({VARIABLE: after}), last({VARIABLE: after}), last({})) == (2, NOW, 0.0)


def test_after_too_many_restarts_the_next_is_refused_until_the_first_are_old() -> None:
    environ: dict[str, str] = {}
    for number in range(MOST):
        record = record_restart(environ, now=NOW + number)
        assert record is not None
        environ[VARIABLE] = record
    assert record_restart(environ, now=NOW + MOST) is None
    assert record_restart(environ, now=NOW + WITHIN_SECONDS) is not None


DYING = """
import sys, types
from sdjax_engine.errors import EngineClosed

def die(config, load):
    print("painting with", config.engine.cpu_devices, flush=True)
    raise EngineClosed("The devices answer nothing any more.")

sys.modules["bot.app.both"] = types.SimpleNamespace(run_both=die)
from bot.cli.main import main
main()
"""


@pytest.mark.slow
async def test_a_bot_whose_engine_keeps_dying_restarts_with_its_arguments_and_then_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier, restarts = MOST - 2, 2  # the start of an interpreter takes a second
    monkeypatch.setenv(VARIABLE, " ".join([f"{time.time():.0f}"] * earlier))
    (tmp_path / "bot.toml").write_text("[engine]\ncpu_devices = 17\n")
    out = tmp_path / "out"
    with out.open("wb") as file:
        bot = await start(
            *("run", "--config", "bot.toml"),
            err=tmp_path / "err",
            folder=tmp_path,
            out=file.fileno(),
            program=("-X", "utf8", "-c", DYING),
        )
        ended = await end(bot)
    assert out.read_text().splitlines() == ["painting with 17"] * (1 + restarts)
    assert ended.status == 75
    assert sentences(ended.err) == [
        "sdjax-bot: The devices answer nothing any more. 5 restarts within an hour have not helped: "
        "look at the devices."
    ]
    assert ended.err.count("The bot restarts.") == restarts
    assert "Traceback" not in ended.err
