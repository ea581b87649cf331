"""Lanes and start pictures that are opened late, in any order of threads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.memory.devices import open_mesh, setup_cpu
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane, Offer, Sampler
from sdjax_engine.scheduler.thread import EngineThread
from sdjax_engine.startup import registry
from sdjax_engine.startup.registry import Registry, Usage, lanes, served_by_others

LANE = Lane(model="tiny", height=16, width=16, guided=True)
OFFER = Offer(
    model="tiny", sizes=((16, 16),), num_inference_steps=2, guidance_scale=7.5, sampler=Sampler.DDIM
)


@dataclass
class ScriptedLane:
    """A lane's devices that record what is prepared after the lane was opened."""

    lane: Lane = LANE
    seats: int = 1
    seats_per_device: int = 1
    prepared: list[str] = field(default_factory=list)

    starts_from_pictures: bool = False
    broken: bool = False
    retries: bool = False
    fitted: bool = False

    def prepare_retry(self) -> None:
        self.prepared.append("retry")

    def prepare_forms(self) -> None:
        self.prepared.append("forms")

    def prepare_pictures(self) -> None:
        if self.broken:
            raise RuntimeError("an error that nobody expected")
        self.prepared.append("pictures")


def registry_of(
    device: ScriptedLane,
    monkeypatch: pytest.MonkeyPatch,
    *,
    loras: bool = False,
    halves: int = 1,
    **config: Any,
) -> Registry:
    """A registry of one lane, which is this device, of a model with or without LoRAs."""
    setup_cpu(2)
    mesh = open_mesh()
    monkeypatch.setattr(registry, "open_lane", lambda *_: device)
    monkeypatch.setattr(registry, "compile_begin", lambda *_: None)
    monkeypatch.setattr(registry, "LaneShapes", lambda **_: None)
    facts = {"decodes_in_float32": False, "adapts_denoiser": loras, "halves": lambda _lane: halves}
    model = cast("LoadedModel", SimpleNamespace(**facts))
    return Registry(
        config=EngineConfig(models=(ModelSpec(source="demo", offer=OFFER),), **config),
        compiler=Compiler(mesh=mesh, report=lambda _: None),
        residency=Residency(mesh),
        models={"tiny": model},
        lanes=(LANE,),
        usage=Usage(None),
    )


@pytest.mark.parametrize("order", [("lane", "retry"), ("retry", "lane")])
def test_a_lane_decodes_again_in_float32_in_any_order_of_opening(
    order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = ScriptedLane()
    lane, _pictures, retry = registry_of(device, monkeypatch).steps(EngineThread({}, clock=lambda: 0.0))
    steps = {"lane": lane, "retry": retry}
    for name in order:
        steps[name].make()
    assert device.prepared == ["retry"]


@pytest.mark.parametrize("order", [(0, -1), (-1, 0)])
def test_a_lane_gets_its_fitted_programs_in_any_order_of_opening(
    order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = ScriptedLane()
    steps = registry_of(device, monkeypatch, loras=True, fitted_programs=True).steps(
        EngineThread({}, clock=lambda: 0.0)
    )
    for place in order:
        steps[place].make()
    assert device.prepared == ["forms"]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"seats_per_device": 1, "fitted_programs": True}, []),
        ({"seats_per_device": 2, "fitted_programs": True}, ["fitted programs"]),
        ({"seats_per_device": 1, "halves": 2, "fitted_programs": True}, ["fitted programs"]),
        ({"seats_per_device": 1, "loras": True, "fitted_programs": True}, ["fitted programs"]),
        ({"seats_per_device": 2, "loras": True}, []),
    ],
)
def test_fitted_programs_are_prepared_where_they_can_cost_less(
    how: dict[str, Any], wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = registry_of(ScriptedLane(), monkeypatch, **how).steps(EngineThread({}, clock=lambda: 0.0))
    assert [step.name for step in steps[3:]] == [f"{LANE} with {each}" for each in wanted]


@pytest.mark.parametrize("order", [("lane", "pictures"), ("pictures", "lane")])
def test_a_failure_of_start_pictures_leaves_the_lane_open(
    order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = EngineThread({}, clock=lambda: 0.0)
    lane, pictures, _retry = registry_of(ScriptedLane(broken=True), monkeypatch).steps(thread)
    steps = {"lane": lane, "pictures": pictures}
    for name in order:
        steps[name].make()
    assert LANE in thread.queues
    assert not thread.intake.has_failed(LANE)
    assert thread.intake._failure((LANE, True)) is not None


@pytest.mark.parametrize(("scale", "shared"), [(7.5, True), (1.5, True), (1.0, False), (0.0, False)])
def test_unguided_pictures_share_the_guided_lane_unless_they_are_the_usual_ones(
    scale: float, shared: bool
) -> None:
    offer = replace(OFFER, guidance_scale=scale)
    expected = {replace(LANE, guided=False): LANE} if shared else {}
    assert served_by_others(lanes(offer), [offer]) == expected
    assert served_by_others(lanes(offer), []) == {}
