"""What is made ready late, in whichever order threads come to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from sdjax_engine.compiling.compiler import Compiler
from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.memory.devices import open_mesh, setup_cpu
from sdjax_engine.memory.residency import Residency
from sdjax_engine.model.loaded import LoadedModel
from sdjax_engine.request import Lane, Offer, Sampler
from sdjax_engine.scheduler.intake import Intake
from sdjax_engine.startup import registry
from sdjax_engine.startup.registry import Registry
from sdjax_engine.startup.usage import Usage

LANE = Lane(model="tiny", height=16, width=16, guided=True)
OFFER = Offer(
    model="tiny", sizes=((16, 16),), num_inference_steps=2, guidance_scale=7.5, sampler=Sampler.DDIM
)


@dataclass
class Device:
    """A lane's devices that note how often they were prepared to decode again."""

    lane: Lane = LANE
    seats: int = 1
    seats_per_device: int = 1
    prepared: list[str] = field(default_factory=list)

    def prepare_retry(self) -> None:
        self.prepared.append("retry")


@pytest.mark.parametrize("order", [("lane", "retry"), ("retry", "lane")])
def test_a_lane_decodes_again_in_float32_whichever_was_made_ready_first(
    order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup_cpu(2)
    mesh, device = open_mesh(), Device()
    monkeypatch.setattr(registry, "open_lane", lambda *_: device)
    model = cast("LoadedModel", SimpleNamespace(decodes_in_float32=False))
    opened = Registry(
        config=EngineConfig(models=(ModelSpec(source="demo", offer=OFFER),), start_pictures=False),
        compiler=Compiler(mesh=mesh, report=lambda _: None),
        residency=Residency(mesh),
        models={"tiny": model},
        lanes=(LANE,),
        usage=Usage(None),
    )
    lane, retry = opened.steps(Intake(lambda: 0.0))
    steps = {"lane": lane, "retry": retry}
    for name in order:
        steps[name].make()
    assert device.prepared == ["retry"]
