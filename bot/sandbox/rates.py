"""Discord's rate limits: a bucket per route and major parameter, and a global one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

GLOBAL_PER_SECOND = 50
IN_FLIGHT_SECONDS = 0.5  # requests sent before a 429 arrived are no violation


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The most requests in a window of seconds."""

    requests: int
    seconds: float


MESSAGES = Limit(requests=5, seconds=5.0)
WEBHOOKS = Limit(requests=5, seconds=2.0)
COMMANDS = Limit(requests=5, seconds=5.0)
OTHERS = Limit(requests=10, seconds=1.0)


@dataclass(kw_only=True)
class _Bucket:
    limit: Limit
    name: str
    used: int = 0
    resets_at: float = 0.0
    refused_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a request may pass; `ignored`: the bot sent it before the time of an earlier 429 was over."""

    allowed: bool
    headers: dict[str, str] = field(default_factory=dict)
    retry_after: float = 0.0
    everywhere: bool = False
    ignored: bool = False


class Rates:
    """Counts requests in fixed windows: the first request opens a window, the count restarts at its end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._everywhere = _Bucket(limit=Limit(requests=GLOBAL_PER_SECOND, seconds=1.0), name="global")

    def take(self, route: str, major: str, limit: Limit, *, counts_everywhere: bool) -> Verdict:
        """Count one request of `route` in its bucket and, with `counts_everywhere`, in the global bucket."""
        name = hashlib.sha256(route.encode()).hexdigest()[:32]
        bucket = self._buckets.setdefault((route, major), _Bucket(limit=limit, name=name))
        if counts_everywhere:
            verdict = self._take(self._everywhere)
            if not verdict.allowed:
                return Verdict(
                    allowed=False,
                    headers=verdict.headers | {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"},
                    retry_after=verdict.retry_after,
                    everywhere=True,
                    ignored=verdict.ignored,
                )
        return self._take(bucket)

    def forget_refusals(self) -> None:
        """Excuse requests before the time of an earlier 429: whoever was told of it may be gone."""
        for bucket in (self._everywhere, *self._buckets.values()):
            bucket.refused_at = None

    def _take(self, bucket: _Bucket) -> Verdict:
        now = self._clock()
        if now >= bucket.resets_at:
            bucket.used, bucket.resets_at, bucket.refused_at = 0, now + bucket.limit.seconds, None
        left = bucket.resets_at - now
        if bucket.used >= bucket.limit.requests:
            ignored = bucket.refused_at is not None and now > bucket.refused_at + IN_FLIGHT_SECONDS
            bucket.refused_at = bucket.refused_at if bucket.refused_at is not None else now
            headers = {**self._headers(bucket, left), **refusal_headers(left)}
            return Verdict(allowed=False, headers=headers, retry_after=left, ignored=ignored)
        bucket.used += 1
        return Verdict(allowed=True, headers=self._headers(bucket, left))

    @staticmethod
    def _headers(bucket: _Bucket, left: float) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(bucket.limit.requests),
            "X-RateLimit-Remaining": str(bucket.limit.requests - bucket.used),
            "X-RateLimit-Reset": f"{bucket.resets_at:.3f}",
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": bucket.name,
        }


def refusal_headers(retry_after: float, *, scope: str = "user") -> dict[str, str]:
    """The headers of a 429; without `Via` discord.py takes it for a ban by Cloudflare."""
    return {
        "Retry-After": str(math.ceil(retry_after)),
        "X-RateLimit-Scope": scope,
        "Via": "1.1 sandbox",
    }
