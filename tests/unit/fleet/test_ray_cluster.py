"""What is said of a cluster that refuses a connection."""

from __future__ import annotations

import pytest

ray = pytest.importorskip("ray")

from bot.domain.errors import FleetUnavailable  # noqa: E402
from bot.fleet import ray_cluster  # noqa: E402 - Ray is an extra


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
