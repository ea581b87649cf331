"""A lane knows without waiting whether the devices have done its work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import pytest
from engines import PLAIN, like, with_own_seats
from scripted_devices import Script, ScriptedPicture, ScriptedRun

from sdjax_engine.lane.device_lane import DeviceLane, Work
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane

STEPS = 120  # evaluations of a tiny network: half a second or more


@pytest.fixture
def lane(device_lanes: Mapping[Lane, DeviceLane]) -> DeviceLane:
    """A lane of two seats on each of two devices, all empty."""
    own = with_own_seats(device_lanes[PLAIN.lane])
    own.reset()
    return own


@dataclass(kw_only=True)
class Asked:
    """Work whose `ready` returns the next of `answers`."""

    answers: list[bool]

    @property
    def ready(self) -> bool:
        """Whether it is done, as the next answer says."""
        return self.answers.pop(0)


def finish(lane: DeviceLane) -> None:
    """Wait until nothing changes the seats any more."""
    jax.block_until_ready(lane._state)


def test_the_devices_have_done_earlier_work_when_it_has_changed_the_seats(
    lane: DeviceLane, model: LoadedModel
) -> None:
    prepared = model.prepare(like(num_inference_steps=STEPS))
    assert lane.admit({0: prepared}) is False, "nothing was earlier"
    first = lane.denoise({0: (0, 1)})
    finish(lane)
    assert not lane.has_done([])
    assert lane.has_done([first])
    assert not lane.has_done([first, ScriptedRun(script=Script())])
    second = lane.denoise({0: (1, STEPS)})
    assert not lane.has_done([first]), "the seats are in use"
    assert not lane.admit({1: prepared}, [first, second])
    second.wait()
    finish(lane)
    assert lane.has_done([first, second])
    assert lane.admit({2: prepared}, [first, second])


def test_a_decoding_that_is_under_way_is_earlier_work_too(lane: DeviceLane, model: LoadedModel) -> None:
    lane.admit({0: model.prepare(like(num_inference_steps=STEPS))})
    run = lane.denoise({0: (0, STEPS)})
    [picture] = lane.decode([0]).values()
    earlier: list[Work] = [run, picture]
    assert not any(work.ready for work in earlier)
    finish(lane)
    assert not lane.has_done([run, ScriptedPicture(script=Script(), seed=1)])
    picture.fetch()
    picture.fetch_verdicts()
    assert lane.has_done(earlier)


@pytest.mark.parametrize(("answers", "waited"), [([True, False], True), ([False, False], False)])
def test_devices_that_waited_for_the_first_wave_of_newcomers_have_waited(
    lane: DeviceLane, model: LoadedModel, answers: list[bool], waited: bool
) -> None:
    prepared = model.prepare(like(num_inference_steps=STEPS))
    finish(lane)
    assert lane.admit({0: prepared, 1: prepared}, [Asked(answers=answers)]) is waited
