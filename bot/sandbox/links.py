"""Addresses of uploaded files as Discord's CDN signs them: good for a day, then of no use."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

LIFETIME_SECONDS = 24 * 3600
RENEWAL_SECONDS = 12 * 3600


@dataclass(kw_only=True)
class Links:
    """Signs the paths of files and tells whether a signature still counts.

    As at Discord's CDN the query says when an address ends (`ex`), when it was issued (`is`), both in
    hexadecimal seconds since the epoch, and that nobody made it up (`hm`).
    """

    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, path: str, *, uploaded_at: float, now: float) -> str:
        """Return `path` with its query.

        It stays the same for half a day at a time, so that whoever has seen a picture need not load it
        again with every look at its message.
        """
        issued = int(uploaded_at) + int((now - uploaded_at) // RENEWAL_SECONDS) * RENEWAL_SECONDS
        ends = issued + LIFETIME_SECONDS
        query = {"ex": f"{ends:x}", "is": f"{issued:x}", "hm": self._seal(path, f"{ends:x}", f"{issued:x}")}
        return f"{path}?{urlencode(query)}&"

    def is_good(self, path: str, query: Mapping[str, str], now: float) -> bool:
        """Whether the query is one that was issued for this path and has not ended."""
        ends, issued, seal = (query.get(name, "") for name in ("ex", "is", "hm"))
        genuine = hmac.compare_digest(seal.encode(), self._seal(path, ends, issued).encode())
        return genuine and now < int(ends, 16)

    def expire(self) -> None:
        """Let every address issued so far be of no use, as if its day were over."""
        self._key = secrets.token_bytes(32)

    def _seal(self, *parts: str) -> str:
        return hmac.digest(self._key, "\n".join(parts).encode(), "sha256").hex()
