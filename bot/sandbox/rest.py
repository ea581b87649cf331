"""Discord's REST API: each request is read, rate-limited, answered, logged and passed to the observer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import hdrs, web

from bot.sandbox import rules
from bot.sandbox.core import Core
from bot.sandbox.exchange import Exchange
from bot.sandbox.rates import OTHERS, Limit, refusal_headers
from bot.sandbox.rejections import Json, Rejection
from bot.sandbox.uploads import Body, read_multipart

PREFIX = "/api/v10"
HANGING_SECONDS = 0.05  # between two checks whether the bot has disconnected
INVALID = frozenset({401, 403, 429})
PAGE = "<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head></html>"
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, for a handler; `user_id` is the member whose token asks, None for the bot."""

    params: Mapping[str, str]
    query: Mapping[str, str]
    body: Body
    user_id: int | None = None

    @property
    def json(self) -> Json:
        """The body if it is an object, else an empty object."""
        return self.body.json if isinstance(self.body.json, dict) else {}

    def asks(self, name: str) -> bool:
        """Whether a boolean query parameter is set."""
        return self.query.get(name, "").lower() in {"1", "true"}


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A handler's answer; status 204 has no body."""

    body: Any = None
    status: int = 200


class _Cut(Exception):
    """The connection is cut without an answer."""


class _Page(Exception):
    """The answer is a page of HTML from a host before Discord."""


NO_CONTENT = Reply(status=204)
Handler = Callable[[Call], Reply]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the API. `route` is written as in Discord's documents. `query` and `fields` name the
    parameters of its query string and the fields of its body (None: checked elsewhere). `of_members`: it
    answers tokens of members too."""

    method: str
    route: str
    handler: Handler
    query: Mapping[str, str] = field(default_factory=dict)
    fields: frozenset[str] | None = None
    authorised: bool = True
    of_members: bool = False
    limit: Limit = OTHERS


class Rest:
    """Serves operations over HTTP."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handle(self, operation: Operation) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Return the aiohttp handler of one operation."""

        async def handler(request: web.Request) -> web.Response:
            return await self._serve(operation, request)

        return handler

    async def not_found(self, request: web.Request) -> web.Response:
        """Answer 404 for an unknown path."""
        self._core.log.violation(f"{request.method} {request.path}: there is no such operation")
        return _response(404, {"message": "404: Not Found", "code": 0})

    async def _serve(self, operation: Operation, request: web.Request) -> web.Response:
        body = Body(json=None, files={})
        headers: dict[str, str] = {}
        try:
            body = await self._read(request)
            self._check_faults(request, headers)
            user_id = self._check_token(operation, request)
            self._check_rate(operation, request, headers)
            reply = self._answer(operation, request, body, user_id)
        except Rejection as rejection:
            if rejection.violation:
                self._core.log.violation(f"{operation.method} {request.path}: {rejection}")
            reply = Reply(status=rejection.status, body=rejection.body)
        except _Page:
            status = self._core.faults.page_status
            self._core.invalid_requests += status in INVALID
            return web.Response(status=status, text=PAGE, content_type="text/html")
        except _Cut:
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=500)  # the connection is closed already
        self._core.invalid_requests += reply.status in INVALID
        self._core.observer(
            Exchange(
                method=operation.method,
                route=operation.route,
                query=dict(request.query),
                request=body.json,
                status=reply.status,
                response=reply.body,
            )
        )
        if self._core.faults.take("hang_answers", request.path):
            self._core.interactions.excuse_all()
            await _until_cut(request)
        await asyncio.sleep(self._core.faults.slow_ms / 1000)
        return _response(reply.status, reply.body, headers)

    def _answer(self, operation: Operation, request: web.Request, body: Body, user_id: int | None) -> Reply:
        odd = rules.check_query(request.query, operation.query)
        if operation.fields is not None:
            odd += rules.unknown_fields(body.json, operation.fields)
        for sentence in odd:
            self._core.log.violation(f"{operation.method} {operation.route}: {sentence}")
        rules.check_upload([len(upload.data) for upload in body.files.values()], self._core.limits)
        call = Call(params=request.match_info, query=request.query, body=body, user_id=user_id)
        reply = operation.handler(call)
        self._lose_answer(request)
        return reply

    def _lose_answer(self, request: web.Request) -> None:
        if self._core.faults.take("lose_answers", request.path):
            self._core.interactions.excuse_all()
            raise Rejection(502, 0, "502: Bad Gateway", violation=False)
        if self._core.faults.take("drop_answers", request.path):
            self._core.interactions.excuse_all()
            raise _Cut

    def _check_faults(self, request: web.Request, headers: dict[str, str]) -> None:
        faults = self._core.faults
        if faults.take("pages", request.path):
            self._core.interactions.excuse_all()
            raise _Page
        if faults.take("rest_429", request.path):
            self._core.interactions.excuse_all()
            headers.update(refusal_headers(faults.retry_after, scope="shared"))
            raise _too_many(faults.retry_after, everywhere=faults.rest_429_global)
        if faults.take("rest_5xx", request.path):
            self._core.interactions.excuse_all()
            raise Rejection(502, 0, "502: Bad Gateway", violation=False)
        if faults.take("drop_requests", request.path):
            self._core.interactions.excuse_all()
            raise _Cut

    def _check_token(self, operation: Operation, request: web.Request) -> int | None:
        """Return the member whose token the request has, None for the bot's."""
        if not operation.authorised:
            return None
        kind, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        user_id = self._core.logins.user_of(token) if kind == "Bearer" and operation.of_members else None
        if user_id is not None:
            return user_id
        if kind != "Bot" or not self._core.is_good_token(token):
            raise Rejection(401, 0, "401: Unauthorized", violation=kind != "Bot")
        return None

    def _check_rate(self, operation: Operation, request: web.Request, headers: dict[str, str]) -> None:
        info = request.match_info
        majors = ("channel_id", "guild_id", "webhook_id", "webhook_token", "interaction_id")
        verdict = self._core.rates.take(
            f"{operation.method} {operation.route}",
            "/".join(info[name] for name in majors if name in info),
            operation.limit,
            counts_everywhere=operation.authorised,
        )
        headers.update(verdict.headers)
        if verdict.ignored:
            self._core.log.violation(
                f"{operation.method} {operation.route}: sent before Retry-After was over"
            )
        if not verdict.allowed:
            raise _too_many(verdict.retry_after, everywhere=verdict.everywhere)

    async def _read(self, request: web.Request) -> Body:
        if request.method not in WITH_BODY or not request.can_read_body:
            return Body(json=None, files={})
        if request.content_type == "application/json":
            return Body(json=_parse(await request.text()), files={})
        if request.content_type == "multipart/form-data":
            return await read_multipart(
                request,
                _parse,
                lambda name: self._core.log.violation(
                    f"{request.method} {request.path}: unknown part {name}"
                ),
            )
        await request.read()
        message = 'Expected "Content-Type" header to be one of {application/json, multipart/form-data}.'
        raise Rejection(400, 50035, message)


async def _until_cut(request: web.Request) -> None:
    while request.transport is not None:  # noqa: ASYNC110 - aiohttp tells of a lost connection by this alone
        await asyncio.sleep(HANGING_SECONDS)


def _parse(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        raise Rejection(400, 50109, "The request body contains invalid JSON.") from None


def _too_many(retry_after: float, *, everywhere: bool) -> Rejection:
    rejection = Rejection(429, 0, "You are being rate limited.", violation=False)
    rejection.extra = {"retry_after": round(retry_after, 3), "global": everywhere}
    return rejection


def _response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    if status == 204:
        return web.Response(status=204, headers=headers)
    # The type must have no charset: discord.py compares it with exactly "application/json".
    data = json.dumps(body, ensure_ascii=False).encode()
    return web.Response(status=status, body=data, content_type="application/json", headers=headers)
