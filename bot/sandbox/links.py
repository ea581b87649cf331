"""Signed addresses of uploaded files, as in Discord's CDN: valid for a day."""

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
    """Signs the paths of files and checks signatures.

    As in Discord's CDN, the query has the end (`ex`) and the start (`is`) of an address, in hexadecimal
    seconds since the epoch, and an HMAC (`hm`).
    """

    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, path: str, *, uploaded_at: float, now: float) -> str:
        """Return `path` with its query.

        The query stays the same for half a day, so that clients can cache the picture.
        """
        issued = int(uploaded_at) + int((now - uploaded_at) // RENEWAL_SECONDS) * RENEWAL_SECONDS
        ends = issued + LIFETIME_SECONDS
        query = {"ex": f"{ends:x}", "is": f"{issued:x}", "hm": self._seal(path, f"{ends:x}", f"{issued:x}")}
        return f"{path}?{urlencode(query)}&"

    def is_good(self, path: str, query: Mapping[str, str], now: float) -> bool:
        """Whether the query was issued for this path and has not expired."""
        ends, issued, seal = (query.get(name, "") for name in ("ex", "is", "hm"))
        genuine = hmac.compare_digest(seal.encode(), self._seal(path, ends, issued).encode())
        return genuine and now < int(ends, 16)

    def expire(self) -> None:
        """Expire every address issued so far."""
        self._key = secrets.token_bytes(32)

    def _seal(self, *parts: str) -> str:
        return hmac.digest(self._key, "\n".join(parts).encode(), "sha256").hex()
