"""ControlNets in the engine: pictures with control pictures share lanes with others and are as if alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from checkpoints import make_tiny_controlnet
from compilations import counted_compilations
from engines import PLAIN, SMALLEST, START, TINY, file_of, like

from sdjax_engine.config import EngineConfig, ModelSpec
from sdjax_engine.engine import Engine
from sdjax_engine.errors import UnreadableCheckpoint
from sdjax_engine.request import ControlType, Request, SecondPass
from sdjax_engine.startup.model_check import check_model

DEADLINE = 120
PICTURE = file_of(np.kron(START, np.ones((2, 3, 1))))  # of another shape and size
CONTROLLED = like(control_image=PICTURE, control_type=ControlType.PICTURE)
MIXED = (
    PLAIN,
    CONTROLLED,
    like(CONTROLLED, controlnet="depth", control_strength=1.4),
    like(CONTROLLED, control_interval=(0.3, 0.7), num_inference_steps=9),
    like(CONTROLLED, control_strength=0.0),
    like(CONTROLLED, init_image=file_of(START), strength=0.6),
    like(CONTROLLED, control_type=ControlType.EDGES, seed=8),
)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("controlnets")
    return {
        name: str(make_tiny_controlnet(folder / name, unet=SMALLEST["unet"], seed=seed))
        for seed, name in enumerate(("canny", "depth"))
    }


def config(checkpoint: Path, nets: dict[str, str], **changes: object) -> EngineConfig:
    sizes = ((16, 16), (32, 32))
    offer = dataclasses.replace(TINY, sizes=sizes, controlnets=tuple(nets))
    values = {"cpu_devices": 2, "seats_per_device": 2, "lanes": (PLAIN.lane,)} | changes
    return EngineConfig(
        models=(ModelSpec(offer=offer, source=str(checkpoint), controlnets=nets),),
        **values,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module", params=[False, True], ids=["one program", "fitted programs"])
def engine(request: pytest.FixtureRequest, checkpoint: Path, nets: dict[str, str]) -> Iterator[Engine]:
    with Engine.open(config(checkpoint, nets, fitted_programs=request.param), report=str) as engine:
        engine.wait_until_ready()
        yield engine


def paint(engine: Engine, *requests: Request) -> list[npt.NDArray[np.int64]]:
    futures = [engine.submit(request) for request in requests]
    return [future.result(DEADLINE).pixels.astype(np.int64) for future in futures]


def test_a_picture_is_the_same_alone_and_beside_others_and_nothing_is_compiled_for_it(engine: Engine) -> None:
    with counted_compilations() as compiled:
        alone = [paint(engine, request)[0] for request in MIXED]
        company = paint(engine, *MIXED)
    assert compiled == []
    fitted = engine._thread.queues[PLAIN.lane].device.fitted  # type: ignore[attr-defined]
    np.testing.assert_allclose(company, alone, rtol=0, atol=1 if fitted else 0)
    np.testing.assert_array_equal(alone[4], alone[0])
    others = [alone[index].tobytes() for index in (0, 1, 2, 3, 5, 6)]
    assert len(set(others)) == len(others)


def test_a_seat_keeps_nothing_of_an_earlier_control_picture(engine: Engine) -> None:
    before = paint(engine, PLAIN, *MIXED)[0]
    np.testing.assert_array_equal(paint(engine, PLAIN)[0], before)
    other = like(CONTROLLED, control_image=file_of(255 - START))
    first = paint(engine, other)[0]
    np.testing.assert_array_equal(paint(engine, *[CONTROLLED] * 4, other)[4], first)


def test_a_second_pass_is_held_to_the_control_picture_in_its_own_size(
    checkpoint: Path, nets: dict[str, str]
) -> None:
    large = dataclasses.replace(PLAIN.lane, height=32, width=32)
    second = SecondPass(height=32, width=32, num_inference_steps=4, strength=0.9)
    requests = [like(each, second_pass=second) for each in (PLAIN, CONTROLLED)]
    with Engine.open(config(checkpoint, nets, lanes=(PLAIN.lane, large)), report=str) as engine:
        plain, controlled = paint(engine, *requests)
        late = like(requests[1], control_interval=(0.6, 1.0))  # the last steps of each pass
        [held_late] = paint(engine, late)
    assert controlled.shape == (32, 32, 3)
    assert np.abs(controlled - plain).max() > 5
    assert np.abs(held_late - plain).max() > 0


def test_networks_of_two_architectures_or_for_another_model_are_refused(
    checkpoint: Path, nets: dict[str, str], tmp_path: Path
) -> None:
    wide = SMALLEST["unet"] | {"conditioning_embedding_out_channels": (8, 20)}
    widths = {"conditioning_embedding_out_channels": (8, 20)}
    other = str(make_tiny_controlnet(tmp_path / "other", unet=wide, **widths))
    with pytest.raises(UnreadableCheckpoint, match=r"must be of one architecture, and canny .* than other"):
        Engine.open(config(checkpoint, {"canny": nets["canny"], "other": other}), report=str)
    deep = str(make_tiny_controlnet(tmp_path / "deep", unet={}))
    with pytest.raises(UnreadableCheckpoint, match="ControlNet deep was made for another kind of model"):
        Engine.open(config(checkpoint, {"deep": deep}), report=str)


def test_controlnets_are_checked_and_counted_before_a_start(
    checkpoint: Path, nets: dict[str, str], tmp_path: Path
) -> None:
    def spec(nets: dict[str, str], *types: ControlType) -> ModelSpec:
        kinds = tuple((kind, name) for name in nets for kind in types)
        offer = dataclasses.replace(TINY, controlnets=tuple(nets), control_types=kinds)
        return ModelSpec(offer=offer, source=str(checkpoint), controlnets=nets)

    def size(spec: ModelSpec) -> int:
        found = check_model(spec, dtype="float32", previews=False)
        assert found is not None
        return found.size

    assert size(spec(nets)) > size(spec({"canny": nets["canny"]})) > size(spec({}))
    assert size(spec({"far": "some/where"}, ControlType.POSE)) == size(spec({}))  # on the hub
    deep = {"deep": str(make_tiny_controlnet(tmp_path / "deep", unet={}))}
    with pytest.raises(UnreadableCheckpoint, match="ControlNet deep was made for another kind of model"):
        size(spec(deep))
    union = make_tiny_controlnet(
        tmp_path / "union", unet=SMALLEST["unet"], kind="ControlNetUnionModel", addition_time_embed_dim=4
    )
    with pytest.raises(
        UnreadableCheckpoint, match=r"know no control pictures of the types tile, picture: .*pose"
    ):
        size(spec({"union": str(union)}, ControlType.POSE, ControlType.TILE, ControlType.PICTURE))
    with pytest.raises(UnreadableCheckpoint, match="know no control pictures of the types tile"):
        Engine.open(
            EngineConfig(models=(spec({"union": str(union)}, ControlType.TILE),), lanes=(PLAIN.lane,)),
            report=str,
        )


def test_a_second_start_with_controlnets_traces_and_compiles_nothing(
    checkpoint: Path, nets: dict[str, str], tmp_path: Path
) -> None:
    how = {"cache_dir": tmp_path / "cache", "cpu_devices": 1, "seats_per_device": 1, "start_pictures": False}
    with Engine.open(config(checkpoint, nets, **how), report=str) as engine:
        first = paint(engine, CONTROLLED)
    with counted_compilations() as made, Engine.open(config(checkpoint, nets, **how), report=str) as engine:
        again = paint(engine, CONTROLLED)
    assert made == []
    np.testing.assert_array_equal(again, first)
