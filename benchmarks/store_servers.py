"""A PostgreSQL server for a benchmark: the tests' programs with an operator's settings."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from postgres_server import PostgresServer

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
shared_buffers = 256MB
max_connections = 200
"""


@contextmanager
def postgresql(parent: Path) -> Iterator[PostgresServer]:
    """Run a server with durable writes and data under `parent`; the data is deleted at the end."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sdjax-postgres-"))
        data = stack.enter_context(tempfile.TemporaryDirectory(dir=parent, prefix="sdjax-postgres-"))
        server = PostgresServer(Path(folder), Path(data).absolute())
        server.create(SETTINGS)
        try:
            yield server
        finally:
            server.stop()
