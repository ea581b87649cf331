"""The Ray cluster of the tests, and a queue on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fleet_cluster import Fleet, Nodes, three_nodes

from bot.store import Store


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with three_nodes(tmp_path_factory.mktemp("gcs")) as there:
        yield there


@pytest.fixture
def painters(nodes: Nodes, tmp_path: Path, postgres_url: str) -> Fleet:
    return Fleet(nodes, tmp_path, postgres_url)


@pytest.fixture
async def queue(postgres_url: str) -> AsyncIterator[Store]:
    store = await Store.open(postgres_url)
    yield store
    await store.close()
