"""The health command of the container: status 0 if the process answers at SDJAX_HEALTH, else 1 and why.

SDJAX_HEALTH is /livez on port 9090 of the loopback if it is not set.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

SECONDS = 4.0  # a second less than the container's own limit


def problem(address: str) -> str:
    """Return why `address` does not answer with 200, or an empty text."""
    try:
        with build_opener(ProxyHandler({})).open(address, timeout=SECONDS):
            return ""
    except (OSError, HTTPException, ValueError) as error:
        return f"{address}: {error}"


if __name__ == "__main__":
    sys.exit(problem(os.environ.get("SDJAX_HEALTH", "http://127.0.0.1:9090/livez")) or 0)
