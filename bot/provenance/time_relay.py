"""Passes a request for a time stamp (RFC 3161) on to the authority, within bounds.

The signing library reads an answer of any length into memory, for 30 s. It is given the address of this relay
instead of the authority's.
"""

from __future__ import annotations

import asyncio
import os
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Self
from urllib.request import getproxies_environment

import aiohttp

from bot.process.proxies import ProxyConnector

MOST_BYTES = 64 * 1024  # of a request or an answer; an answer with its certificates has 2 to 10 KiB
MEDIA_TYPE = "application/timestamp-{}"
LOOPBACK = "127.0.0.1"


class Refused(Exception):
    """The authority's answer cannot be a time stamp; the text says why."""


class TimeRelay:
    """Serves one request on loopback, within `seconds`; use it as a context manager.

    `asked` says whether the request has come, `trouble` why the authority has not answered it.
    """

    def __init__(self, authority: str, *, seconds: float) -> None:
        self._authority = authority
        self._seconds = seconds
        self.asked = False
        self.trouble = ""

    def __enter__(self) -> Self:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            timeout = self._seconds

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                query = self.rfile.read(min(int(length), MOST_BYTES)) if length.isdecimal() else b""
                answer = relay.answer(query)
                self.send_response(HTTPStatus.OK if answer else HTTPStatus.BAD_GATEWAY)
                self.send_header("Content-Type", MEDIA_TYPE.format("reply"))
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer((LOOPBACK, 0), Handler)
        self._server.timeout = self._seconds
        threading.Thread(target=self._serve, name="time relay", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...  # the thread closes the server, after a request or in time

    def _serve(self) -> None:
        with self._server:
            self._server.handle_request()

    @property
    def address(self) -> str:
        """The address that stands for the authority's."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def answer(self, query: bytes) -> bytes:
        """Return what the authority answers; nothing, with `trouble`, if it answers nothing usable."""
        self.asked = True
        try:
            return asyncio.run(answer_of(self._authority, query, seconds=self._seconds))
        except TimeoutError:
            self.trouble = f"no answer within {self._seconds:g} s"
        except Refused as refusal:
            self.trouble = str(refusal)
        except (aiohttp.ClientError, OSError) as error:
            self.trouble = f"{type(error).__name__}: {error}"
        return b""


async def answer_of(authority: str, query: bytes, *, seconds: float) -> bytes:
    """Return the authority's answer; raises Refused, aiohttp.ClientError, TimeoutError or OSError."""
    limit = aiohttp.ClientTimeout(total=seconds)
    sent = {"Content-Type": MEDIA_TYPE.format("query"), "Accept-Encoding": "identity"}
    async with (
        aiohttp.ClientSession(connector=ProxyConnector(), timeout=limit, auto_decompress=False) as session,
        session.post(authority, data=query, headers=sent, allow_redirects=False) as response,
    ):
        if response.status != HTTPStatus.OK:
            raise Refused(f"it answers with the HTTP status {response.status}")
        answer = bytearray()
        async for part in response.content.iter_any():
            answer += part
            if len(answer) > MOST_BYTES:
                raise Refused(f"its answer has more than {MOST_BYTES // 1024} KiB")
        if not answer:
            raise Refused("its answer has no bytes")
        return bytes(answer)


def need_no_proxy() -> None:
    """Let the signing library reach the relay without a proxy; it reads the environment once."""
    if not getproxies_environment():
        return
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if LOOPBACK not in others.split(","):
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(filter(None, (others, LOOPBACK)))
