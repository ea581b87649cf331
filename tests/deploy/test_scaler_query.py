"""The scalers' SQL, verbatim from the manifests, on a real queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from recipes import ORIGIN, recipe
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bot.store import Store

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
CLASSES = ("cpu", "nvidia", "tpu")

pytestmark = pytest.mark.postgres


def query(kind: str) -> str:
    """The query of the scaler of a class of devices."""
    for manifest in yaml.safe_load_all((FOLDER / f"worker-{kind}.yaml").read_text()):
        if manifest["kind"] == "ScaledObject":
            (trigger,) = manifest["spec"]["triggers"]
            found: str = trigger["metadata"]["query"]
            return found
    raise AssertionError(f"worker-{kind}.yaml has no ScaledObject")


@pytest.mark.parametrize("kind", CLASSES)
def test_a_worker_is_of_the_class_that_its_scaler_asks_for(kind: str) -> None:
    manifests = list(yaml.safe_load_all((FOLDER / f"worker-{kind}.yaml").read_text()))
    (deployment,) = (each for each in manifests if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--accelerator", kind]
    assert f"accelerator = '{kind}'" in query(kind)


@pytest.fixture
async def queue(postgres_url: str) -> AsyncIterator[tuple[Store, AsyncEngine]]:
    """An empty queue, and a connection of its own, as KEDA has one."""
    store, scaler = await Store.open(postgres_url), create_async_engine(postgres_url)
    yield store, scaler
    await scaler.dispose()
    await store.close()


async def asked(scaler: AsyncEngine, kind: str) -> float:
    """The answer of a scaler's query: one row of one number, as KEDA reads it."""
    async with scaler.connect() as connection:
        ((answer,),) = (await connection.execute(sa.text(query(kind)))).all()
    assert isinstance(answer, float)
    return answer


@pytest.mark.parametrize("kind", CLASSES)
async def test_no_worker_is_wanted_while_nothing_waits(queue: tuple[Store, AsyncEngine], kind: str) -> None:
    _, scaler = queue
    assert await asked(scaler, kind) == 0


@pytest.mark.parametrize("kind", CLASSES)
async def test_work_of_a_class_that_was_never_measured_wakes_a_worker(
    queue: tuple[Store, AsyncEngine], kind: str
) -> None:
    store, scaler = queue
    await store.jobs.enqueue(recipe(variants=4), ORIGIN)
    assert await asked(scaler, kind) > 0, "from no worker, KEDA starts one only for more than 0"
