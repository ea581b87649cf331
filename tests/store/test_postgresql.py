"""The database on a server: one sentence for every fault, and its recovery."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import sqlalchemy as sa
from postgres_server import PASSWORD, PostgresServer
from recipes import ORIGIN, RECIPE, origin
from stores import Clock

from bot.domain.errors import ConfigurationError, StoreUnavailable
from bot.domain.jobs import Job, State
from bot.store import Store, check_url
from bot.store.tables.queue import files, images

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(postgres_url: str, clock: Clock) -> AsyncIterator[Store]:
    store = await Store.open(postgres_url, clock=clock)
    yield store
    await store.close()


async def refusal(url: str) -> str:
    """The sentence with which opening this database is refused."""
    with pytest.raises(StoreUnavailable) as told:
        await (await Store.open(url)).close()
    sentence = str(told.value)
    assert sentence.startswith(("postgresql+asyncpg://", "The disk"))
    assert PASSWORD not in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    "url", ["postgresql://bot:{0}@127.0.0.1:1/queue", "postgresql://bot@/queue?host=/nowhere&password={0}"]
)
async def test_a_stopped_server_raises_one_sentence(url: str) -> None:
    sentence = await refusal(url.format(PASSWORD))
    assert "cannot be reached (" in sentence
    assert sentence.endswith(": check that the server runs, and that queue.database has its address.")


async def test_a_server_that_does_not_respond_raises_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "does not answer" in await refusal(
            f"postgresql://bot:{PASSWORD}@127.0.0.1:{port}/queue?timeout=0.2"
        )


async def test_a_wrong_password_raises_one_sentence(postgres_server: PostgresServer) -> None:
    sentence = await refusal(postgres_server.url("postgres", password=f"{PASSWORD}-2"))
    assert 'refuses this user and password (password authentication failed for user "postgres")' in sentence


async def test_the_password_may_come_from_the_environment(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = postgres_url.replace(f":{PASSWORD}@", "@")
    assert without != postgres_url
    monkeypatch.delenv("PGPASSWORD", raising=False)
    assert "password" in await refusal(without)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    store = await Store.open(without)
    assert (await store.jobs.backlog()).waiting == 0
    await store.close()


async def test_a_missing_database_raises_one_sentence(postgres_server: PostgresServer) -> None:
    assert "does not exist: create that database" in await refusal(postgres_server.url("elsewhere"))


async def test_a_user_without_the_right_to_make_tables_raises_one_sentence(
    postgres_server: PostgresServer, bare_postgres_url: str
) -> None:
    guest = sa.make_url(bare_postgres_url).set(username="guest").render_as_string(hide_password=False)
    postgres_server.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    try:
        assert "does not allow this user to keep a queue in it: permission denied" in await refusal(guest)
    finally:
        postgres_server.execute("DROP ROLE guest")


async def test_a_read_only_server_raises_one_sentence(
    postgres_server: PostgresServer, bare_postgres_url: str
) -> None:
    name = sa.make_url(bare_postgres_url).database
    postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "only lets itself be read" in await refusal(bare_postgres_url)


async def test_a_lost_server_raises_one_sentence_and_works_after_its_return(
    store: Store, postgres_server: PostgresServer
) -> None:
    accepted = await store.jobs.enqueue(RECIPE, ORIGIN)
    postgres_server.stop()
    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.jobs.get(accepted.id)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.jobs.enqueue(RECIPE, origin(2))
    finally:
        postgres_server.start()
    assert await store.jobs.get(accepted.id) == accepted
    assert (await store.jobs.enqueue(RECIPE, origin(2))).state is State.WAITING


async def test_the_bot_s_sessions_do_not_depend_on_the_server_s_defaults(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = sa.make_url(postgres_url).database
    postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    store = await Store.open(postgres_url)
    settings = ("transaction_isolation", "transaction_read_only", "idle_in_transaction_session_timeout")
    show = [sa.text(f"SHOW {setting}") for setting in settings]
    async with store.shared.database.write() as connection:
        written = [await connection.scalar(setting) for setting in show]
    async with store.shared.database.read() as connection:
        read = [await connection.scalar(setting) for setting in show]
    await store.close()
    assert written == ["read committed", "off", "1min"]
    assert read == ["repeatable read", "on", "1min"]


async def waiting_for_locks(store: Store, count: int) -> None:
    """Return once so many sessions of this database wait for a lock."""
    activity = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    waiting = 0
    async with asyncio.timeout(20):
        while waiting < count:
            async with store.shared.database.read() as connection:
                waiting = await connection.scalar(sa.text(f"{activity} AND wait_event_type = 'Lock'")) or 0


async def test_a_repainted_file_and_a_deletion_use_one_lock_order(
    store: Store,
) -> None:
    job = await store.jobs.enqueue(RECIPE, ORIGIN)
    (claim,) = await store.leases.claim("worker", limit=1, ttl=60.0)
    name = "aa/aa.png"
    await store.files.expect(name, size=1)
    await store.leases.complete(claim, artifact=name, seconds=1.0)
    await store.files.want([name])
    async with store.shared.database.write() as connection:
        await connection.execute(sa.select(files.c.name).where(files.c.name == name).with_for_update())
        back = asyncio.create_task(store.files.end_wait(name))
        await waiting_for_locks(store, 1)
        deleted = asyncio.create_task(store.deliveries.delete_result(job.id, user_id=None))
        await waiting_for_locks(store, 2)
    await back
    assert await deleted == [name]


async def test_erasure_locks_images_in_the_order_of_heartbeats(store: Store) -> None:
    first = later = await store.jobs.enqueue(RECIPE, ORIGIN)
    while later.id >= first.id:  # jobs are locked by their ids, which are random
        later = await store.jobs.enqueue(
            RECIPE, replace(ORIGIN, interaction_id=later.origin.interaction_id + 1)
        )

    def image_of(job: Job) -> sa.Select[tuple[int]]:
        return sa.select(images.c.id).where(images.c.job_id == job.id)

    async with store.shared.database.write() as connection:
        await connection.execute(image_of(first).with_for_update())
        erasing = asyncio.create_task(store.erasure.erase([first.id, later.id]))
        await waiting_for_locks(store, 1)
        await connection.execute(image_of(later).with_for_update(nowait=True))
    await erasing


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        (
            "postgresql://bot:{0}@host/queue?sslmode=require&colour=red",
            "colour, sslmode (write ssl=require for TLS)",
        ),
        ("postgresql://bot:{0}@host/queue?timeout=soon&ssl=require", "an option: ssl, timeout."),
        ("postgresql://bot:{0}@host/queue?command_timeout=0", "an option: command_timeout."),
        ("postgresql://bot:{0}@host/queue?statement_cache_size=-1", "an option: statement_cache_size."),
        ("postgresql://bot:{0}@host/queue?timeout=0", "an option: timeout."),
        ("postgresql://bot:{0}@host/queue?timeout=nan", "an option: timeout."),
        ("postgresql://bot:{0}@host:99999/queue", "a port is a number from 1 to 65535"),
        ("postgresql://bot:{0}@host:-1/queue", "a port is a number from 1 to 65535"),
        ("postgresql://bot:a@{0}@host/queue", "%40"),
        ("postgresql://bot:{0}@host:port/queue", "is no URL"),
        (f"postgresql://bot:{{0}}@{'h' * 64}/queue", "its host is no name of a machine"),
        ("postgresql://bot:{0}@/queue?host=127.0.0.1&port=-1", "a port is a number from 1 to 65535"),
        ("postgresql://bot:{0}@host/queue?port=99999", "a port is a number from 1 to 65535"),
        ("postgresql://bot:{0}@/queue?host=one:5432&host=two:99999", "a port is a number from 1 to 65535"),
        (f"postgresql://bot:{{0}}@/queue?host=one:1&host={'h' * 64}:2", "its host is no name of a machine"),
        (f"postgresql://bot:{{0}}@/queue?host={'h' * 64}", "its host is no name of a machine"),
    ],
)
def test_an_address_that_can_never_work_is_a_mistake_in_the_configuration(url: str, advice: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        check_url(url.format(PASSWORD))
    assert advice in str(told.value)
    assert PASSWORD not in str(told.value)


@pytest.mark.parametrize(
    "server",
    [
        "[::1]:5432/queue",
        "bücher.example./queue",
        "my_server/queue",
        f"/queue?host=/run/{'s' * 64}/..data",
        "/queue?host=one:5432&host=two:5433",
        "/queue?host=one,two&port=5432,5433",
    ],
)
def test_each_way_to_name_a_server_is_taken(server: str) -> None:
    check_url(f"postgresql://bot@{server}")


def test_an_address_can_set_timeouts_and_disable_statement_caches() -> None:
    check_url(
        "postgresql://bot@host/queue?ssl=require&timeout=5&command_timeout=60.5&statement_cache_size=0&prepared_statement_cache_size=0"
    )
