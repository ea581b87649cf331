"""What every test shares: two CPU devices for JAX, a hub that no test may reach, a PostgreSQL server."""

from __future__ import annotations

import os

from hypothesis import settings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")  # fixed by whichever test of a process uses JAX first
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tests compile many programs and run them briefly: this takes two thirds of the time, with the same results.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=1 --xla_cpu_parallel_codegen_split_count=2"
)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch beside the tests of another process on the same cores

settings.register_profile("untimed", deadline=None)  # the time of an example depends on the machine
settings.load_profile("untimed")

pytest_plugins = ["exchanges", "postgres_server", "sharing_out"]
