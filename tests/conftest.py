"""What every test shares: JAX on the CPU, a hub that no test may reach, and a PostgreSQL server."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

pytest_plugins = ["exchanges", "postgres_server"]
