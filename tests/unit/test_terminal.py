"""What commands print does no harm to a terminal, whatever the files and rows are that it quotes."""

from __future__ import annotations

import asyncio
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from recipes import origin, recipe
from test_cli import run

from bot.cli.terminal import MOST, say
from bot.store import Store
from bot.store.rows.audit import EVERYWHERE, OPERATOR, By
from bot.store.rows.device_time import Spent
from bot.store.rows.restrictions import Scope
from sdjax_engine.weights.files import DEMO_FOLDER

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\nwell  all is well\x9b"
HARMFUL = "\x1b\x07\u202e\x9b"
LONG = 4 << 20


def with_tensor(name: str) -> Callable[[Path], None]:
    """Adds an empty tensor of this name to the UNet's file."""

    def change(folder: Path) -> None:
        file = next((folder / "unet").glob("*.safetensors"))
        raw = file.read_bytes()
        [length] = struct.unpack("<Q", raw[:8])
        header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
        header[name] = {"dtype": "F32", "shape": [0], "data_offsets": [len(data), len(data)]}
        written = json.dumps(header).encode()
        file.write_bytes(struct.pack("<Q", len(written)) + written + data)

    return change


def with_values(file: str, **values: object) -> Callable[[Path], None]:
    """Changes values of a file of JSON."""

    def change(folder: Path) -> None:
        path = folder / file
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, **values}))

    return change


CHANGES = [
    with_tensor(HOSTILE),
    with_tensor("y" * LONG),
    with_values("model_index.json", _class_name=HOSTILE),
    with_values("unet/config.json", act_fn=HOSTILE, down_block_types=[HOSTILE]),
    with_values("scheduler/scheduler_config.json", beta_schedule=HOSTILE, prediction_type=HOSTILE),
]


@pytest.mark.parametrize("change", CHANGES, ids=["tensor", "long", "class", "network", "schedule"])
@pytest.mark.parametrize("command", ["imagine", "doctor"])
def test_a_hostile_checkpoint_is_told_without_its_control_characters_and_on_short_lines(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    change: Callable[[Path], None],
    command: str,
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(DEMO_FOLDER, checkpoint)
    change(checkpoint)
    config = tmp_path / "config.toml"
    config.write_text(
        f'[discord]\napi_url = "http://127.0.0.1:1/api"\ngateway_url = "ws://127.0.0.1:1/"\n'
        f'[queue]\ndatabase = "sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"\nartifacts = "{tmp_path}/a"\n'
        f'[[models]]\nname = "m"\ncheckpoint = "{checkpoint}"\nsizes = ["64x64"]\n'
    )
    if command == "imagine":
        arguments = ["imagine", "a tree", "--model", str(checkpoint), "-o", str(tmp_path / "tree.png")]
    else:
        arguments = ["doctor", "--role", "worker", "--config", str(config)]
    assert run(monkeypatch, *arguments) != 0
    told = "".join(capfd.readouterr())
    assert told
    assert not any(character in told for character in HARMFUL)
    assert "\nwell  all is well" not in told
    assert max(map(len, told.splitlines())) < MOST + 100


def test_words_of_people_in_rows_are_printed_without_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3"
    config = tmp_path / "config.toml"
    config.write_text(f'[queue]\ndatabase = "{database}"\nartifacts = "{tmp_path}/results"\n')
    asyncio.run(_hostile_rows(database))
    for command in ("blocks", "known show", "usage", "usage --csv", "usage --json"):
        assert run(monkeypatch, *command.split(), "--config", str(config)) == 0
        told = capsys.readouterr().out
        assert "owned" in told
        assert not any(character in told for character in HARMFUL)


async def _hostile_rows(database: str) -> None:
    store = await Store.open(database)
    by = By(actor_id=OPERATOR, guild_id=EVERYWHERE, reason=HOSTILE)
    await store.moderation.block(Scope(user_id=11), by)
    await store.known.block(5, by)
    await store.jobs.enqueue(recipe(model=HOSTILE), origin(1))
    [claim] = await store.leases.claim("worker", limit=1, ttl=60.0)
    spent = Spent(accelerator="cpu", seconds=1.0)
    await store.leases.complete(claim, artifact="aa/1.png", seconds=1.0, spent=spent)
    await store.close()


def test_a_long_line_loses_its_middle_and_keeps_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"The file has the tensor {'y' * LONG}: take another file.\nA short line.")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("The file has the tensor yyy")
    assert first.endswith(": take another file.")
    assert (len(first) < MOST + 9, second) == (True, "A short line.")
