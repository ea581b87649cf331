"""Shared set-up of all tests: two CPU devices for JAX, files in memory, no access to the hub."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from hypothesis import settings
from memory_disk import memory_disk
from packaging.version import Version

gc.disable()  # until all tests are collected
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")  # fixed when a test of the process first uses JAX
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Tests compile many programs and run them briefly. Without optimisation a program compiles in a third of the
# time and runs three times as long; its result is the same but for rounding.
LEAST_OPTIMISED = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if Version(version("jaxlib")) < Version("0.12"):  # a process ends at a flag that its jaxlib does not know
    LEAST_OPTIMISED += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", LEAST_OPTIMISED)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch shares the cores with other test processes
if disk := memory_disk():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", disk)  # where pytest makes the folders of tests

settings.register_profile("untimed", deadline=None)  # the time of an example depends on the machine
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def the_log_of_the_tests() -> Iterator[None]:
    """Restores the log of the tests: commands replace it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the modules of the tests out of garbage collections."""
    # A full collection stops the sandbox, whose clock then counts the bot as late. Collections while
    # tests are collected take 6 s of 15 s, and find nothing: modules stay.
    gc.freeze()
    gc.set_threshold(100_000, 20)  # with Python's values, collections take up to 8 % of the processor time
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once: pytest does it five times at the end, which took each process two seconds."""
    gc.collect()
    gc.freeze()


pytest_plugins = [
    *("chromium", "compiled_statements", "exchanges", "next_version"),
    *("postgres_server", "reflected_tables", "sharing_out", "sqlite_files"),
]
