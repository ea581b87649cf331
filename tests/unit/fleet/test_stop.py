"""What `fleet stop` ends, on a cluster in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from bot.app import fleet
from bot.config import Config
from bot.domain.errors import FleetUnavailable
from bot.fleet.controller import Report, Spec


class Cluster:
    """A cluster whose controller finds no unit; with `started_again`, a start undoes what `stop` changes."""

    def __init__(self, *, started_again: bool) -> None:
        self.spec = Spec(config="")
        self.started_again = started_again
        self.ended = False

    @contextlib.contextmanager
    def connected(self, _address: str, _fleet: str) -> Iterator[None]:
        yield

    def change(self, _fleet: str, changed: Callable[[Spec], Spec]) -> None:
        self.spec = Spec(config="") if self.started_again else changed(self.spec)

    def asked(self, _fleet: str, question: str) -> Spec | Report:
        return self.spec if question == "spec" else Report(looks=1)

    def end(self, _fleet: str) -> None:
        self.ended = True


@pytest.mark.parametrize("started_again", [False, True])
def test_a_controller_that_somebody_has_started_meanwhile_is_not_ended(
    monkeypatch: pytest.MonkeyPatch, started_again: bool
) -> None:
    cluster = Cluster(started_again=started_again)
    monkeypatch.setattr(fleet, "_ray", lambda: cluster)
    refused = pytest.raises(FleetUnavailable, match="started again")
    with refused if started_again else contextlib.nullcontext():
        fleet.stop(Config(), "auto", lambda _line: None)
    assert cluster.ended is not started_again
