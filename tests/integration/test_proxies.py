"""The proxies that the environment names are used for every request that leaves the machine."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import aiohttp
import huggingface_hub
import pytest
from aiohttp import web
from certificate_files import write_certificate
from doctor_looks import found, problems
from forward_proxy import ForwardProxy, forward_proxy
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from serving import DEADLINE
from time_authority import time_authority
from yarl import URL

from bot.app import front
from bot.config import Config
from bot.doctor.discord_side import DiscordSide
from bot.domain.errors import UserMistake
from bot.front.uploads.attachments import Attachments, WaitingRoom
from bot.front.uploads.resolver import Resolver
from bot.front.uploads.untrusted_picture import Limits
from bot.moderation.limits import Pace, Rates, Sender
from bot.process.proxies import ProxyConnector, proxy_of
from bot.process.shutdown import Shutdown
from bot.provenance.time_relay import TimeRelay
from bot.sandbox.server import Sandbox

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
PASSWORD = "the-proxys-password"
LOGIN = "Basic bWluYTp0aGUtcHJveHlzLXBhc3N3b3Jk"

SetAddress = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *map(str.lower, NAMES)):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ForwardProxy]:
    """A proxy that the environment names, with a login."""
    async with forward_proxy() as proxy:
        for name in ("HTTP_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://mina:{PASSWORD}@{proxy.address}")
        yield proxy


@pytest.fixture
def config(sandbox: Sandbox, tmp_path: Path, discord_address: SetAddress) -> Config:
    """A bot whose Discord has a name that only the proxy knows."""
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "token").chmod(0o600)
    there = {
        "api_url": sandbox.api_url.replace("127.0.0.1", "discord.test"),
        "gateway_url": sandbox.gateway_url.replace("127.0.0.1", "discord.test"),
    }
    discord_address(there["api_url"], there["gateway_url"])
    queue = {
        "database": f"sqlite+aiosqlite:///{tmp_path}/queue.sqlite3",
        "artifacts": str(tmp_path / "artifacts"),
    }
    return Config.parse({"discord": {"token_file": str(tmp_path / "token"), **there}, "queue": queue})


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://discord.com/api", None),
        ({"HTTPS_PROXY": "http://p:1"}, "https://discord.com/api", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "wss://gateway.discord.gg/", "http://p:1"),
        ({"https_proxy": "p:1"}, "wss://gateway.discord.gg/", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://discord.com/", None),
        ({"HTTP_PROXY": "http://p:1"}, "ws://discord.com/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "wss://discord.com/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "https://q:2"}, "https://discord.com/", "https://q:2"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "discord.com"}, "https://discord.com/", None),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": ".discord.gg"}, "wss://gateway.discord.gg/", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://discord.com/", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other.com"}, "https://discord.com/", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, "http://127.0.0.1:8420/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://[::1]:8420/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://localhost:8420/", None),
    ],
)
def test_the_proxy_of_an_address_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str, proxy: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(URL(url)) == (proxy and URL(proxy))


@pytest.mark.parametrize("address", ["socks5://mina:secret@p:1", "http://", "http://mina:secret@p:port"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_login(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(OSError, match="HTTPS_PROXY") as caught:
        proxy_of(URL("https://discord.com/"))
    assert "secret" not in str(caught.value)


async def test_a_front_reaches_discord_and_its_gateway_through_the_proxy(
    config: Config, sandbox: Sandbox, proxy: ForwardProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    shutdown, ready = Shutdown(), asyncio.Event()
    serving = asyncio.create_task(front.serve(config, shutdown=shutdown, ready=ready.set))
    async with asyncio.timeout(2 * DEADLINE):
        await ready.wait()
        shutdown.request()
        await serving
    address = sandbox.address.replace("127.0.0.1", "discord.test")
    assert f"GET {address}/api/v10/users/@me HTTP/1.1" in proxy.asked
    gateway = address.replace("http", "ws", 1)
    assert any(line.startswith(f"GET {gateway}/gateway") for line in proxy.asked)
    assert {*proxy.logins} == {LOGIN}
    assert f"Discord is reached through the proxy http://{proxy.address}" in caplog.text
    assert PASSWORD not in caplog.text
    assert LOGIN not in caplog.text


async def test_the_doctor_looks_through_the_proxy(config: Config, proxy: ForwardProxy) -> None:
    side = DiscordSide(config)
    try:
        assert problems(await found(side.token, side.gateway)) == ""
    finally:
        await side.close()
    assert any(line.startswith("GET ws://discord.test") for line in proxy.asked)


async def test_a_host_of_no_proxy_is_reached_without_it(
    config: Config, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "discord.test")
    side = DiscordSide(config)
    try:
        assert "cannot be reached" in problems(await found(side.token))
    finally:
        await side.close()
    assert proxy.asked == []


async def test_an_encrypted_connection_is_a_tunnel_through_the_proxy(
    proxy: ForwardProxy, tmp_path: Path
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*write_certificate(tmp_path))
    app = web.Application()
    app.router.add_get("/", _answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    async with (
        aiohttp.ClientSession(connector=ProxyConnector(ssl=False)) as session,
        session.get(f"https://discord.test:{port}/") as answer,
    ):
        assert await answer.text() == ""
    await runner.cleanup()
    assert proxy.asked == [f"CONNECT discord.test:{port} HTTP/1.1"]
    assert proxy.logins == [LOGIN]


async def _answer(request: web.Request) -> web.Response:
    """Answer with the proxy's login if it has come as far as this, which it must not."""
    return web.Response(text=request.headers.get("Proxy-Authorization", ""))


def attachments(api_url: str, resolver: Resolver | None = None) -> Attachments:
    return Attachments(
        limits=Limits(max_bytes=1000, max_pixels=10_000),
        decoder=cast("Any", None),
        room=WaitingRoom(places=2),
        pace=Pace(Rates(), clock=lambda: 0.0),
        api_url=api_url,
        resolver=resolver,
    )


async def test_attachments_come_through_the_proxy(sandbox: Sandbox, proxy: ForwardProxy) -> None:
    files = attachments(sandbox.api_url.replace("127.0.0.1", "discord.test"))
    address = sandbox.address.replace("127.0.0.1", "discord.test")
    async with files.turn(Sender(user_id=1, guild_id=None)) as turn:
        with pytest.raises(UserMistake, match="picture_gone"):
            await files.fetch(f"{address}/attachments/1/2/a.png", what="picture", turn=turn)
    assert proxy.asked == [f"GET {address}/attachments/1/2/a.png HTTP/1.1"]


async def test_an_attachment_at_a_private_address_is_not_asked_of_the_proxy(proxy: ForwardProxy) -> None:
    class Rebinding(Resolver):
        async def resolve(self, host: str, port: int = 0, family: Any = 0) -> Any:
            return [{"hostname": host, "host": "10.0.0.7", "port": port}]

    files = attachments("https://discord.com/api/v10", Rebinding())
    async with files.turn(Sender(user_id=1, guild_id=None)) as turn:
        with pytest.raises(UserMistake, match="picture_unreachable"):
            await files.fetch("https://cdn.discordapp.com/attachments/1/2/a.png", what="picture", turn=turn)
    assert proxy.asked == []


@pytest.fixture
async def host() -> AsyncIterator[str]:
    """A host that answers every request; its name is known to the proxy alone."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://host.test:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_the_hub_is_reached_through_the_proxy(
    proxy: ForwardProxy, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # the tests' own setting
    huggingface_hub.close_session()  # its client reads the environment when it is made
    await asyncio.to_thread(huggingface_hub.get_session().get, f"{host}/api/models")
    huggingface_hub.close_session()
    assert proxy.asked == [f"GET {host}/api/models HTTP/1.1"]


async def test_time_stamps_are_asked_for_through_the_proxy(proxy: ForwardProxy, tmp_path: Path) -> None:
    query = tmp_path / "asked"
    asking = ["openssl", "ts", "-query", "-data", __file__, "-sha256", "-cert", "-out", str(query)]
    await asyncio.to_thread(subprocess.run, asking, check=True, capture_output=True)
    with time_authority(tmp_path) as address:
        named = address.replace("127.0.0.1", "stamps.test") + "/tsa"
        relay = TimeRelay(named, seconds=DEADLINE)
        answer = await asyncio.to_thread(relay.answer, query.read_bytes())
    assert (relay.trouble, answer) == ("", (tmp_path / "reply").read_bytes())
    assert (proxy.asked, proxy.logins) == ([f"POST {named} HTTP/1.1"], [LOGIN])


async def test_traces_are_sent_through_the_proxy(proxy: ForwardProxy, host: str) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{host}/v1/traces")
    await asyncio.to_thread(exporter.export, [])
    exporter.shutdown()
    assert proxy.asked == [f"POST {host}/v1/traces HTTP/1.1"]
