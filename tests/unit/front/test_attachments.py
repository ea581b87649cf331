"""Files are fetched from Discord's own hosts only, within limits of size and time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from bot.errors import UserMistake
from bot.front.attachments import CDN, PROXIES, Attachments, is_attachment, is_proxied
from bot.front.decoding import Decoder
from bot.front.pictures import Limits
from bot.front.waiting_room import WaitingRoom
from bot.moderation.limits import Pace, Rates

LIMITS = Limits(max_bytes=1000, max_pixels=10_000)
ORIGINS = frozenset({*map(URL, CDN), URL("http://127.0.0.1:8420")})
PROXY_ORIGINS = frozenset({*map(URL, PROXIES), URL("http://127.0.0.1:8420")})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a host on loopback that answers every request alike; returns its address."""
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


def at(address: str, **values: Any) -> Attachments:
    return Attachments(
        limits=LIMITS,
        decoder=Decoder(limits=LIMITS, memory=256 << 20, seconds=10),
        room=WaitingRoom(places=8),
        pace=Pace(Rates(), clock=time.monotonic),
        api_url=f"{address}/api/v10",
        **values,
    )


async def problem_of(attachments: Attachments, url: str) -> str:
    with pytest.raises(UserMistake) as caught:
        await attachments.fetch(url, what="“image”")
    assert caught.value.details["what"] == "“image”"
    return caught.value.message_id


@pytest.mark.parametrize(
    "address",
    [
        "https://cdn.discordapp.com/attachments/1/2/a.png?ex=6a&is=69&hm=0f&",
        "https://cdn.discordapp.com/ephemeral-attachments/1/2/a.png",
        "https://media.discordapp.net/attachments/1/2/a.png?width=10",
        "http://127.0.0.1:8420/attachments/1/2/a.png",
    ],
)
def test_files_of_discord_are_known_by_their_address(address: str) -> None:
    assert is_attachment(address, ORIGINS)


@pytest.mark.parametrize(
    "address",
    [
        "https://images-ext-1.discordapp.net/external/4nV1w-8/https/example.org/a.png",
        "https://media.discordapp.net/external/4nV1w-8/https/example.org/a.png",
        "http://127.0.0.1:8420/external/0/https/example.org/a.png",
    ],
)
def test_pictures_of_other_hosts_come_by_discords_proxy(address: str) -> None:
    assert is_proxied(address, PROXY_ORIGINS)
    assert not is_attachment(address, ORIGINS)
    attachments = at("http://127.0.0.1:8420")
    assert attachments.reachable(("https://example.org/a.png", address)) == address


@pytest.mark.parametrize(
    "address",
    [
        "https://images-ext-1.discordapp.net/attachments/1/2/a.png",
        "https://cdn.discordapp.com/external/4nV1w-8/https/example.org/a.png",
        "https://images-ext-1.discordapp.net.example.org/external/4nV1w-8/https/example.org/a.png",
        "https://images-ext-1.discordapp.net/external/../attachments/a.png",
        "http://images-ext-1.discordapp.net/external/4nV1w-8/https/example.org/a.png",
    ],
)
def test_the_proxy_is_known_by_its_hosts_and_its_folder(address: str) -> None:
    assert not is_proxied(address, PROXY_ORIGINS)
    assert at("http://127.0.0.1:8420").reachable((address,)) is None


@pytest.mark.parametrize(
    "address",
    [
        "http://cdn.discordapp.com/attachments/1/2/a.png",
        "https://cdn.discordapp.com:8443/attachments/1/2/a.png",
        "https://cdn.discordapp.com.example.org/attachments/1/2/a.png",
        "https://example.org/cdn.discordapp.com/attachments/1/2/a.png",
        "https://cdn.discordapp.com@example.org/attachments/1/2/a.png",
        "https://somebody@cdn.discordapp.com/attachments/1/2/a.png",
        "https://example.org\\@cdn.discordapp.com/attachments/1/2/a.png",
        "https://cdn.discordapp.com/icons/1/2.png",
        "https://cdn.discordapp.com/attachments/../icons/1/2.png",
        "https://cdn.discordapp.com/attachments/%2e%2e/icons/1/2.png",
        "https://cdn.discordapp.com/",
        "https://discord.com/api/v10/users/@me",
        "http://127.0.0.1/attachments/1/2/a.png",
        "http://169.254.169.254/attachments/latest",
        "http://[::1]:8420/attachments/1/2/a.png",
        "file:///attachments/1/2/a.png",
        "//cdn.discordapp.com/attachments/1",
        "https:///attachments/1",
        "https://cdn.discordapp.com:port/attachments/1",
        "",
    ],
)
async def test_other_addresses_are_never_fetched(address: str) -> None:
    assert not is_attachment(address, ORIGINS)
    assert await problem_of(at("http://127.0.0.1:8420"), address) == "picture_unreachable"


async def test_a_file_comes_as_it_was_sent(serve: Serve) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.Response(body=b"x" * 1000)

    address = await serve(answer)
    found = await at(address).fetch(f"{address}/attachments/1/a.png?ex=6a&hm=%2F&", what="“image”")
    assert found == b"x" * 1000
    assert asked == ["/attachments/1/a.png?ex=6a&hm=%2F&"]  # another query would have another signature


@pytest.mark.parametrize(
    ("status", "problem"),
    [(404, "picture_gone"), (403, "picture_gone"), (410, "picture_gone"), (500, "picture_unreachable")],
)
async def test_an_expired_address_is_distinguished_from_a_failing_host(
    serve: Serve, status: int, problem: str
) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status)

    address = await serve(answer)
    assert await problem_of(at(address), f"{address}/attachments/1") == problem


async def test_no_redirect_is_followed(serve: Serve) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPFound("/attachments/elsewhere")

    address = await serve(answer)
    assert await problem_of(at(address), f"{address}/attachments/1") == "picture_unreachable"
    assert asked == ["/attachments/1"]


async def test_a_file_longer_than_its_stated_size_is_cut_off_at_the_limit(serve: Serve) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:  # until the client closes the connection
            await response.write(bytes(4096))

    address = await serve(answer)
    assert await problem_of(at(address), f"{address}/attachments/1") == "picture_heavy"


async def test_no_content_encoding_is_decoded(serve: Serve) -> None:
    async def answer(_request: web.Request) -> web.Response:
        response = web.Response(body=bytes(1 << 20))
        response.enable_compression(web.ContentCoding.deflate)
        return response

    address = await serve(answer)
    assert await problem_of(at(address), f"{address}/attachments/1") == "picture_heavy"


async def test_a_host_that_does_not_answer_times_out(serve: Serve) -> None:
    never = asyncio.Event()

    async def answer(_request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    address = await serve(answer)
    attachments = at(address, fetch_seconds=0.05)
    assert await problem_of(attachments, f"{address}/attachments/1") == "picture_unreachable"


async def test_an_unreachable_host_is_an_error() -> None:
    assert await problem_of(at("http://127.0.0.1:9"), "http://127.0.0.1:9/attachments/1") == (
        "picture_unreachable"
    )
