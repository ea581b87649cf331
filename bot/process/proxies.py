"""Requests through the proxies of the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import base64
import ipaddress
from typing import Any
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
from yarl import URL

SECURE = ("https", "wss")


class ProxyConnector(aiohttp.TCPConnector):
    """Connects by the proxies that the environment names, as curl and pip do. `trust_env` knows no `wss`."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> Any:
        """Connect to the request's host, or to its proxy; raises OSError for a proxy that cannot be used."""
        proxy = proxy_of(req.url)
        if proxy is not None:
            req.update_proxy(proxy.with_user(None), None, _login(proxy))
        return await super().connect(req, traces, timeout)


def proxy_of(url: URL) -> URL | None:
    """Return the address of the proxy for `url`, with its login; None for a direct connection.

    This machine's own addresses need no NO_PROXY. Raises OSError, without the address, for one that is no
    http:// or https:// address.
    """
    host = url.host or ""
    proxies = getproxies_environment()
    if _is_loopback(host) or proxy_bypass(host):
        return None
    kind = "https" if url.scheme in SECURE else "http"
    address = proxies.get(kind) or proxies.get("all")
    if not address:
        return None
    try:
        proxy = URL(address if "://" in address else f"http://{address}")
    except ValueError:
        proxy = URL()
    if proxy.scheme not in ("http", "https") or not proxy.host:
        raise OSError(f"the proxy of {kind.upper()}_PROXY is none with http:// or https:// and a host")
    return proxy


def proxy_hosts() -> frozenset[str]:
    """Return the hosts of all proxies that can be used."""
    proxies = getproxies_environment()
    found = (URL(each if "://" in each else f"http://{each}").host for each in proxies.values() if each)
    return frozenset(filter(None, found))


def _login(proxy: URL) -> dict[str, str] | None:
    if proxy.user is None:
        return None
    login = f"{proxy.user}:{proxy.password or ''}".encode()
    # aiohttp makes it the header of the proxy, of a CONNECT or of the request itself.
    return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
