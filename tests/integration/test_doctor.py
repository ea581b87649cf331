"""The doctor on the sandbox, PostgreSQL and checkpoints: each fault is a line that says what to do."""

from __future__ import annotations

import io
import json
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from doctor_looks import changed, found, problems
from postgres_server import PostgresServer
from processes import end, start
from sandbox_tools import CHANNEL_IDS
from scene import until_true
from serving import Served
from z_image_files import make_tiny_z_image

from bot.config import Config
from bot.doctor import database, painting
from bot.doctor.discord_side import DiscordSide
from bot.doctor.findings import Finding
from bot.sandbox.permissions import Permission
from bot.sandbox.server import Sandbox
from sdjax_engine.config import ModelSpec
from sdjax_engine.memory import residency
from sdjax_engine.model.defaults import default_offer
from sdjax_engine.request import Int8
from sdjax_engine.startup.model_check import check_model

LOOKING = """
import asyncio
from bot.config import Config
from bot.doctor import painting
async def look():
    async for _ in painting.in_process(Config(), painting.DEVICES):
        pass
asyncio.run(look())
"""
ART = int(CHANNEL_IDS["art"])


def configuration(sandbox: Sandbox, folder: Path, token: str) -> Config:
    file = folder / "token"
    file.write_text(token)
    file.chmod(0o600)
    discord = {"api_url": sandbox.api_url, "gateway_url": sandbox.gateway_url, "token_file": str(file)}
    queue = {
        "database": f"sqlite+aiosqlite:///{folder}/queue.sqlite3",
        "artifacts": str(folder / "artifacts"),
    }
    return Config.parse({"discord": discord, "queue": queue})


async def examined(config: Config, channel: int = ART) -> list[Finding]:
    side = DiscordSide(config)
    try:
        return await found(side.token, side.gateway, lambda: side.channel(channel), side.commands)
    finally:
        await side.close()


async def test_discord_is_well_where_the_bot_serves(served: Served, tmp_path: Path) -> None:
    findings = await examined(configuration(served.sandbox, tmp_path, "a-token"))
    assert problems(findings) == ""
    assert len(findings) == 4
    assert "as this version has them" in findings[-1].text


async def test_faults_of_discord_are_told_apart(
    lenient: Sandbox, tmp_path: Path, discord_address: object
) -> None:
    config = configuration(lenient, tmp_path, "a-token")
    lenient.forbid("art", Permission.ATTACH_FILES)
    lenient.misbehave(refuse_intents=1)
    findings = await examined(config)
    assert [finding.well for finding in findings] == [True, False, False, True]
    assert "refuses the bot's intents" in findings[1].text
    assert "lacks Attach Files" in findings[2].text
    assert "no commands are registered" in findings[3].text
    assert "not there, or hidden" in problems(await examined(config, channel=77))


async def test_a_wrong_token_is_named_once_and_the_rest_was_not_tried(
    lenient: Sandbox, tmp_path: Path, discord_address: object
) -> None:
    findings = await examined(configuration(lenient, tmp_path, "another-token"))
    assert [finding.well for finding in findings] == [False] * 4
    assert "Discord refuses the token" in findings[0].text
    assert all("login failed" in finding.text for finding in findings[1:])
    assert "another-token" not in problems(findings)


@pytest.mark.postgres
async def test_postgresql_says_its_version_rights_level_clock_and_connections(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    findings = await found(lambda: database.look(postgres_url))
    assert problems(findings) == ""
    assert len(findings) == 5

    late = await found(lambda: database.look(postgres_url, clock=lambda: 0.0))
    assert "synchronise both" in problems(late)

    name = postgres_url.partition("@/")[2].partition("?")[0]
    postgres_server.execute("CREATE ROLE reader LOGIN PASSWORD 'not-a-secret' CONNECTION LIMIT 3")
    try:
        reading = await found(lambda: database.look(postgres_server.url(name, user="reader")))
        assert "permission" in problems(reading) or "lacks" in problems(reading)
        await changed(postgres_url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        told = problems(await found(lambda: database.look(postgres_server.url(name, user="reader"))))
        assert "GRANT DELETE ON" in told
        assert "3 connections are left" in told
        postgres_server.execute("ALTER ROLE reader CONNECTION LIMIT 0")
        told = problems(await found(lambda: database.look(postgres_server.url(name, user="reader"))))
        assert "no connection left" in told
        await changed(postgres_url, "DROP OWNED BY reader")
    finally:
        postgres_server.execute("DROP ROLE reader")


async def test_checkpoints_and_devices_are_looked_at_in_a_process_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    demo = {"name": "demo", "loras": {"ink": "no/ink.safetensors"}, "embeddings": {"cat": "no/cat.pt"}}
    demo["controlnets"] = {"canny": {"source": "./no", "types": ["edges"]}}
    demo["image_prompt"] = "no/ip-adapter.safetensors"
    others = {"lost": f"{tmp_path}/lost", "fetched": "some/where"}
    config = Config.parse({"models": [demo, *({"name": a, "checkpoint": b} for a, b in others.items())]})
    findings = await found(lambda: painting.in_process(config, painting.CHECKPOINTS), seconds=120)
    told = {finding.text.split()[0].rstrip(":"): finding for finding in findings}
    assert findings[0].well
    assert "which fits" in findings[0].text
    assert "the LoRA “ink” has no file" in problems(findings)
    assert "models[1].embeddings: “cat” has no file" in problems(findings)
    assert "models[1].controlnets.canny.source: there is no file or folder “./no”" in problems(findings)
    assert "models[1].image_prompt: there is no file “no/ip-adapter" in problems(findings)
    assert "there is no file or folder" in told["models[2].checkpoint"].text
    assert "There is no folder “some/where”" in told["models[3]"].text


@pytest.mark.parametrize(
    # The demo's UNet takes 15.2 MiB in float32, and half of it in bfloat16; the demo takes 21.4 MiB.
    ("engine", "most", "helps"),
    [
        ({"device_memory_gib": 0.012}, 2**30, ["use bfloat16", "raise engine.device_memory_gib"]),
        ({"device_memory_gib": 0.001}, 2**30, ["raise engine.device_memory_gib"]),
        ({"device_memory_gib": 0.012}, 2**23, ["use bfloat16"]),
        ({"device_memory_gib": 0.001}, 2**23, []),
        ({"device_memory_gib": 0.001, "dtype": "bfloat16"}, None, ["raise engine.device_memory_gib"]),
        ({}, 2**23, ["use bfloat16"]),
        ({}, 2**20, []),
        ({"dtype": "bfloat16"}, 2**20, []),
    ],
)
def test_a_checkpoint_that_no_device_holds_is_a_problem(
    *,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: dict[str, object],
    most: int | None,
    helps: list[str],
) -> None:
    monkeypatch.setattr(residency, "most_memory", lambda _mesh: most)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"engine": engine})))
    painting.main(painting.CHECKPOINTS)
    (finding,) = [Finding(**json.loads(line)) for line in capsys.readouterr().out.splitlines()]
    assert not finding.well
    assert " of it at once" in finding.text
    assert finding.text.endswith(f": {', or '.join(['offer a smaller checkpoint', *helps])}.")


def test_a_checkpoint_of_which_a_device_holds_only_the_largest_part_opens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"engine": {"device_memory_gib": 0.018}})))
    painting.main(painting.CHECKPOINTS)
    (finding,) = [Finding(**json.loads(line)) for line in capsys.readouterr().out.splitlines()]
    assert finding.well
    assert "of which parts take turns on a device" in finding.text


def test_a_checkpoint_that_fits_with_int8_weights_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkpoint = str(make_tiny_z_image(tmp_path / "z"))

    def looked_at(gib: float, **values: object) -> Finding:
        engine = {"device_memory_gib": gib, "dtype": "bfloat16"}
        model = {"name": "z", "checkpoint": checkpoint, "sizes": ["64x64"], **values}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"models": [model], "engine": engine})))
        painting.main(painting.CHECKPOINTS)
        (finding,) = [Finding(**json.loads(line)) for line in capsys.readouterr().out.splitlines()]
        return finding

    def bytes_at_once(int8: tuple[Int8, ...]) -> int:
        offer = replace(default_offer(checkpoint, model="z"), int8=int8)
        checked = check_model(ModelSpec(offer=offer, source=checkpoint), dtype="bfloat16", previews=False)
        assert checked is not None
        return checked.at_once

    both = tuple(Int8)
    between = (bytes_at_once(()) + bytes_at_once(both)) / 2 / 2**30
    without = looked_at(between)
    assert not without.well
    assert 'or set int8 = ["text_encoder", "denoiser"], or raise' in without.text
    with_int8 = looked_at(between, int8=list(both))
    assert with_int8.well
    assert "in bfloat16 and INT8" in with_int8.text


@pytest.fixture
def hanging_jax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that start now hang once they import JAX, as in a driver that hangs."""
    (tmp_path / "jax.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("hanging_jax")
async def test_a_process_of_a_look_that_hangs_is_killed_at_the_end_of_its_time() -> None:
    told = problems(await found(lambda: painting.in_process(Config(), painting.DEVICES), seconds=2))
    assert "no answer within 2 s" in told
    children = psutil.Process().children(recursive=True)
    assert not [child for child in children if painting.__name__ in child.cmdline()]


@pytest.mark.usefixtures("hanging_jax")
async def test_a_process_of_a_look_that_hangs_dies_with_the_doctor(tmp_path: Path) -> None:
    doctor = await start(err=tmp_path / "err", program=("-c", LOOKING), forked=True)
    looking: list[psutil.Process] = []

    async def looks() -> bool:
        looking[:] = psutil.Process(doctor.process.pid).children()
        return [each.cmdline()[1:3] for each in looking] == [["-m", painting.__name__]]

    try:
        await until_true(looks, "the look")
    finally:
        await end(doctor, signal.SIGKILL)
    gone, alive = psutil.wait_procs(looking, timeout=20)
    assert gone
    assert not alive


async def test_a_process_of_a_look_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "no_such_platform")
    assert "no_such_platform" in problems(
        await found(lambda: painting.in_process(Config(), painting.DEVICES), seconds=120)
    )


async def test_a_process_of_a_look_gets_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    (tmp_path / "jax.py").write_text(
        f"import os, sys\nopen({str(said)!r}, 'w').write(repr((sys.stdin.read(), dict(os.environ))))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DISCORD_TOKEN", "a-secret")
    monkeypatch.setenv("SDJAX__QUEUE__DATABASE", "postgresql+asyncpg://bot:a-secret@host/queue")
    config = Config.load(None)
    await found(lambda: painting.in_process(config, painting.DEVICES), seconds=60)
    assert "PYTHONPATH" in said.read_text()
    assert "a-secret" not in said.read_text()
