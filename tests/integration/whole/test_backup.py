"""The shipped commands `backup` and `restore`: a bot goes on from a backup, on the other kind of database."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from processes import Ended, end, running, start, write_config
from test_restart import LONG, assert_each_once, connected, delivered

from bot.sandbox.client import Member
from bot.sandbox.server import Sandbox

REQUESTS = 4


async def command(name: str, place: Path, config: Path) -> Ended:
    """Run `sdjax-bot backup` or `restore` to its end."""
    arguments = (name, str(place), "--config", str(config))
    return await end(await start(*arguments, err=config.with_suffix(f".{name}.err")))


@pytest.mark.slow
@pytest.mark.postgres
async def test_a_bot_restored_into_postgresql_paints_what_waited_and_delivers_once(
    sandbox: Sandbox, tmp_path: Path, tiny_checkpoint: Path, compile_cache: Path, bare_postgres_url: str
) -> None:
    common = {"api_url": sandbox.api_url, "gateway_url": sandbox.gateway_url}
    folders = [tmp_path / name for name in ("lost", "new")]
    for folder in folders:
        folder.mkdir()
    lost, new = (
        write_config(folder, checkpoint=tiny_checkpoint, cache=compile_cache, database=database, **common)
        for folder, database in zip(folders, (None, bare_postgres_url), strict=True)
    )
    place = tmp_path / "backups"
    async with Member(sandbox.address, "Mina") as mina:
        async with running(lost) as process:
            await connected(sandbox)
            interactions = [
                await mina.imagine(prompt=f"a red circle {number}", seed=number, **LONG)
                for number in range(REQUESTS)
            ]
            await delivered(mina, 1)
            made = await command("backup", place, lost)
            assert made.status == 0, made.err
            await end(process, signal.SIGKILL)
        (backup,) = place.glob("2*")
        assert json.loads((backup / "manifest.json").read_text())["tables"]["jobs"]["rows"] == REQUESTS
        back = await command("restore", place, new)
        assert back.status == 0, back.err
        again = await command("restore", place, new)
        assert (again.status, "is not empty" in again.err) == (1, True), again.err
        async with running(new) as process:
            await delivered(mina, REQUESTS)
            stopped = await end(process, signal.SIGTERM)
        assert stopped.status == 0, stopped.err
        assert_each_once(await mina.messages(), interactions)
    assert len(list((folders[1] / "artifacts").glob("*/*.png"))) >= REQUESTS
