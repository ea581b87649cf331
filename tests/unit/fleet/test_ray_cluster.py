"""What a controller knows of units that an earlier controller has started, without a Ray cluster."""

from __future__ import annotations

from typing import Any

import pytest

ray = pytest.importorskip("ray")

from bot.domain.errors import FleetUnavailable  # noqa: E402
from bot.fleet import ray_cluster  # noqa: E402 - Ray is an extra
from bot.fleet.planning import Phase  # noqa: E402

NAME = "cpu/abc/1"


class Silent:
    """The handle of an actor that does not answer."""

    @property
    def state(self) -> Silent:
        return self

    def remote(self) -> str:
        return "no answer yet"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A cluster with one unit that does not answer; return the time."""
    now = [1000.0]

    def listed(**_: object) -> list[dict[str, str]]:
        return [{"name": NAME, "namespace": "fleet"}]

    def waited(asked: list[Any], **_: object) -> tuple[list[Any], list[Any]]:
        return [], asked

    monkeypatch.setattr(ray.util, "list_named_actors", listed)
    monkeypatch.setattr(ray, "get_actor", lambda _name, **_: Silent())
    monkeypatch.setattr(ray, "wait", waited)
    monkeypatch.setattr(ray_cluster.time, "monotonic", lambda: now[0])
    return now


def test_a_unit_that_has_not_answered_a_new_controller_yet_is_not_taken_for_an_unplaced_one(
    clock: list[float],
) -> None:
    cluster = ray_cluster.RayCluster("fleet")
    assert cluster.units()[NAME].phase is Phase.STARTING, "a unit that is pending would be ended at once"
    clock[0] += ray_cluster.SILENT_SECONDS
    assert cluster.units()[NAME].phase is Phase.PENDING


@pytest.mark.parametrize(
    "refusal",
    [
        ConnectionError("Failed to connect to Ray cluster at 10.1.2.3:6379. Please start it."),
        ray.exceptions.AuthenticationError("The token of 10.1.2.3:6379 is missing. See the page."),
    ],
)
def test_a_cluster_that_refuses_is_named_with_its_whole_address(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def refuse(**_: object) -> None:
        raise refusal

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(FleetUnavailable, match=r"10\.1\.2\.3:6379"), ray_cluster.connected("auto", "fleet"):
        pass
