"""A configuration that is read again: taken, or refused with every mistake, or in part for a restart."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from bot.app.reloading import Reloading, Take
from bot.cli.main import reread
from bot.config import Config
from bot.domain.errors import StoreUnavailable
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.weights.hub import refusals


class Process:
    """A process that takes every configuration, unless it is told to fail."""

    def __init__(self) -> None:
        self.taken: list[Config] = []
        self.unprepared: Exception | None = None
        self.untaken: Exception | None = None

    async def prepare(self, config: Config) -> Take:
        if self.unprepared is not None:
            raise self.unprepared

        async def take() -> None:
            if self.untaken is not None:
                raise self.untaken
            self.taken.append(config)

        return take


class Text:
    """The text of a configuration's file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.write("")

    def write(self, text: str) -> None:
        self.file.write_text(text)


@pytest.fixture
def text(tmp_path: Path) -> Text:
    return Text(tmp_path / "bot.toml")


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def reloading(text: Text, process: Process) -> Reloading:
    return Reloading(Config(), partial(reread, text.file), process.prepare)


async def test_what_can_change_is_taken_and_one_line_names_what_needs_a_restart(
    text: Text, process: Process, reloading: Reloading, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    text.write("[queue]\nmax_waiting = 99\nlease_seconds = 9.0\n[web]\nport = 9\n[fleet]\nname = 'a'\n")
    await reloading.reload()
    (config,) = process.taken
    assert (config.queue.max_waiting, config.queue.lease_seconds, config.web.port) == (99, 60.0, 0)
    assert [record.getMessage() for record in caplog.records] == [
        "the configuration was read again; changed: queue.max_waiting",
        "these keys need a restart, and stay as they were: queue.lease_seconds, web.port",
        "these keys are for sdjax-bot fleet and usage: fleet.name",
    ]


MISTAKES = {
    "[queue]\nmax_waiting = 0\nlease = 1\n": ("queue.max_waiting: 1 is the least", "queue.lease: there is"),
    "[queue\n": ("is not TOML",),
    '[web]\ntoken_file = "no"\n[discord]\ntoken_file = "none"\n': (
        "web.token_file: there is no such file",
        "discord.token_file: there is no such file",
    ),
    '[[models]]\nloras = { ink = "no ink" }\n': (
        "SDJAX__MODELS__0__CHECKPOINT: there is no file or folder “…”",
        "models[1].loras: the LoRA “ink” has no file “no ink”",
    ),
}


@pytest.mark.parametrize("broken", MISTAKES)
async def test_every_mistake_is_logged_and_nothing_changes(
    text: Text,
    process: Process,
    reloading: Reloading,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    broken: str,
) -> None:
    text.write(broken)
    monkeypatch.setenv("SDJAX__PROMPTS__KEYWORDS_FILE", "hunter2")
    monkeypatch.setenv("SDJAX__MODELS__0__CHECKPOINT", "hunter2 pass")
    await reloading.reload()
    assert process.taken == []
    assert "hunter2" not in caplog.text
    for words in MISTAKES[broken]:
        assert words in caplog.text
    assert caplog.records[-1].getMessage() == "the configuration stays as it was"


async def test_the_hub_refuses_a_checkpoint_whose_name_comes_from_a_variable(
    process: Process,
    reloading: Reloading,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SDJAX__MODELS__0__CHECKPOINT", "hunter2/abc")
    with pytest.raises(UnreadableCheckpoint) as caught, refusals("hunter2/abc"):
        raise OfflineModeIsEnabled("Cannot reach https://hub/api/models/hunter2/abc/revision/r: offline mode")
    process.unprepared = caught.value
    await reloading.reload()
    assert caplog.messages[0] == (
        "SDJAX__MODELS__0__CHECKPOINT: There is no folder “…”, and the hub cannot be reached for a "
        "checkpoint of that name: Cannot reach the hub: offline mode."
    )


async def test_a_process_that_cannot_take_all_of_it_can_reload_again(
    text: Text, process: Process, reloading: Reloading, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    process.untaken = StoreUnavailable("The disk is full.")
    text.write("[queue]\nmax_waiting = 99\n")
    await reloading.reload()
    assert "read it again, or restart" in caplog.text
    process.untaken = None
    await reloading.reload()
    assert process.taken[0].queue.max_waiting == 99
    assert caplog.messages[-1].endswith("changed: queue.max_waiting")
