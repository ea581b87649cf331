"""Files are fetched from Discord's own hosts only, within limits of size and time."""

from __future__ import annotations

import asyncio
import io
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import PIL.Image
import pytest
from aiohttp import web
from yarl import URL

from bot.domain.errors import UserMistake
from bot.front.uploads.attachments import (
    CDN,
    FILES_HELD,
    FOREIGN_SECONDS,
    PROXIES,
    Attachments,
    WaitingRoom,
    is_attachment,
    is_proxied,
)
from bot.front.uploads.decoder import Decoder, Used
from bot.front.uploads.untrusted_picture import Limits, Picture
from bot.moderation.limits import Pace, Rates, Sender

LIMITS = Limits(max_bytes=1000, max_pixels=10_000)
ORIGINS = frozenset({*map(URL, CDN), URL("http://127.0.0.1:8420")})
PROXY_ORIGINS = frozenset({*map(URL, PROXIES), URL("http://127.0.0.1:8420")})
RAVI = Sender(user_id=1, guild_id=4)
PUBLIC, PUBLIC_6 = "162.159.130.233", "2606:4700::6811:180e"
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
    parts: dict[str, Any] = {
        "limits": LIMITS,
        "decoder": Decoder(limits=LIMITS, memory=256 << 20, seconds=10),
        "room": WaitingRoom(places=8),
        "pace": Pace(Rates(), clock=time.monotonic),
    }
    return Attachments(api_url=f"{address}/api/v10", **{**parts, **values})


def png(width: int, height: int) -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height)).save(file, "PNG")
    return file.getvalue()


async def fetched(attachments: Attachments, url: str, sender: Sender = RAVI) -> bytes:
    async with attachments.turn(sender) as turn:
        return await attachments.fetch(url, what="“image”", turn=turn)


async def problem_of(attachments: Attachments, url: str) -> str:
    with pytest.raises(UserMistake) as caught:
        await fetched(attachments, url)
    assert caught.value.details["what"] == "“image”"
    return caught.value.message_id


FILES = (
    "https://cdn.discordapp.com/attachments/1/2/a.png?ex=6a&is=69&hm=0f&",
    "https://cdn.discordapp.com/ephemeral-attachments/1/2/a.png",
    "https://media.discordapp.net/attachments/1/2/a.png?width=10",
    "http://127.0.0.1:8420/attachments/1/2/a.png",
)
OF_THE_PROXY = (
    "https://images-ext-1.discordapp.net/external/4nV1w-8/https/example.org/a.png",
    "https://media.discordapp.net/external/4nV1w-8/https/example.org/a.png",
    "http://127.0.0.1:8420/external/0/https/example.org/a.png",
)
NEITHER = (
    "https://images-ext-1.discordapp.net/attachments/1/2/a.png",
    "https://cdn.discordapp.com/external/4nV1w-8/https/example.org/a.png",
    "https://images-ext-1.discordapp.net.example.org/external/4nV1w-8/https/example.org/a.png",
    "https://images-ext-1.discordapp.net/external/../attachments/a.png",
    "http://images-ext-1.discordapp.net/external/4nV1w-8/https/example.org/a.png",
)


@pytest.mark.parametrize("address", [*FILES, *OF_THE_PROXY, *NEITHER])
def test_discords_files_and_the_pictures_of_its_proxy_are_known_by_their_address(address: str) -> None:
    known = is_attachment(address, ORIGINS), is_proxied(address, PROXY_ORIGINS)
    assert known == (address in FILES, address in OF_THE_PROXY)
    reachable = at("http://127.0.0.1:8420").reachable(("https://example.org/a.png", address))
    assert reachable == (None if address in NEITHER else address)


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
    found = await fetched(at(address), f"{address}/attachments/1/a.png?ex=6a&hm=%2F&")
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


def trickling(size: int = 1, pause: float = 0.01) -> Handler:
    """A host that sends so many bytes, then pauses, for ever."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(size))
            await asyncio.sleep(pause)

    return answer


async def test_a_host_that_answers_slowly_keeps_nobody_else_waiting(serve: Serve) -> None:
    begun, all_begun = 0, asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal begun
        if "/attachments/" in request.path:
            return web.Response(body=png(8, 8))
        begun += 1
        if begun == len(attackers):
            all_begun.set()
        return await trickling()(request)

    address = await serve(answer)
    attachments, attackers = at(address), [Sender(user_id=number, guild_id=5) for number in range(10, 14)]
    slow = [
        asyncio.create_task(fetched(attachments, f"{address}/external/1/a.png", each)) for each in attackers
    ]
    await all_begun.wait()
    async with attachments.turn(RAVI) as turn:
        found = await attachments.picture(f"{address}/attachments/1/a.png", what="“image”", turn=turn)
    assert found.width == 8
    assert not any(each.done() for each in slow)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_all_files_of_a_request_from_other_hosts_have_one_deadline(serve: Serve) -> None:
    asked = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return await trickling()(request)

    address = await serve(answer)
    attachments = at(address)
    async with attachments.turn(RAVI) as turn:
        assert turn.foreign_seconds == FOREIGN_SECONDS
        turn.foreign_seconds = 0.2
        for number in range(4):
            with pytest.raises(UserMistake, match="picture_unreachable"):
                await attachments.fetch(f"{address}/external/{number}/a.png", what="“image”", turn=turn)
    assert asked == 1


async def test_a_host_below_the_lowest_speed_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.front.uploads.attachments.SLOW_SECONDS", 0.05)
    address = await serve(trickling())
    assert await problem_of(at(address), f"{address}/attachments/1") == "picture_unreachable"


async def test_the_files_of_all_requests_together_are_limited_in_memory(serve: Serve) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(1000))

    address = await serve(answer)
    attachments = at(address, room=WaitingRoom(places=80))
    async with AsyncExitStack() as held:
        for number in range(FILES_HELD):
            turn = await held.enter_async_context(attachments.turn(Sender(user_id=number, guild_id=number)))
            await attachments.fetch(f"{address}/attachments/1", what="“image”", turn=turn)
        late = Sender(user_id=99, guild_id=99)
        with pytest.raises(UserMistake, match="files_busy"):
            await fetched(attachments, f"{address}/attachments/1", late)
        for number in range(2 * FILES_HELD):  # one after the other in one turn, and beside those of Discord
            await attachments.fetch(f"{address}/external/{number}", what="“image”", turn=turn)
        assert len(await fetched(attachments, f"{address}/attachments/1", late)) == 1000
    assert len(await fetched(attachments, f"{address}/attachments/1")) == 1000


async def test_a_file_that_takes_the_decoder_long_takes_more_tokens(serve: Serve) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=png(8, 8))

    class Costly(Decoder):
        """A decoder whose files take 1.5 s."""

        async def picture(self, data: bytes, *, used: Used = print, **how: Any) -> Picture:
            return await super().picture(data, used=lambda _: used(1.5), **how)

    address, pace = await serve(answer), Pace(Rates(files=6), clock=lambda: 0.0)
    attachments = at(address, pace=pace, decoder=Costly(limits=LIMITS, memory=256 << 20, seconds=10))
    pace.admit(RAVI, files=1)
    async with attachments.turn(RAVI) as turn:
        await attachments.picture(f"{address}/attachments/1/a.png", what="“image”", turn=turn)
    pace.admit(RAVI, files=3)
    with pytest.raises(UserMistake, match="files_too_quick"):
        pace.admit(RAVI, files=1)


@pytest.mark.parametrize(
    "private",
    [
        *("127.0.0.1", "::1", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "0.0.0.0"),
        *("169.254.169.254", "10.0.0.1", "100.64.0.1", "fd00::1", "fe80::1%eth0", "224.0.0.1"),
    ],
)
async def test_no_address_of_this_network_is_asked_whatever_a_name_server_answers(
    private: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def connect(*, addr_infos: Sequence[Any], **_: Any) -> Any:
        tried.extend(address[0] for *_, address in addr_infos)
        raise OSError("there is no network here")

    monkeypatch.setattr("aiohappyeyeballs.start_connection", connect)
    attachments, url = at("https://discord.com"), "https://cdn.discordapp.com/attachments/1/2/a.png"
    for answers in ([PUBLIC], [private], [private, PUBLIC_6]):
        found = [info(each) for each in answers]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        assert await problem_of(attachments, url) == "picture_unreachable"
    assert tried == [PUBLIC, PUBLIC_6]


def info(address: str) -> Any:
    """What the system's resolver answers."""
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 443, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
